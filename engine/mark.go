package engine

import (
	"math"
	"math/rand/v2"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// keeps reports whether earlier charges stay refundable after the charge of w: the
// counter continues under the same numbers.
func (s *Session) keeps(w *weighed) bool {
	if !w.live || w.forfeits {
		return false
	}
	old := s.e.limits.get(w.ent.Meta())
	return old == w.it || w.it.Keeps(&old.Rule)
}

// unmark removes the mark of a counter whose state does not change.
func (s *Session) unmark(w *weighed) {
	if !w.live {
		return
	}
	if m := w.it.Mark(w.ent.State()); m.Generation != 0 {
		s.e.table.At(w.hash).Touch(w.ent)
		m.Generation = 0
		m.Put(&w.it.Rule, w.ent.State())
	}
}

// noteMark finds the mark that the charge of w keeps or makes. w.ent must be what Find
// returns for the key.
func (s *Session) noteMark(w *weighed, now int64) {
	w.mark = algo.Mark{}
	if w.found && s.keeps(w) {
		w.mark = w.it.Mark(w.ent.State())
	}
	if w.reserves && (w.mark.Generation == 0 || w.mark.Held == math.MaxUint32) {
		w.mark = algo.Mark{Generation: rand.Uint32() | 1}
	}
	if w.mark.Held > 0 {
		w.mark.Note(w.ent.State(), w.st, now)
	}
}

// need returns how many words the record of w will have.
func (w *weighed) need() int {
	if w.mark.Generation == 0 || w.words == 0 {
		return w.words
	}
	return w.words + w.mark.Words(&w.it.Rule)
}

// storeMarked is storeCheck for a limit that may have a mark, or have moved.
func (st *checking) storeMarked(s *Session, w *weighed, sh *shard.Shard, now int64) error {
	st.findAgain(s, w, sh)
	st.moved = st.moved || !w.found || w.ent.Words() != w.need()
	if w.mark.Generation == 0 {
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

// putMarked is put for a record with a mark.
func (s *Session) putMarked(w *weighed, sh *shard.Shard, now int64) error {
	if !w.found { // evicted to make room for another
		w.mark.Forget()
	}
	if err := s.place(&w.plan, sh, w.need(), w.next.Deadline, now); err != nil {
		return err
	}
	if w.it.HasList {
		w.storeLog(now)
	} else {
		w.storeWords()
	}
	w.mark.PutCharge(&w.it.Rule, w.ent.State(), w.reserves)
	return nil
}
