package policy

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"
)

// table maps keys to small numbers, each until a time. The numbers are indexes of values
// that many keys share. A table is immutable; a tableEditor makes the next table and copies
// only the parts that change. Parts have no pointers, so the garbage collector does not
// scan a million keys.
type table struct {
	parts []part // 1 or manyParts; a part without slots is empty
	count int
	one   [1]part // is parts, if that is one
}

const (
	// With manyParts, a change of one key in a million copies 300 KB.
	manyParts = 256
	// fewKeys is the most keys for which a table is one part: most have a handful.
	fewKeys = 512
)

// part is an open-addressing table of its own.
type part struct {
	// slots holds, for each entry, its position in data plus 1, and the upper half of its
	// hash. A position of 0 is a free slot. At least one slot is free.
	slots []slot
	// data holds the entries, one after the other: the length of the key (2 bytes), the
	// value (4), until (8), the key. dead is how many bytes belong to removed entries,
	// whose value is deadValue.
	data  []byte
	dead  int
	count int
}

type slot struct{ tag, at uint32 }

const (
	entryHead = 2 + 4 + 8
	deadValue = 1<<32 - 1
)

// part returns the number of a hash's part. Slots use other bits.
func (t *table) part(hash uint64) int { return int(hash>>24) & (len(t.parts) - 1) }

// find returns the value of a key whose entry has not ended at now, or -1.
func (t *table) find(hash uint64, key []byte, now int64) int {
	p := &t.parts[t.part(hash)]
	if p.slots == nil {
		return -1
	}
	at := p.entry(hash, key)
	if at < 0 {
		return -1
	}
	e := p.data[at:]
	if until := int64(binary.LittleEndian.Uint64(e[6:])); until != 0 && until <= now {
		return -1
	}
	return int(binary.LittleEndian.Uint32(e[2:]))
}

// entry returns the place of a key's entry in p.data, or -1.
func (p *part) entry(hash uint64, key []byte) int {
	mask := uint64(len(p.slots) - 1)
	tag := uint32(hash >> 32)
	for i := hash; ; i++ {
		s := p.slots[i&mask]
		if s.at == 0 {
			return -1
		}
		if s.tag == tag && string(p.key(int(s.at-1))) == string(key) {
			return int(s.at - 1)
		}
	}
}

func (p *part) key(at int) []byte {
	n := int(binary.LittleEndian.Uint16(p.data[at:]))
	return p.data[at+entryHead : at+entryHead+n]
}

// all yields the keys with their values and ends, in no order.
func (t *table) all() iter.Seq2[[]byte, entryValue] {
	return func(yield func([]byte, entryValue) bool) {
		for i := range t.parts {
			p := &t.parts[i]
			for _, s := range p.slots {
				if s.at != 0 && !yield(p.key(int(s.at-1)), p.value(int(s.at-1))) {
					return
				}
			}
		}
	}
}

// entryValue is what a table says about a key.
type entryValue struct {
	index int
	until int64 // 0: for good
}

func (p *part) value(at int) entryValue {
	return entryValue{
		index: int(binary.LittleEndian.Uint32(p.data[at+2:])),
		until: int64(binary.LittleEndian.Uint64(p.data[at+6:])),
	}
}

// tableEditor makes a table from another.
type tableEditor struct {
	seed maphash.Seed
	next *table
	// own marks the parts that the editor has copied and may change.
	own []bool
	one [1]bool // is own, if there is one part
}

// edit returns an editor of t, which may be nil.
func (t *table) edit(seed maphash.Seed) *tableEditor {
	e := &tableEditor{seed: seed, next: new(table)}
	e.next.parts = e.next.one[:]
	switch {
	case t == nil:
	case len(t.parts) == 1:
		e.next.one, e.next.count = t.one, t.count
	default:
		e.next.parts, e.next.count = slices.Clone(t.parts), t.count
	}
	if e.own = e.one[:]; len(e.next.parts) > 1 {
		e.own = make([]bool, len(e.next.parts))
	}
	return e
}

// table returns the new table, nil if it is empty. The editor must not be used again.
func (e *tableEditor) table() *table {
	if e.next.count == 0 {
		return nil
	}
	return e.next
}

