package shard

import (
	"encoding/binary"
	"unsafe"
)

// A ref identifies a record by the index of its chunk and by its 8-byte unit in the chunk.
// If largeRef is set, the ref is an index into the large records. Chunk 0 does not exist,
// so no ref is 0.
const (
	unit      = 8
	unitBits  = 11
	unitMask  = 1<<unitBits - 1
	chunkSize = unit << unitBits // 16 KiB, a size class of the allocator
	largeRef  = 1 << 31
	maxChunks = 1 << (31 - unitBits)

	// chunkCost is a chunk's cost in the account: itself, its pointer and its chunkInfo.
	chunkCost = chunkSize + 8 + 16
	// largeCost is the cost of a large record beyond its own bytes: its slice header.
	largeCost = 24

	noUnit = 0xffff
	// freeLens replaces a record's lens to mark the record as free: its key length is more
	// than MaxKeyLen. The meta word is then the next free unit.
	freeLens = 0xffffffff
)

type chunk [chunkSize]byte

// chunkInfo describes a chunk. A chunk with room is in its class's list, unless
// it is being drained.
type chunkInfo struct {
	prev, next uint32 // in the class's list; 0 if there is none
	free       uint16 // first freed unit, noUnit for none
	bump       uint16 // units handed out at least once
	live       uint16 // records in use
	class      uint8
	listed     bool
}

// class is the state of one size class. A chunk that becomes partly free moves to the head
// of the list, where it is filled first. Chunks with few records move to the tail, where
// compaction looks for chunks to empty. Each chunk has its own free list. A free list of
// the class would have to be searched for all records of a chunk before the chunk is given
// back.
type class struct {
	head, tail uint32 // list of chunks with room
	chunks     uint32
	live       uint32 // records in use
}

// arena holds the records of one shard: chunks of equal-sized records, and
// large records with an allocation of their own. The shard's lock guards it.
type arena struct {
	chunks    []*chunk // by chunk index; nil when unused
	info      []chunkInfo
	large     [][]byte // by index; nil when unused
	account   *account
	unused    []uint32 // indexes of chunks without a chunk
	noLarge   []uint32 // indexes of large without a record
	spare     *chunk   // one empty chunk, kept until the next sweep
	drain     uint32   // chunk being drained; 0 if there is none
	drainPos  uint32   // unit at which draining continues
	nextClass uint8    // where compaction looks next
	lastClass uint8    // of the last record taken
	class     [numClasses]class
}

func (a *arena) init(acct *account) { a.account = acct }

// record returns the bytes of a record in use.
func (a *arena) record(ref uint32) []byte {
	if ref&largeRef != 0 {
		return a.large[ref&^largeRef]
	}
	rec := a.room(ref)
	lens := binary.LittleEndian.Uint32(rec[4:])
	return rec[:recordHeader+lens>>keyLenBits*8+lens&keyLenMask]
}

// address returns the address of a record in a chunk, without an index into the chunk. For
// an index, Go reads the chunk's first bytes to check for nil. Chunks begin 16 KiB apart,
// so their first bytes share a few sets of each cache and are usually not in the cache.
func (a *arena) address(ref uint32) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(a.chunks[ref>>unitBits]), ref&unitMask*unit)
}

// room returns the bytes from the beginning of a record in a chunk to the end of the
// chunk.
func (a *arena) room(ref uint32) []byte {
	return unsafe.Slice((*byte)(a.address(ref)), chunkSize-ref&unitMask*unit)
}

// format sets the lens of an allocated record and returns its bytes.
func (a *arena) format(ref uint32, key, words int) []byte {
	size := recordSize(key, words)
	var rec []byte
	if ref&largeRef != 0 {
		rec = a.large[ref&^largeRef][:size]
		a.large[ref&^largeRef] = rec
	} else {
		rec = a.room(ref)[:size]
	}
	binary.LittleEndian.PutUint32(rec[4:], packLens(key, words))
	return rec
}

