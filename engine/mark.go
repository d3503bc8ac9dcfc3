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
	return old == w.it || w.it.Keeps(&old.Rule) || w.leased && sameNumbers(old.Limit, w.it.Limit)
}

// unmark removes the mark of a counter whose state does not change.
func (s *Session) unmark(w *weighed) {
	if !w.live {
		return
	}
	if m := w.it.Mark(plainPart(s, w.ent)); m.Generation != 0 {
		s.e.table.At(w.hash).Touch(w.ent)
		m.Generation = 0
		m.Put(&w.it.Rule, plainPart(s, w.ent))
	}
}

// noteMark finds the mark that the charge of w keeps or makes. w.ent must be what Find
// returns for the key.
func (s *Session) noteMark(w *weighed, now int64) {
	w.mark = algo.Mark{}
	if w.found && s.keeps(w) {
		w.mark = w.it.Mark(plainPart(s, w.ent))
	}
	if w.reserves && (w.mark.Generation == 0 || w.mark.Held == math.MaxUint32) {
		w.mark = algo.Mark{Generation: rand.Uint32() | 1}
	}
	if w.mark.Held > 0 {
		note(s, w, now)
	}
}

// need returns how many words the record of w will have.
func (w *weighed) need() int {
	words := w.words
	if w.leased {
		words = algo.LeasedWords(&w.it.Rule)
	}
	if w.mark.Generation == 0 || words == 0 {
		return words
	}
	return words + w.mark.Words(&w.it.Rule)
}

// note plans how the charge of w changes its mark. If the counter is leased, the units
// that are out are not part of the use that may be given back.
func note(s *Session, w *weighed, now int64) {
	st := w.st
	if w.leased {
		st = algo.Above(&w.it.Rule, w.ent.State(), st, now)
	}
	w.mark.Note(plainPart(s, w.ent), st, now)
}

// plainPart returns the part of a counter's record that it has without leases too.
func plainPart(s *Session, ent shard.Entry) []byte {
	if it := s.e.limits.get(ent.Meta()); it.Limit.Leased {
		return algo.PlainPart(&it.Rule, ent.State())
	}
	return ent.State()
}

// storeMarked is storeCheck for a limit that may have a mark, or have moved.
func (st *checking) storeMarked(s *Session, w *weighed, sh *shard.Shard, now int64) error {
	st.findAgain(s, w, sh)
	st.moved = st.moved || !w.found || w.ent.Words() != w.need()
	if w.leased {
		return s.Leases().storeWeighed(w, sh, now)
	}
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
