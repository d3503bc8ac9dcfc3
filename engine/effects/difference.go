package effects

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"

	"github.com/headgate-io/headgate/engine/packed"
)

// A difference says how to build the bytes of a new state from the bytes of an older
// state, from front to back:
//
//	length of the new state
//	number of old bytes to skip, number of old bytes to copy, number of new bytes, the new bytes;
//	the same again, until the new state has its length
//
// Lengths and numbers are varints. Copied bytes have the same order in both states, so a
// reader goes through both once.
//
// A differ finds the difference between two states. It divides them into pieces: the
// records of a collection, the entries of a log, or a fixed number of bytes of a text.
// Most pieces of a large state stay, in the same order. The difference contains only the
// pieces that are new or changed. The time that a differ needs grows linearly with the
// size of the states.
type differ struct {
	old, new        []byte
	oldMarks, marks []uint32 // where the pieces begin, and where the last ends

	// The index of old pieces, made when needed. heads has the first piece of each hash,
	// and next the one after each, from piece indexed on; -1 for none.
	seed    maphash.Seed
	heads   []int32
	next    []int32
	indexed int

	out   []byte
	at    int // position in old, after out and the step
	step  step
	start int // of the difference in out
}

// step is the part that is not yet in out.
type step struct{ skip, copied, from, fresh int }

const (
	// sureRun is how many consecutive pieces must be equal to skip the pieces before
	// them: a single piece may recur by chance.
	sureRun = 3
	// nearby is how many pieces ahead the search goes without an index: as many as a
	// cut's hits may have removed.
	nearby = 64
	// fewTries bounds how many equal pieces are tried as the start of a run.
	fewTries = 4
	// evenPiece is the piece length of a state without records: an entry of a log, half a
	// holder.
	evenPiece = 16
	// stepBytes is roughly the size of a step's lengths.
	stepBytes = 6
)

// between appends to dst the difference from d.old to d.new, whose pieces have been
// marked. ok is false if it has more bytes than most.
func (d *differ) between(dst []byte, most int) (difference []byte, ok bool) {
	d.start = len(dst)
	d.out = binary.AppendUvarint(dst, uint64(len(d.new)))
	d.at, d.step, d.heads = 0, step{}, d.heads[:0]
	i, j, olds, news := 0, 0, len(d.oldMarks)-1, len(d.marks)-1
	for olds > 0 && news > 0 && d.same(olds-1, news-1) {
		olds, news = olds-1, news-1
	}
	for j < news {
		if i < olds && d.same(i, j) {
			d.keep(int(d.oldMarks[i]), int(d.oldMarks[i+1]))
			i, j = i+1, j+1
			continue
		}
		if p := d.find(i, j, olds, news); p > i {
			i = p
			continue
		}
		d.write(int(d.marks[j]), int(d.marks[j+1]))
		j++
		if len(d.out)-d.start+d.step.fresh+stepBytes > most {
			return d.out, false
		}
	}
	if rest := len(d.new) - int(d.marks[news]); rest > 0 { // the end that stays
		d.keep(len(d.old)-rest, len(d.old))
	}
	d.flush()
	return d.out, len(d.out)-d.start <= most
}

// same reports whether an old piece equals a new one.
func (d *differ) same(i, j int) bool {
	return bytes.Equal(d.old[d.oldMarks[i]:d.oldMarks[i+1]], d.new[d.marks[j]:d.marks[j+1]])
}

// run reports whether enough pieces from i and from j on are equal.
func (d *differ) run(i, j, olds, news int) bool {
	for n := range sureRun {
		switch {
		case j+n == news:
			return n > 0
		case i+n >= olds || !d.same(i+n, j+n):
			return false
		}
	}
	return true
}

