package lua

import (
	"math"
	"math/bits"
	"unsafe"
)

// Table is a Lua table. It follows Lua 5.1's own layout step by step: an array
// part and a hash part with Brent's variation, the same hashes for numbers and
// strings, the same sizes at the same moments. So the order of pairs, and the
// border that # finds in a table with holes, are as in Redis.
type Table struct {
	array    []Value // keys 1..len(array), nil where absent
	nodes    []node  // the hash part, a power of two or empty
	lastFree int     // all nodes from here on are taken
	meta     *Table
	frozen   bool
	mark     uint32 // the mark of the last count that reached the table
}

// node is a place in the hash part. Its key stays when its value becomes nil,
// so that a traversal can go on from it.
type node struct {
	key, value Value
	next       int32 // the place of the next node of the chain, plus one
	hash       uint32
}

const (
	tableBytes = int(unsafe.Sizeof(Table{}))
	valueBytes = int(unsafe.Sizeof(Value{}))
	nodeBytes  = int(unsafe.Sizeof(node{}))

	maxArrayBits = 26
)

// NewTable makes a table with room for array elements and hash entries; the
// room for entries is rounded up to a power of two. Nothing is charged: see
// Thread.NewTable.
func NewTable(array, hash int) *Table {
	t := new(Table)
	if array > 0 {
		t.array = make([]Value, array)
	}
	t.makeNodes(hash)
	return t
}

// NewTable makes a table for the script and charges it.
func (th *Thread) NewTable(array, hash int) *Table {
	th.Alloc(tableBytes + array*valueBytes + 2*hash*nodeBytes)
	t := th.pool.table()
	t.array = th.pool.values(array)
	t.makeNodes(hash)
	return t
}

// ListSize returns the size of the array part after the elements 1 to n were
// assigned one after the other.
func ListSize(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}

func (t *Table) makeNodes(n int) {
	if n == 0 {
		t.nodes, t.lastFree = nil, 0
		return
	}
	n = 1 << bits.Len(uint(n-1))
	t.nodes, t.lastFree = make([]node, n), n
}

// Metatable returns the table's metatable or nil.
func (t *Table) Metatable() *Table { return t.meta }

// Freeze makes the table readonly for scripts, forever.
func (t *Table) Freeze() { t.frozen = true }

// Frozen reports whether the table is readonly.
func (t *Table) Frozen() bool { return t.frozen }

// hashText is Lua 5.1's hash of a string.
func hashText(s string) uint32 {
	h := uint32(len(s))
	step := len(s)>>5 + 1
	for i := len(s); i >= step; i -= step {
		h ^= h<<5 + h>>2 + uint32(s[i-1])
	}
	return h
}

// hashOf returns the hash of a key that is not nil.
func hashOf(key Value) uint32 {
	switch {
	case key.IsString():
		return hashText(key.Text())
	case key.ref != nil:
		return uint32(uintptr(key.ref) >> 3)
	case key.IsNumber():
		f := key.Number()
		if f == 0 {
			return 0
		}
		b := math.Float64bits(f)
		return uint32(b) + uint32(b>>32)
	}
	return uint32(key.bits - bitsFalse)
}

// position returns the main position of a key in the hash part.
func (t *Table) position(key Value, hash uint32) int32 {
	n := uint32(len(t.nodes))
	if key.IsString() || key.ref == nil && key.bits <= bitsTrue {
		return int32(hash & (n - 1))
	}
	return int32(hash % ((n - 1) | 1))
}

// Text returns the value of a string key. It charges th if many keys have the same place,
// as all methods do that look up a key. th may be nil.
func (t *Table) Text(th *Thread, key string) Value { return t.text(th, key, hashText(key)) }

func (t *Table) text(th *Thread, key string, hash uint32) Value {
	if n := t.findText(th, key, hash); n != nil {
		return n.value
	}
	return Nil
}

func (t *Table) findText(th *Thread, key string, hash uint32) *node {
	if len(t.nodes) == 0 {
		return nil
	}
	n := &t.nodes[hash&uint32(len(t.nodes)-1)]
	for passed := 1; ; passed++ {
		if n.hash == hash && n.key.IsString() {
			if n.key.Text() == key {
				return n
			}
			passed += th.collided(n.key, len(key))
		}
		if n.next == 0 {
			return nil
		}
		if passed >= chainPiece {
			th.charge(passed)
			passed = 0
		}
		n = &t.nodes[n.next-1]
	}
}

// chainPiece is how many nodes of a chain are passed between two charges. It is more than
// most chains have.
const chainPiece = 32

// collided returns the price, in nodes passed, of a comparison: it finds that a key with
// the same hash differs from a string of n bytes.
func (th *Thread) collided(key Value, n int) int {
	if len(key.Text()) == n {
		return n / 64
	}
	return 0
}

// charge does the same as Step. A nil thread is not charged.
func (th *Thread) charge(n int) {
	if th != nil {
		th.Step(n)
	}
}

