package engine

import (
	"bytes"
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// Present describes a limit as it is now, in which a reservation has slots.
type Present struct {
	Limit algo.Limit
	Mode  algo.Mode
	// Gone is set if the limit no longer applies to the call. Then its slots are not taken
	// again.
	Gone bool
}

// Renewed is the answer of a renewal.
type Renewed struct {
	// Denied is set if a slot of the call has ended and the limit has no room to take the
	// slot again. Nothing has changed then. Name and Decision describe the limit that
	// denies.
	Denied bool
	Name   string
	algo.Decision
}

// Renew restarts the time of all slots of the reservation under a key, as one step. It
// charges nothing. A slot that is still held is renewed, even if its limit is gone. A
// slot that has ended, for any reason, is taken again if the limit that present returns
// has room. If that limit has no room and is enforced, nothing is renewed. A reservation
// without slots stays as it is.
//
// Errors: ErrNoHold, ErrSealed, ErrNotIsolated, ErrUndoFull, ErrFull. Nothing is changed
// then.
func (s *Session) Renew(now int64, key []byte, present func(l *reservation.Held) Present) (Renewed, error) {
	for range settleTries {
		seen, err := s.appendState(nil, now, key)
		if err != nil {
			return Renewed{}, err
		}
		r, ok := reservation.Read(seen)
		if !ok {
			return Renewed{}, ErrNoHold
		}
		if !r.HasSlots() {
			return Renewed{}, nil
		}
		if r.State == reservation.Open && now >= r.Ends { // end it first, by its own rule
			if _, err := s.Settle(now, key, Settlement{State: reservation.Released}); err != nil {
				return Renewed{}, err
			}
			continue
		}
		x := renewal{s: s, hold: key, r: &r}
		says, done, err := x.run(now, seen, present)
		if done || err != nil {
			return says, err
		}
	}
	return Renewed{}, ErrNoHold
}

// renewal is one renewal under way: plan, make room, write.
type renewal struct {
	s    *Session
	hold []byte
	r    *reservation.Record
	id   algo.HolderID
	now  int64
	each []renewedSlot
	st   checking // whose methods work on what is weighed
}

// renewedSlot is what becomes of the slots of one limit.
type renewedSlot struct {
	weighed
	cost  int64
	taken *interned // for the plan
}

// run renews, if the record is still what was seen.
func (x *renewal) run(now int64, seen []byte, present func(l *reservation.Held) Present) (says Renewed, done bool, err error) {
	s, e := x.s, x.s.e
	hash := e.hash(algo.HoldSpace, x.hold)
	t := &s.keys
	t.begin(s, hash, x.hold)
	slots := reservation.SlotsOf(x.r.Limits)
	for i := range slots {
		t.add(s, e.table.Hash(slots[i].Key), slots[i].Key)
	}
	if err := t.lock(s); err != nil {
		return says, false, err
	}
	defer t.unlock(s)
	if e.sealed.Load() {
		return says, false, ErrSealed
	}
	x.now, x.id = s.advance(t.shards, now), holderOf(x.hold)
	sh := e.table.At(hash)
	ent, ok := sh.Find(hash, x.hold)
	switch {
	case !ok || ent.Expired(x.now):
		return says, false, ErrNoHold
	case !bytes.Equal(ent.State(), seen), x.r.State == reservation.Open && x.now >= x.r.Ends:
		return says, false, nil
	}
	x.each = make([]renewedSlot, len(slots))
	defer x.release()
	for i := range slots {
		w := &x.each[i]
		if err := x.plan(&slots[i], w, present); err != nil {
			return says, false, err
		}
		if !w.d.OK && (!says.Denied || w.d.BindsMoreThan(&says.Decision)) {
			says = Renewed{true, slots[i].Name, w.d}
		}
	}
	if says.Denied {
		return says, true, nil
	}
	return says, true, x.write(hash)
}

// plan plans what becomes of the slots of one limit. A denial in w.d denies the call.
func (x *renewal) plan(l *reservation.Held, w *renewedSlot, present func(l *reservation.Held) Present) error {
	s := x.s
	w.key, w.hash, w.cost = l.Key, s.e.table.Hash(l.Key), l.Cost
	is := present(l)
	is.Limit.Period = l.Limit.Period // they keep the time with which they began
	if is.Limit.Algorithm != algo.PolicySlots || is.Limit.Validate() != nil {
		is.Limit = l.Limit
	}
	w.taken = s.e.limits.acquireReplicated(is.Limit)
	w.it = w.taken
	_, err := s.find(&w.weighed, s.e.table.At(w.hash), x.now)
	if errors.Is(err, ErrStale) { // already taken under a later edit
		w.it, err = s.e.limits.get(w.ent.Meta()), nil
	}
	if err != nil {
		return err
	}
	w.d = algo.Decision{OK: true}
	switch {
	case w.live && algo.Holders(w.list()).Holds(x.now, x.id):
		w.planSlots(x.now, x.id)
		return w.err
	case is.Gone:
		return nil
	}
	d, err := w.it.AskSlot(w.list(), x.now, w.cost)
	switch {
	case err == nil && d.OK:
		w.planSlots(x.now, x.id)
		return w.err
	case is.Mode == algo.Soft: // as many as the record has room for
		w.planSlots(x.now, x.id)
	case is.Mode == algo.Enforce:
		w.d = d
		return err
	}
	return nil
}

// write makes room for all plans and writes them. The record then ends with the last
// slot, unless it is kept for longer.
func (x *renewal) write(hash uint64) error {
	s, sh := x.s, x.s.e.table.At(hash)
	last := int64(0)
	for i := range x.each {
		w := &x.each[i]
		if !w.write {
			continue
		}
		if err := x.st.reserve(s, &w.weighed, x.now); err != nil {
			return x.unreserve(i, err)
		}
		last = max(last, algo.Clamp(x.now)+w.it.Period)
	}
	if last == 0 {
		return nil
	}
	ent, ok := sh.Find(hash, x.hold)
	if !ok { // evicted to make room for a slot
		return x.unreserve(len(x.each), ErrFull)
	}
	deadline := max(ent.Deadline(), last+x.r.Keep)
	if x.r.State == reservation.Open {
		x.r.Ends = max(x.r.Ends, last)
		deadline = x.r.Ends + reservation.UnsettledFor
	}
	p := plan{hash: hash, key: x.hold, ent: ent, found: true}
	var err error
	if p.it, err = s.rule(reservationLimit); err == nil {
		err = s.putReservation(&p, x.r, deadline, x.now)
	}
	if err != nil {
		return x.unreserve(len(x.each), err)
	}
	for i := range x.each {
		if w := &x.each[i]; w.write {
			if err := s.storeSlots(&w.weighed, s.e.table.At(w.hash), x.now, x.id, w.cost); err != nil {
				return err
			}
		}
	}
	return nil
}

// unreserve deletes the counters made for the slots before n, and returns why.
func (x *renewal) unreserve(n int, why error) error {
	for i := range x.each[:n] {
		w := &x.each[i]
		if !w.created {
			continue
		}
		sh := x.s.e.table.At(w.hash)
		if ent, ok := sh.Find(w.hash, w.key); ok {
			sh.Delete(ent)
		}
	}
	return why
}

// release gives back the limits that were interned for the plans.
func (x *renewal) release() {
	for i := range x.each {
		if it := x.each[i].taken; it != nil {
			it.refs.Add(-1)
		}
	}
}