// fits reports whether the record at ref has room for size bytes without wasting more
// than half of its room.
func (a *arena) fits(ref uint32, size int) bool {
	if ref&largeRef != 0 {
		room := cap(a.large[ref&^largeRef])
		return size > maxSmall && size <= room && size > room/2
	}
	return size <= maxSmall && classes.of(size) == int(a.info[ref>>unitBits].class)
}

// alloc takes a record of a class from a chunk with room. If ok is false, grow must first
// add a chunk.
func (a *arena) alloc(class int) (ref uint32, ok bool) {
	cl := &a.class[class]
	if cl.head == 0 && a.drain != 0 && int(a.info[a.drain].class) == class {
		a.stopDrain()
	}
	n := cl.head
	if n == 0 {
		return 0, false
	}
	ci := &a.info[n]
	at := ci.free
	if at != noUnit {
		ci.free = uint16(binary.LittleEndian.Uint32(a.room(n<<unitBits | uint32(at))))
	} else {
		at = ci.bump
		ci.bump += classes.units(class)
	}
	ci.live++
	cl.live++
	a.lastClass = uint8(class)
	if !ci.hasRoom() {
		a.unlink(n)
	}
	return n<<unitBits | uint32(at), true
}

// hasRoom reports whether alloc will succeed.
func (a *arena) hasRoom(class int) bool {
	return a.class[class].head != 0 || a.drain != 0 && int(a.info[a.drain].class) == class
}

func (ci *chunkInfo) hasRoom() bool {
	return ci.free != noUnit || ci.bump+classes.units(int(ci.class)) <= 1<<unitBits
}

// grow adds a chunk to a class, if the account allows it within slack.
func (a *arena) grow(class int, slack int64) bool {
	c := a.spare
	if c == nil {
		if len(a.unused) == 0 && len(a.chunks) >= maxChunks || !a.account.take(chunkCost, slack) {
			return false
		}
		c = new(chunk)
		if a.account.pool.Bytes() > hugeFrom {
			adviseHugePages(unsafe.Pointer(c))
		}
	}
	a.spare = nil
	if len(a.chunks) == 0 {
		a.chunks = append(a.chunks, nil)
		a.info = append(a.info, chunkInfo{})
	}
	var n uint32
	if last := len(a.unused) - 1; last >= 0 {
		n = a.unused[last]
		a.unused = a.unused[:last]
	} else {
		n = uint32(len(a.chunks))
		a.chunks = append(a.chunks, nil)
		a.info = append(a.info, chunkInfo{})
	}
	a.chunks[n] = c
	a.info[n] = chunkInfo{free: noUnit, class: uint8(class)}
	a.class[class].chunks++
	a.pushFront(n)
	return true
}

// free frees a record. It also releases the chunk if that was its last record.
func (a *arena) free(ref uint32) {
	if ref&largeRef != 0 {
		n := ref &^ largeRef
		a.account.add(-int64(cap(a.large[n])) - largeCost)
		a.large[n] = nil
		a.noLarge = append(a.noLarge, n)
		return
	}
	n := ref >> unitBits
	ci := &a.info[n]
	rec := a.room(ref)
	binary.LittleEndian.PutUint32(rec, uint32(ci.free))
	binary.LittleEndian.PutUint32(rec[4:], freeLens)
	ci.free = uint16(ref & unitMask)
	ci.live--
	a.class[ci.class].live--
	switch {
	case ci.live == 0:
		a.releaseChunk(n)
	case !ci.listed && n != a.drain:
		a.pushFront(n)
	}
}

// releaseChunk removes an empty chunk from its class. One empty chunk is kept as the spare
// until the next sweep, so that a key that is repeatedly added and deleted does not
// allocate a chunk each time.
func (a *arena) releaseChunk(n uint32) {
	if a.info[n].listed {
		a.unlink(n)
	}
	if a.drain == n {
		a.drain = 0
	}
	a.class[a.info[n].class].chunks--
	if a.spare == nil {
		a.spare = a.chunks[n]
	} else {
		a.account.add(-chunkCost)
	}
	a.chunks[n] = nil
	a.unused = append(a.unused, n)
}

func (a *arena) dropSpare() {
	if a.spare != nil {
		a.spare = nil
		a.account.add(-chunkCost)
	}
}

