package engine

import (
	"math/rand/v2"

	"github.com/headgate-io/headgate/shard"
)

// # Marks of counters
//
// A refund gives back what time has not, and nothing of what is not there any more:
// a counter that was deleted, evicted, reset, or carried over to other numbers does
// not know the charge. So a counter that a reservation charges is marked: behind
// the words of its algorithm, where nothing that does not know of marks looks, its
// record has a random number, its generation, and that of a bucket also how much
// was given back so far. Whatever makes a new state of the counter leaves the mark
// behind, and with it what could be given back. What keeps it has to say so: see
// keeps.
//
//	token, leaky   fraction | generation << 32, ns and fraction of what was given back
//	fixed          count, generation; also of a calendar
//	sliding        previous count, count, generation
//	log            the ring, of an even number of words, generation
//
// A counter that was never reserved has none, and is charged by the same path as
// ever: its record has as many words as its algorithm wants.

// mark is what a counter's record has beside the state of its algorithm.
type mark struct {
	generation uint32 // 0: none
	back       span   // of a bucket, modulo 2^64 ns
}

// newMark returns the mark of a counter that has none.
func newMark() mark { return mark{generation: rand.Uint32() | 1} }

// markWords is how many words a mark has in a record of a's.
func markWords(a Algorithm) int {
	if a == Token || a == Leaky {
		return 2
	}
	return 1
}

// markOf returns the mark of a record that a decides.
func markOf(ent shard.Entry, a Algorithm) mark {
	n := ent.Words()
	switch {
	case (a == Token || a == Leaky) && n == 3:
		return mark{uint32(ent.Word(0) >> 32), span{ent.Word(1), uint32(ent.Word(2))}}
	case (a == Fixed || a == PolicyCalendar) && n == 2, a == Sliding && n == 3, a == Log && n%2 == 1:
		return mark{generation: uint32(ent.Word(n - 1))}
	}
	return mark{}
}

// set writes the mark into a record that has room for it, behind the state.
func (m *mark) set(ent shard.Entry, a Algorithm) {
	n := ent.Words()
	switch {
	case a == Log && n%2 == 0: // it could not be made smaller
	case a != Token && a != Leaky:
		ent.SetWord(n-1, uint64(m.generation))
	default:
		ent.SetWord(0, uint64(uint32(ent.Word(0)))|uint64(m.generation)<<32)
		ent.SetWord(1, m.back.ns)
		ent.SetWord(2, uint64(m.back.frac))
	}
}

// keeps tells whether the charge of w leaves what could be given back as it is: the
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
func (s *Session) noteMark(w *weighed) {
	w.mark = mark{}
	if w.found && s.keeps(w) {
		w.mark = markOf(w.ent, w.it.decides)
	}
	if w.reserves && w.mark.generation == 0 {
		w.mark = newMark()
	}
}

// need is how many words the record of w will have.
func (w *weighed) need() int {
	if w.mark.generation == 0 || w.words == 0 {
		return w.words
	}
	return w.words + markWords(w.it.decides)
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
	return nil
}
