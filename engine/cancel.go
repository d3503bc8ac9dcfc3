package engine

import (
	"bytes"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// # Charges that are cancelled
//
// A call may have limits in two engines. The first engine charges the call. If the second
// then denies it, the first cancels its charge. A Cancellable is in memory only: nobody cancels
// the charge of a process that has ended, and the limits are then too strict.
//
// What is given back is the same as for a hold: see algo.Receipt. A window that has ended
// gets nothing back, and a later window neither.

// Cancellable is what its method Check has charged for a call.
type Cancellable struct {
	reign  uint64
	limits []reservation.Held
	counts []bool // of each limit: it counts calls that another limit denies
}

// Check is Session.Check that notes in c what it has charged. Limits of slots take no slots.
func (c *Cancellable) Check(s *Session, now int64, checks []Check, o CheckOptions, out []Checked) (Verdict, error) {
	c.limits, c.counts = c.limits[:0], c.counts[:0]
	if len(checks) > MaxChecks {
		return Verdict{}, ErrTooManyChecks
	}
	if s.checking == nil {
		s.checking = new(checking)
	}
	st := s.checking
	defer st.forget()
	if err := st.prepare(s, checks, s.Cold()); err != nil {
		return Verdict{}, err
	}
	locked, err := st.lock(s, s.Cold())
	if err != nil {
		return Verdict{}, err
	}
	var v Verdict
	if s.e.sealed.Load() {
		err = ErrSealed
	} else {
		now = st.advance(s.e.table, now)
		v, err = st.decideToCancel(s, now, checks, o, out, c)
	}
	if locked {
		st.unlock(s)
	}
	if err != nil {
		return Verdict{}, err
	}
	if v.Binding >= 0 {
		w := &st.weighed[v.Binding]
		s.top.observe(now, w.key, w.hash, v.OK)
	}
	return v, nil
}

// decideToCancel is decide, and notes in c what a passing call was charged.
func (st *checking) decideToCancel(s *Session, now int64, checks []Check, o CheckOptions, out []Checked, c *Cancellable) (Verdict, error) {
	v, _, err := st.judge(s, now, checks, o, out)
	if err != nil {
		return v, err
	}
	writes := st.resolve(s, now, checks, v.OK, out) && !o.Peek
	switch {
	case !writes:
	case !v.OK: // a denied call may still count
		err = st.commit(s, now, checks, false)
	default:
		if err = st.reserveMarked(s, now, checks); err != nil {
			return v, err
		}
		c.note(st, now, checks)
		c.reign = s.e.reign.Load()
		err = st.storeHeld(s, now, checks, algo.HolderID{})
	}
	if err != nil {
		c.limits = c.limits[:0]
		return v, err
	}
	st.conclude(s, now, checks, o, &v, out)
	return v, nil
}

// note notes what is about to be charged.
func (c *Cancellable) note(st *checking, now int64, checks []Check) {
	var unnamed reservation.Held
	for i := range checks {
		w := &st.weighed[i]
		if checks[i].Mode == algo.Off || !w.write {
			continue
		}
		var l reservation.Held
		describe(&l, &checks[i], w, &unnamed, now)
		l.Key = bytes.Clone(w.key)
		c.limits, c.counts = append(c.limits, l), append(c.counts, checks[i].CountAll)
	}
}

// Cancel gives back a charge, as far as time has not given it back. It may be called once.
// counts reports that the call counts for limits with CountAll: they keep their charge.
//
// ErrSealed says that the engine has stopped deciding since the charge, even if it decides
// again: the charge may be lost, so nothing is given back.
func (c *Cancellable) Cancel(s *Session, now int64, counts bool) error {
	r := reservation.Record{State: reservation.Open}
	for i := range c.limits {
		if !counts || !c.counts[i] {
			r.Limits = append(r.Limits, c.limits[i])
		}
	}
	if len(r.Limits) == 0 {
		return nil
	}
	if s.settling == nil {
		s.settling = &settling{s: s}
	}
	x, t := s.settling, &s.keys
	defer x.forget()
	t.reset()
	for i := range r.Limits {
		l := &r.Limits[i]
		l.Hash = s.e.table.Hash(l.Key)
		t.add(s, l.Hash, l.Key)
	}
	if err := t.lock(s); err != nil {
		return err
	}
	defer t.unlock(s)
	if s.e.sealed.Load() || s.e.reign.Load() != c.reign {
		return ErrSealed
	}
	x.begin(s.advance(t.shards, now), &r, reservation.Cancelled)
	return x.settle(&r)
}