// allocLarge makes a large record of size bytes, if the account allows it
// within slack.
func (a *arena) allocLarge(size int, slack int64) (ref uint32, ok bool) {
	if !a.account.fits(int64(size)+largeCost, slack) {
		return 0, false
	}
	b := makeLarge(size)
	if !a.account.take(int64(cap(b))+largeCost, slack) {
		return 0, false
	}
	return a.addLarge(b), true
}

// allocReserved is allocLarge for n bytes that are already in the account.
func (a *arena) allocReserved(size int, n int64) (ref uint32) {
	b := makeLarge(size)
	a.account.add(int64(cap(b)) + largeCost - n)
	return a.addLarge(b)
}

// makeLarge returns a slice of size bytes. Its capacity is what the allocator rounds size
// up to.
func makeLarge(size int) []byte { return append([]byte(nil), make([]byte, size)...) }

// addLarge adds b as a large record.
func (a *arena) addLarge(b []byte) (ref uint32) {
	if last := len(a.noLarge) - 1; last >= 0 {
		n := a.noLarge[last]
		a.noLarge = a.noLarge[:last]
		a.large[n] = b
		return largeRef | n
	}
	a.large = append(a.large, b)
	return largeRef | uint32(len(a.large)-1)
}

func (a *arena) pushFront(n uint32) {
	ci := &a.info[n]
	cl := &a.class[ci.class]
	ci.prev, ci.next = 0, cl.head
	if cl.head != 0 {
		a.info[cl.head].prev = n
	} else {
		cl.tail = n
	}
	cl.head = n
	ci.listed = true
}

func (a *arena) pushBack(n uint32) {
	ci := &a.info[n]
	cl := &a.class[ci.class]
	ci.prev, ci.next = cl.tail, 0
	if cl.tail != 0 {
		a.info[cl.tail].next = n
	} else {
		cl.head = n
	}
	cl.tail = n
	ci.listed = true
}

func (a *arena) unlink(n uint32) {
	ci := &a.info[n]
	cl := &a.class[ci.class]
	if ci.prev != 0 {
		a.info[ci.prev].next = ci.next
	} else {
		cl.head = ci.next
	}
	if ci.next != 0 {
		a.info[ci.next].prev = ci.prev
	} else {
		cl.tail = ci.prev
	}
	ci.prev, ci.next = 0, 0
	ci.listed = false
}

// chunkCount returns the number of chunks in use, including the spare.
func (a *arena) chunkCount() int {
	n := len(a.chunks) - len(a.unused)
	if len(a.chunks) > 0 {
		n-- // chunk 0
	}
	if a.spare != nil {
		n++
	}
	return n
}

func (a *arena) largeCount() int { return len(a.large) - len(a.noLarge) }

// accounted returns the bytes of this arena in the account.
func (a *arena) accounted() int64 {
	n := int64(a.chunkCount()) * chunkCost
	for _, b := range a.large {
		if b != nil {
			n += int64(cap(b)) + largeCost
		}
	}
	return n
}

// each calls fn for the used records of a class, or for large records if class is
// numClasses. It begins at a random place, and ends when fn returns true.
func (a *arena) each(class int, random uint64, fn func(ref uint32) bool) {
	if class == numClasses {
		for i := range a.large {
			n := (i + int(random%uint64(len(a.large)))) % len(a.large)
			if a.large[n] != nil && fn(largeRef|uint32(n)) {
				return
			}
		}
		return
	}
	step := uint32(classes.units(class))
	for i := range a.chunks {
		n := uint32(i+int(random%uint64(len(a.chunks)))) % uint32(len(a.chunks))
		if a.chunks[n] == nil || int(a.info[n].class) != class {
			continue
		}
		records := uint32(a.info[n].bump) / step
		first := uint32(random>>32) % records
		for r := range records {
			at := (first + r) % records * step
			if binary.LittleEndian.Uint32(a.chunks[n][at*unit+4:]) != freeLens && fn(n<<unitBits|at) {
				return
			}
		}
	}
}
