package reservation

import "math/bits"

// Index has the hashes of the keys of reservations: open ones by the second in which they
// end, settled ones in the order of settlement. A hash takes 8 bytes, and finds the
// record. Hashes are never removed from the middle, so one may be of a reservation that
// is settled or gone.
type Index struct {
	// due is a ring of seconds, which is made when the first hash arrives. Second n is at
	// n%dueSeconds. next is the first second that may have hashes. marked has a bit for
	// each second, which says whether the second has hashes.
	due     []Queue
	marked  [dueSeconds / 64]uint64
	next    int64
	DueKeys int
	// done has the settled reservations, oldest first.
	done     Queue
	DoneKeys int
}

const (
	// holdTick is a second of due, ns.
	holdTick = 1_000_000_000
	// dueSeconds is the number of seconds: a power of two, above MaxHoldTTL plus one. A
	// later end is possible after the clock was set back. It is looked at too early and
	// entered again.
	dueSeconds = 4096
)

// Queue is a queue of hashes in chunks.
type Queue struct{ head, tail *Chunk }

type Chunk struct {
	next *Chunk
	last int64 // the latest time of the chunk's hashes
	// hashes[from:n] are in use.
	from, n int
	hashes  [hashChunkLen]uint64
}

// hashChunkLen makes a chunk 512 bytes.
const hashChunkLen = 60

func (q *Queue) push(hash uint64, at int64) {
	c := q.tail
	if c == nil || c.n == len(c.hashes) {
		c = &Chunk{last: at}
		if q.tail == nil {
			q.head = c
		} else {
			q.tail.next = c
		}
		q.tail = c
	}
	c.hashes[c.n] = hash
	c.n++
	c.last = max(c.last, at)
}

// Empty reports whether nothing is left.
func (q *Queue) Empty() bool { return q.head == nil }

// Drop removes the first chunk of the queue, which must not be empty.
func (q *Queue) Drop() *Chunk {
	c := q.head
	if q.head = c.next; q.head == nil {
		q.tail = nil
	}
	c.next = nil
	return c
}

// pop removes the first hash of the queue, which must not be empty.
func (q *Queue) pop() uint64 {
	c := q.head
	hash := c.hashes[c.from]
	if c.from++; c.from == c.n {
		q.Drop()
	}
	return hash
}

// Left returns the remaining hashes of a chunk.
func (c *Chunk) Left() []uint64 { return c.hashes[c.from:c.n] }

// Enter adds the hash of a reservation that ends at a time.
func (x *Index) Enter(now, ends int64, hash uint64) {
	if x.due == nil {
		x.due = make([]Queue, dueSeconds)
	}
	if x.DueKeys == 0 {
		x.next = now / holdTick
	}
	// Use the second after its end, so that all its hashes have ended by then.
	at := min(max(ends/holdTick+1, x.next), x.next+dueSeconds-1)
	i := uint64(at) % dueSeconds
	x.due[i].push(hash, ends)
	x.marked[i/64] |= 1 << (i % 64)
	x.DueKeys++
}

// first returns the first second that has hashes; due must have some.
func (x *Index) first() int64 {
	start := uint64(x.next) % dueSeconds
	word := x.marked[start/64] &^ (1<<(start%64) - 1)
	for i := start / 64; ; word = x.marked[i] {
		if word != 0 {
			at := i*64 + uint64(bits.TrailingZeros64(word))
			return x.next + int64((at-start)%dueSeconds)
		}
		i = (i + 1) % uint64(len(x.marked))
	}
}

// emptied clears the mark of a second that has no hashes.
func (x *Index) emptied(second int64) {
	if i := uint64(second) % dueSeconds; x.due[i].head == nil {
		x.marked[i/64] &^= 1 << (i % 64)
	}
}

// TakeDue removes and returns the hashes of all open reservations.
func (x *Index) TakeDue() []Queue {
	due := x.due
	x.due, x.DueKeys = nil, 0
	clear(x.marked[:])
	return due
}

// Take removes and returns some hashes of reservations that have ended by now, nil if
// there are none.
func (x *Index) Take(now int64) []uint64 {
	last := now / holdTick
	if x.DueKeys == 0 {
		return nil
	}
	at := x.first()
	if at > last {
		x.next = max(x.next, last)
		return nil
	}
	x.next = at
	hashes := x.due[uint64(at)%dueSeconds].Drop().Left()
	x.emptied(at)
	x.DueKeys -= len(hashes)
	return hashes
}

// Settle adds the hash of a reservation that is settled, and kept until a time.
func (x *Index) Settle(until int64, hash uint64) {
	x.done.push(hash, until)
	x.DoneKeys++
}

// Forget drops from the front of done the hashes that are no longer kept.
func (x *Index) Forget(now int64) {
	for x.done.head != nil && x.done.head.last < now {
		x.DoneKeys -= len(x.done.Drop().Left())
	}
}

// Victim is the hash of a reservation that must make room. It says whether the
// reservation was settled.
type Victim struct {
	Hash    uint64
	Settled bool
}

// Victim removes and returns the hash of the reservation that was settled first. If none
// is settled, it returns one that ends first.
func (x *Index) Victim() (v Victim, ok bool) {
	switch {
	case x.done.head != nil:
		x.DoneKeys--
		return Victim{x.done.pop(), true}, true
	case x.DueKeys > 0:
		at := x.first()
		x.DueKeys--
		v.Hash = x.due[uint64(at)%dueSeconds].pop()
		x.emptied(at)
		return v, true
	}
	return v, false
}
