package engine

import "github.com/headgate-io/headgate/engine/algo"

// Counted is the answer of one window of Session.CountWindows.
type Counted struct {
	// Units is the count of the window after the step, and Before the count before the
	// step.
	Units, Before int64
	// ResetAfter is the time until the window ends, in ns. It is more than 0 also for an
	// empty window.
	ResetAfter int64
}

// CountWindows adds units to fixed windows of policies, as one atomic step. Negative
// units are given back. It denies nothing, even beyond the limits. A count stays between
// 0 and 2^62-1. With Peek nothing is written. units and out correspond to checks; only
// their Key, Hash, Limit and Mode matter, and Cost must be 0. RL.TOP counts the step as
// a denied call if an enforced limit is exceeded or has TooMuch set.
//
// If the name of a counter holds other state, CountWindows does the same as Check. Errors:
// ErrTooManyChecks, ErrDuplicateKey, ErrKeyTooLong, ErrStale, ErrSealed, ErrNotIsolated,
// ErrUndoFull, and, for enforced limits, ErrFull. Nothing is changed then.
func (s *Session) CountWindows(now int64, checks []Check, units []int64, o CheckOptions, out []Counted) error {
	if len(checks) > MaxChecks {
		return ErrTooManyChecks
	}
	if s.checking == nil {
		s.checking = new(checking)
	}
	st := s.checking
	defer st.forget()
	cold := s.Cold()
	if err := st.prepare(s, checks, cold); err != nil {
		return err
	}
	locked, err := st.lock(s, cold)
	if err != nil {
		return err
	}
	if s.e.sealed.Load() {
		err = ErrSealed
	} else {
		now = st.advance(s.e.table, now)
		err = st.count(s, now, checks, units, o, out)
	}
	if locked {
		st.unlock(s)
	}
	if err != nil {
		return err
	}
	st.tell(s, now, checks, out)
	return nil
}

// count is CountWindows with all shards locked.
func (st *checking) count(s *Session, now int64, checks []Check, units []int64, o CheckOptions, out []Counted) (err error) {
	for k := range st.n {
		i := st.position(k)
		w := &st.weighed[i]
		w.anew = o.Anew
		if w.st, err = s.find(w, s.e.table.At(w.hash), now); err != nil {
			return err
		}
		next, words, before, after, reset := w.it.Tally(w.st, now, units[i])
		out[i] = Counted{Units: after, Before: before, ResetAfter: reset}
		if w.write = after != before && !o.Peek; w.write {
			w.next, w.words = next, words
		}
	}
	return st.commit(s, now, checks, true)
}

// tell counts the step in RL.TOP.
func (st *checking) tell(s *Session, now int64, checks []Check, out []Counted) {
	binding, ok := -1, true
	for i := range checks {
		c := &checks[i]
		if c.Mode != algo.Enforce {
			continue
		}
		if c.TooMuch || out[i].Units > c.Limit.it.Limit.Limit {
			binding, ok = i, false
			break
		}
		if binding < 0 {
			binding = i
		}
	}
	if binding >= 0 {
		w := &st.weighed[binding]
		s.top.observe(now, w.key, w.hash, ok)
	}
}
