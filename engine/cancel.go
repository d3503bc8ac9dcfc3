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

// Cancellable is what a step has charged for a call: see CheckOptions.Note. Each step needs
// a new one.
type Cancellable struct {
	reign  uint64
	limits []reservation.Held
	counts []bool // of each limit: it counts calls that another limit denies
	// key is the key of the call's record, nil for none.
	key []byte
}

// commitNoted is commit for a passing call, and notes in c what it is charged. Limits of
// slots take no slots.
func (st *checking) commitNoted(s *Session, now int64, checks []Check, c *Cancellable) error {
	err := st.reserveMarked(s, now, checks)
	if err == nil {
		c.note(s, st, now, checks)
		err = st.storeHeld(s, now, checks, algo.HolderID{})
	}
	if err != nil {
		*c = Cancellable{}
	}
	return err
}

// note notes what is about to be charged.
func (c *Cancellable) note(s *Session, st *checking, now int64, checks []Check) {
	c.reign = s.e.reign.Load()
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

// Cancel gives back a charge, as far as time has not given it back. It also deletes the
// record of the call, so that a repeat is charged. It may be called once. counts reports that
// the call counts for limits with CountAll: they keep their charge.
//
// After an error nothing has changed. ErrSealed says that the engine has stopped deciding
// since the charge, even if it decides again: the charge may be lost. ErrRepeated says that a
// repeat of the call may use the charge, because it has read the record, or because the
// record is gone.
func (c *Cancellable) Cancel(s *Session, now int64, counts bool) error {
	r := reservation.Record{State: reservation.Open}
	for i := range c.limits {
		if !counts || !c.counts[i] {
			r.Limits = append(r.Limits, c.limits[i])
		}
	}
	if len(r.Limits) == 0 && c.key == nil {
		return nil
	}
	if s.settling == nil {
		s.settling = &settling{s: s}
	}
	x, t := s.settling, &s.keys
	defer x.forget()
	t.reset()
	hash := s.e.hash(algo.HoldSpace, c.key)
	if c.key != nil {
		t.add(s, hash, c.key)
	}
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
	now = s.advance(t.shards, now)
	sh := s.e.table.At(hash)
	if c.key != nil {
		if ent, found := sh.Find(hash, c.key); !found || ent.Expired(now) || reservation.Asked(ent.State()) {
			return ErrRepeated
		}
	}
	x.begin(now, &r, reservation.Cancelled)
	if err := x.settle(&r); err != nil || c.key == nil {
		return err
	}
	if ent, found := sh.Find(hash, c.key); found { // the settlement may have moved it
		sh.Delete(ent)
		s.e.reservations.count.Add(-1)
	}
	return nil
}