// part returns the part of a hash, which it copies if it is not the editor's own.
func (e *tableEditor) part(hash uint64) *part {
	i := e.next.part(hash)
	p := &e.next.parts[i]
	switch {
	case p.slots == nil:
		p.slots = make([]slot, 4)
	case !e.own[i]:
		p.slots, p.data = slices.Clone(p.slots), slices.Clone(p.data)
	}
	e.own[i] = true
	return p
}

// set gives a key a value, and reports whether the key is new.
func (e *tableEditor) set(key []byte, v entryValue) bool {
	hash := maphash.Bytes(e.seed, key)
	p := e.part(hash)
	if at := p.entry(hash, key); at >= 0 {
		p.put(at, v)
		return false
	}
	if e.next.count == fewKeys && len(e.next.parts) == 1 {
		e.split()
		p = e.part(hash)
	}
	p.add(e.seed, hash, key, v)
	e.next.count++
	return true
}

// split divides one part into manyParts.
func (e *tableEditor) split() {
	all := e.next.one[0]
	e.next.one[0] = part{}
	e.next.parts, e.own = make([]part, manyParts), make([]bool, manyParts)
	for at := 0; at < len(all.data); at += entryHead + len(all.key(at)) {
		if v := all.value(at); v.index != deadValue {
			hash := maphash.Bytes(e.seed, all.key(at))
			e.part(hash).add(e.seed, hash, all.key(at), v)
		}
	}
}

// remove removes a key, and reports whether it existed.
func (e *tableEditor) remove(key []byte) bool {
	hash := maphash.Bytes(e.seed, key)
	old := &e.next.parts[e.next.part(hash)]
	if old.slots == nil || old.entry(hash, key) < 0 {
		return false
	}
	e.part(hash).remove(e.seed, hash, key)
	e.next.count--
	return true
}

// Add enters a key that is absent.
func (p *part) add(seed maphash.Seed, hash uint64, key []byte, v entryValue) {
	if 4*(p.count+1) > 3*len(p.slots) {
		p.rebuild(seed, 2*len(p.slots))
	}
	at := len(p.data)
	p.data = slices.Grow(p.data, entryHead+len(key))[:at+entryHead]
	binary.LittleEndian.PutUint16(p.data[at:], uint16(len(key)))
	p.data = append(p.data, key...)
	p.put(at, v)
	p.place(hash, at)
	p.count++
}

func (p *part) put(at int, v entryValue) {
	binary.LittleEndian.PutUint32(p.data[at+2:], uint32(v.index))
	binary.LittleEndian.PutUint64(p.data[at+6:], uint64(v.until))
}

// Place enters an entry into the first free slot from its hash.
func (p *part) place(hash uint64, at int) {
	mask := uint64(len(p.slots) - 1)
	i := hash
	for p.slots[i&mask].at != 0 {
		i++
	}
	p.slots[i&mask] = slot{uint32(hash >> 32), uint32(at + 1)}
}

// remove removes a key that is present.
func (p *part) remove(seed maphash.Seed, hash uint64, key []byte) {
	at := p.entry(hash, key)
	p.put(at, entryValue{index: deadValue})
	p.dead += entryHead + len(key)
	p.count--
	if 2*p.dead > len(p.data) {
		p.rebuild(seed, len(p.slots))
		return
	}
	mask := uint64(len(p.slots) - 1)
	free := hash & mask
	for p.slots[free].at != uint32(at+1) {
		free = (free + 1) & mask
	}
	// Move a later entry into the freed slot if it belongs there, so that no search ends
	// before that entry.
	for i := (free + 1) & mask; p.slots[i].at != 0; i = (i + 1) & mask {
		home := maphash.Bytes(seed, p.key(int(p.slots[i].at-1))) & mask
		if (i-home)&mask >= (i-free)&mask {
			p.slots[free] = p.slots[i]
			free = i
		}
	}
	p.slots[free] = slot{}
}

// rebuild enters all entries that are not removed into n new slots.
func (p *part) rebuild(seed maphash.Seed, n int) {
	old := p.data
	p.slots = make([]slot, n)
	p.data, p.dead = make([]byte, 0, len(old)), 0
	for at := 0; at < len(old); {
		end := at + entryHead + int(binary.LittleEndian.Uint16(old[at:]))
		if binary.LittleEndian.Uint32(old[at+2:]) != deadValue {
			p.place(maphash.Bytes(seed, old[at+entryHead:end]), len(p.data))
			p.data = append(p.data, old[at:end]...)
		}
		at = end
	}
}
