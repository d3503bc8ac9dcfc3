package engine

import (
	"math"
	"math/rand/v2"

	"github.com/headgate-io/headgate/shard"
)

// # Marks of counters
//
// A refund needs the counter that was charged. One that was deleted, evicted, reset,
// or carried over to other numbers does not know the charge. So a counter that a
// reservation charges is marked: its record has a random number, its generation, after
// the words of its algorithm, where nothing looks that does not know of marks. Whatever
// makes a new state of the counter leaves the mark out, and with it what could be given
// back. What keeps the mark has to say so: see keeps.
//
//	token, leaky   fraction | generation << 32, number of reservations, lows
//	fixed          count, generation; also of a calendar
//	sliding        previous count, count, generation
//	log            the ring, of an even number of words, generation
//
// The record of a bucket has an even number of words then, and has its lows: see
// lows.go.
//
// A counter that was never reserved has none, and is charged by the same path as
// ever: its record has as many words as its algorithm wants.

// mark is what a counter's record has beside the state of its algorithm, and what a
// charge makes of it.
type mark struct {
	generation uint32 // 0: none
	// held is, of a bucket, how many reservations have been charged before.
	held uint32
	note lowNote
}

// newMark returns the mark of a counter that has none.
func newMark() mark { return mark{generation: rand.Uint32() | 1} }

// bucket reports whether a is decided by a bucket.
func (a Algorithm) bucket() bool { return a == Token || a == Leaky }

// words is how many words a mark has in a record of a's.
func (m *mark) words(a Algorithm) int {
	if a.bucket() {
		return 1 + lowWords*m.note.lows()
	}
	return 1
}

// markOf returns the mark of a record that a decides.
func markOf(ent shard.Entry, a Algorithm) mark {
	n := ent.Words()
	switch {
	case a.bucket() && n%2 == 0:
		return mark{generation: uint32(ent.Word(0) >> 32), held: uint32(ent.Word(1))}
	case (a == Fixed || a == PolicyCalendar) && n == 2, a == Sliding && n == 3, a == Log && n%2 == 1:
		return mark{generation: uint32(ent.Word(n - 1))}
	}
	return mark{}
}

// set writes the generation into a record that has room for it, after the state.
func (m *mark) set(ent shard.Entry, a Algorithm) {
	n := ent.Words()
	switch {
	case a == Log && n%2 == 0: // it could not be made smaller
	case a.bucket():
		ent.SetWord(0, uint64(uint32(ent.Word(0)))|uint64(m.generation)<<32)
	default:
		ent.SetWord(n-1, uint64(m.generation))
	}
}

// keeps reports whether the charge of w leaves what could be given back as it is: the
// counter goes on, and under the numbers that it had. A bucket has been carried
// over to other numbers; counts and entries stay what they are, unless what they
// are counted by has changed.
func (s *Session) keeps(w *weighed) bool {
	if !w.live || w.forfeits {
		return false
	}
	old := s.e.limits.get(w.ent.Meta())
	if old == w.it {
		return true
	}
	was, is := &old.limit, &w.it.limit
	return was.Algorithm == is.Algorithm && (w.it.decides.counts() || w.it.decides == Log) &&
		was.Resets == is.Resets && was.Scalings == is.Scalings && was.Period == is.Period && was.Align == is.Align
}

// unmark takes the mark off a counter whose state does not change.
func (s *Session) unmark(w *weighed) {
	if !w.live {
		return
	}
	if m := markOf(w.ent, w.it.decides); m.generation != 0 {
		s.e.table.At(w.hash).Touch(w.ent)
		m.generation = 0
		m.set(w.ent, w.it.decides)
	}
}

// noteMark finds the mark that the charge of w keeps, or is to leave. w.ent must be
// what Find returns for the key.
func (s *Session) noteMark(w *weighed, now int64) {
	w.mark = mark{}
	if w.found && s.keeps(w) {
		w.mark = markOf(w.ent, w.it.decides)
	}
	if w.reserves && (w.mark.generation == 0 || w.mark.held == math.MaxUint32) {
		w.mark = newMark()
	}
	if w.mark.held > 0 {
		w.mark.note = noteLow(w.ent, w.mark.held, w.st.bucket().used(clampInstant(now)))
	}
}

// need is how many words the record of w will have.
func (w *weighed) need() int {
	if w.mark.generation == 0 || w.words == 0 {
		return w.words
	}
	return w.words + w.mark.words(w.it.decides)
}

// storeMarked is storeCheck of what may have a mark, or have moved.
func (st *checking) storeMarked(s *Session, w *weighed, sh *shard.Shard, now int64) error {
	st.findAgain(s, w, sh)
	st.moved = st.moved || !w.found || w.ent.Words() != w.need()
	if w.mark.generation == 0 {
		return s.storeCheck(w, sh, now)
	}
	if w.own {
		return s.putMarked(w, sh, now)
	}
	if w.foreign {
		s.e.replaced.Add(1)
	}
	it := s.claim(w)
	defer it.refs.Add(-1)
	return s.putMarked(w, sh, now)
}

// putMarked is put of what has a mark.
func (s *Session) putMarked(w *weighed, sh *shard.Shard, now int64) error {
	if !w.found { // evicted for the room of another
		w.mark.note.forget()
	}
	if err := s.place(&w.plan, sh, w.need(), w.next.deadline, now); err != nil {
		return err
	}
	switch w.it.decides {
	case Log:
		w.storeLog(now)
	case Sliding:
		w.ent.SetWord(0, w.next.first)
		w.ent.SetWord(1, w.next.second)
	default:
		w.ent.SetWord(0, w.next.first)
	}
	w.mark.set(w.ent, w.it.decides)
	if w.it.decides.bucket() {
		w.ent.SetWord(1, uint64(w.mark.held)+uint64(truth(w.reserves)))
		w.mark.note.write(w.ent, w.mark.held)
	}
	return nil
}