// Int returns the value of an integer key.
func (t *Table) Int(th *Thread, key int) Value {
	if uint(key-1) < uint(len(t.array)) {
		return t.array[key-1]
	}
	if n := t.findNode(th, Int(key)); n != nil {
		return n.value
	}
	return Nil
}

// Get returns the value of a key of any type, without metamethods; nil if the key does not
// exist.
func (t *Table) Get(th *Thread, key Value) Value {
	if key.IsNumber() {
		f := key.Number()
		if i := int(f); uint(i-1) < uint(len(t.array)) && float64(i) == f {
			return t.array[i-1]
		}
	} else if key.IsString() {
		return t.Text(th, key.Text())
	}
	if n := t.findNode(th, key); n != nil {
		return n.value
	}
	return Nil
}

func (t *Table) findNode(th *Thread, key Value) *node {
	if len(t.nodes) == 0 || key.IsNil() {
		return nil
	}
	hash := hashOf(key)
	if key.IsString() {
		return t.findText(th, key.Text(), hash)
	}
	n := &t.nodes[t.position(key, hash)]
	for passed := 1; ; passed++ {
		if n.hash == hash && RawEqual(n.key, key) {
			return n
		}
		if n.next == 0 {
			return nil
		}
		if passed >= chainPiece {
			th.charge(passed)
			passed = 0
		}
		n = &t.nodes[n.next-1]
	}
}

// slot returns a pointer to the value of a key, which may be nil. If the key does not
// exist, slot returns nil.
func (t *Table) slot(th *Thread, key Value) *Value {
	if key.IsNumber() {
		f := key.Number()
		if i := int(f); uint(i-1) < uint(len(t.array)) && float64(i) == f {
			return &t.array[i-1]
		}
	}
	if n := t.findNode(th, key); n != nil {
		return &n.value
	}
	return nil
}

// SetInt does the same as Set for an integer key.
func (t *Table) SetInt(th *Thread, key int, value Value) {
	if uint(key-1) < uint(len(t.array)) && !t.frozen {
		t.array[key-1] = value
		return
	}
	t.Set(th, Int(key), value)
}

// SetText does the same as Set for a string key.
func (t *Table) SetText(th *Thread, key string, value Value) { t.Set(th, String(key), value) }

// Set assigns without metamethods. It raises an error if the table is readonly
// or the key nil or NaN, and charges th if the table grows.
func (t *Table) Set(th *Thread, key, value Value) { th.rawSet(t, key, value, 0) }

// refusal is why key cannot be assigned to, "" if it can.
func (t *Table) refusal(key Value) string {
	switch {
	case t.frozen:
		return "Attempt to modify a readonly table"
	case key.IsNil():
		return "table index is nil"
	case key.IsNumber() && key.Number() != key.Number():
		return "table index is NaN"
	}
	return ""
}

// place returns the place of a key's value. The key must be one that refusal accepts.
func (t *Table) place(th *Thread, key Value) *Value {
	if p := t.slot(th, key); p != nil {
		return p
	}
	return t.newKey(th, key)
}

// insert is Set where nothing is charged and no error can be: the key is
// neither nil nor NaN.
func (t *Table) insert(key, value Value) { *t.place(nil, key) = value }

// newKey makes a place for a key that does not exist. If the key's main position holds a
// node that belongs elsewhere, that node moves to a free place. Otherwise the new key uses
// the free place. Without a free place, the table grows.
func (t *Table) newKey(th *Thread, key Value) *Value {
	hash := hashOf(key)
	if len(t.nodes) == 0 {
		return t.grow(th, key)
	}
	at := t.position(key, hash)
	mp := &t.nodes[at]
	if !mp.value.IsNil() {
		free := t.freePlace()
		if free < 0 {
			return t.grow(th, key)
		}
		n := &t.nodes[free]
		other := t.position(mp.key, mp.hash)
		if other != at {
			passed := 0
			for ; t.nodes[other].next != at+1; passed++ {
				other = t.nodes[other].next - 1
			}
			if passed >= chainPiece {
				th.charge(passed)
			}
			t.nodes[other].next = int32(free) + 1
			*n = *mp
			mp.next, mp.value = 0, Nil
		} else {
			n.next, mp.next = mp.next, int32(free)+1
			mp = n
		}
	}
	mp.key, mp.hash = key, hash
	return &mp.value
}

func (t *Table) freePlace() int {
	for t.lastFree > 0 {
		t.lastFree--
		if t.nodes[t.lastFree].key.IsNil() {
			return t.lastFree
		}
	}
	return -1
}

// grow makes both parts of the table again. Their sizes fit the new key and the keys that
// have values. It returns the new key's place.
func (t *Table) grow(th *Thread, key Value) *Value {
	var counts [maxArrayBits + 1]int // counts[i]: integer keys in (2^(i-1), 2^i]
	ints := t.countArray(&counts)
	total := ints
	for i := range t.nodes {
		if n := &t.nodes[i]; !n.value.IsNil() {
			ints += countInt(n.key, &counts)
			total++
		}
	}
	ints += countInt(key, &counts)
	total++
	size, inArray := arraySize(&counts, ints)
	t.resize(th, size, total-inArray)
	return t.place(th, key)
}