// find returns the old piece from which the old state continues like the new state from j
// on; 0 if none. The old piece at i does not.
func (d *differ) find(i, j, olds, news int) int {
	if i >= olds {
		return 0
	}
	if len(d.heads) == 0 {
		for p := i + 1; p < min(i+nearby, olds); p++ {
			if d.run(p, j, olds, news) {
				return p
			}
		}
		if d.run(i+1, j+1, olds, news) || d.run(i, j+1, olds, news) {
			return 0 // the piece is new, or has changed
		}
		d.index(i, olds)
	}
	head := &d.heads[d.bucket(d.new[d.marks[j]:d.marks[j+1]])]
	for *head >= 0 && int(*head) <= i {
		*head = d.next[int(*head)-d.indexed]
	}
	p := *head
	for n := 0; n < fewTries && p >= 0; n++ {
		if d.run(int(p), j, olds, news) {
			return int(p)
		}
		p = d.next[int(p)-d.indexed]
	}
	return 0
}

// index indexes the old pieces of a range.
func (d *differ) index(from, to int) {
	n := 2 << bits.Len(uint(to-from))
	if cap(d.heads) < n {
		d.heads = make([]int32, n)
	}
	if cap(d.next) < to-from {
		d.next = make([]int32, to-from)
	}
	if d.seed == (maphash.Seed{}) {
		d.seed = maphash.MakeSeed()
	}
	d.heads, d.next, d.indexed = d.heads[:n], d.next[:to-from], from
	for b := range d.heads {
		d.heads[b] = -1
	}
	for i := to - 1; i >= from; i-- {
		b := d.bucket(d.old[d.oldMarks[i]:d.oldMarks[i+1]])
		d.next[i-from], d.heads[b] = d.heads[b], int32(i)
	}
}

func (d *differ) bucket(piece []byte) int {
	return int(maphash.Bytes(d.seed, piece) & uint64(len(d.heads)-1))
}

// keep records that old bytes follow.
func (d *differ) keep(from, to int) {
	if s := &d.step; s.fresh > 0 || s.copied > 0 && from != d.at {
		d.flush()
	}
	d.step.skip += from - d.at
	d.step.copied += to - from
	d.at = to
}

// write records that new bytes follow.
func (d *differ) write(from, to int) {
	if d.step.fresh == 0 {
		d.step.from = from
	}
	d.step.fresh += to - from
}

// flush ends a step.
func (d *differ) flush() {
	s := d.step
	d.step = step{}
	if s.copied+s.fresh == 0 {
		return
	}
	for _, n := range [...]int{s.skip, s.copied, s.fresh} {
		d.out = binary.AppendUvarint(d.out, uint64(n))
	}
	d.out = append(d.out, d.new[s.from:s.from+s.fresh]...)
}

// mark finds the pieces of both states, which are of kind k.
func (d *differ) mark(k *codec) {
	pieces := func(marks []uint32, state []byte) []uint32 {
		if k.packed != 0 {
			return packed.AppendMarks(marks, state)
		}
		for at := 0; at < len(state); at += evenPiece {
			marks = append(marks, uint32(at))
		}
		return append(marks, uint32(len(state)))
	}
	d.oldMarks, d.marks = pieces(d.oldMarks[:0], d.old), pieces(d.marks[:0], d.new)
}

// appendChanged appends to dst the result of applying a difference to old, at most most
// bytes. ok is false if the difference does not fit old.
func appendChanged(dst, old, difference []byte, most int) (changed []byte, ok bool) {
	d := Decoder{B: difference}
	n := int(d.UvarintMax(uint64(most)))
	end := len(dst) + n
	for len(dst) < end && !d.Bad {
		skip, copied, fresh := d.UvarintMax(uint64(len(old))), d.UvarintMax(uint64(len(old))), d.Uvarint()
		if d.Bad || skip+copied > uint64(len(old)) || copied+fresh == 0 || copied > uint64(end-len(dst)) || fresh > uint64(end-len(dst))-copied {
			return dst, false
		}
		old = old[skip:]
		dst = append(dst, old[:copied]...)
		old = old[copied:]
		dst = append(dst, d.Bytes(fresh)...)
	}
	return dst, !d.Bad && len(d.B) == 0
}