func (t *Table) countArray(counts *[maxArrayBits + 1]int) int {
	used := 0
	for i := range t.array {
		if !t.array[i].IsNil() {
			counts[bits.Len(uint(i))]++
			used++
		}
	}
	return used
}

// countInt counts a key that could be in the array part.
func countInt(key Value, counts *[maxArrayBits + 1]int) int {
	if !key.IsNumber() {
		return 0
	}
	f := key.Number()
	if i := int(f); float64(i) == f && i > 0 && i <= 1<<maxArrayBits {
		counts[bits.Len(uint(i-1))]++
		return 1
	}
	return 0
}

// arraySize returns the largest power of two such that more than half of the places
// are used, and how many keys go there.
func arraySize(counts *[maxArrayBits + 1]int, ints int) (size, used int) {
	sum := 0
	for i, power := 0, 1; power/2 < ints; i, power = i+1, power*2 {
		if counts[i] > 0 {
			sum += counts[i]
			if sum > power/2 {
				size, used = power, sum
			}
		}
		if sum == ints {
			break
		}
	}
	return size, used
}

func (t *Table) resize(th *Thread, array, hash int) {
	if th != nil {
		th.Step((len(t.array) + len(t.nodes)) / 4)
		th.Alloc(max(0, array-len(t.array))*valueBytes + 2*hash*nodeBytes)
	}
	old, nodes := t.array, t.nodes
	if array > len(old) {
		t.array = make([]Value, array)
		copy(t.array, old)
	}
	t.makeNodes(hash)
	if array < len(old) {
		t.array = append([]Value(nil), old[:array]...)
		for i, v := range old[array:] {
			if !v.IsNil() {
				*t.newKey(th, Int(array+i+1)) = v
			}
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		if n := &nodes[i]; !n.value.IsNil() {
			*t.place(th, n.key) = n.value
		}
	}
}

// Length returns the border that # gives.
func (t *Table) Length(th *Thread) int {
	j := len(t.array)
	if j > 0 && t.array[j-1].IsNil() {
		i := 0
		for j-i > 1 {
			if m := (i + j) / 2; t.array[m-1].IsNil() {
				j = m
			} else {
				i = m
			}
		}
		return i
	}
	if len(t.nodes) == 0 {
		return j
	}
	i := j
	j++
	for !t.Int(th, j).IsNil() {
		i = j
		if j *= 2; j > math.MaxInt32 { // as in Lua, such a table is walked
			for i = 1; !t.Int(th, i).IsNil(); i++ {
				th.charge(1)
			}
			return i - 1
		}
	}
	for j-i > 1 {
		if m := (i + j) / 2; t.Int(th, m).IsNil() {
			j = m
		} else {
			i = m
		}
	}
	return i
}

// Next returns the entry after the entry of key. For a nil key it returns the first entry.
// At the end it returns a nil key. ok is false if key does not exist.
func (t *Table) Next(th *Thread, key Value) (next, value Value, ok bool) {
	i, ok := t.turn(th, key)
	if !ok {
		return Nil, Nil, false
	}
	next, value, _ = t.after(th, i)
	return next, value, true
}

// turn returns the number of key in the order of traversal, counted from one.
func (t *Table) turn(th *Thread, key Value) (int, bool) {
	if key.IsNil() {
		return 0, true
	}
	if key.IsNumber() {
		f := key.Number()
		if i := int(f); uint(i-1) < uint(len(t.array)) && float64(i) == f {
			return i, true
		}
	}
	n := t.findNode(th, key)
	if n == nil {
		return 0, false
	}
	at := int((uintptr(unsafe.Pointer(n)) - uintptr(unsafe.Pointer(&t.nodes[0]))) / unsafe.Sizeof(*n))
	return len(t.array) + at + 1, true
}

// after returns the first entry after position i, and its position; 0 if there
// is none. It charges for the empty places that it passes over.
func (t *Table) after(th *Thread, i int) (key, value Value, position int) {
	from := i
	for ; i < len(t.array); i++ {
		if !t.array[i].IsNil() {
			th.passedOver(i - from)
			return Int(i + 1), t.array[i], i + 1
		}
	}
	for j := i - len(t.array); j < len(t.nodes); j++ {
		if n := &t.nodes[j]; !n.value.IsNil() {
			th.passedOver(len(t.array) + j - from)
			return n.key, n.value, len(t.array) + j + 1
		}
	}
	th.passedOver(len(t.array) + len(t.nodes) - from)
	return Nil, Nil, 0
}

// passedOver charges for empty places in a table.
func (th *Thread) passedOver(n int) {
	if n >= 8 {
		th.charge(n / 8)
	}
}
