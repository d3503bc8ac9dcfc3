package engine

import (
	"bytes"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// Settlement says how to settle a reservation.
type Settlement struct {
	// State is Committed, Cancelled or Released. With Released, the reservation ends as its
	// record says (Charges): released or charged.
	State reservation.State
	// Accepts may refuse to commit a reservation: if it returns an error, nothing is
	// settled. A nil Accepts accepts every reservation.
	Accepts func(r *reservation.Record) error
	// Cost returns the real cost of the call for a limit. If ok is false, the charge stays
	// as it is. After an error nothing is settled. Cost is called only for Committed. A nil
	// Cost keeps all charges.
	Cost func(l *reservation.Held) (cost int64, ok bool, err error)
	// Limit returns the limit for an additional charge. If an edit has changed the limit's
	// algorithm, the charge begins a new counter. If Limit is nil, the limit that was
	// charged is used.
	Limit func(l *reservation.Held) algo.Limit
	// Window returns the window of a limit with a calendar: see Check. A nil Window means
	// that windows are no longer known. Then a limit can be charged only if its counter's
	// window is still open.
	Window func(l *reservation.Held) *algo.Window
}

// settleTries bounds how often Settle looks a reservation up again because another
// settlement has changed it. The first settlement ends it.
const settleTries = 8

// Settle settles the reservation under a key, as one step: the charge becomes the real
// cost of the call. If the real cost is less, Settle gives the difference back, except
// units that have refilled since the charge. If the real cost is more, Settle charges the
// difference even if the limits have no room. The reservation's slots end.
//
// Only the first settlement changes the charge. A later settlement returns the answer of
// the first. If the caller repeats the reserved call after the first settlement, the repeat
// may take slots. A later settlement ends these slots too. A reservation that nobody settles
// ends when its time is over. While its record is kept, a caller may still settle it.
//
// The returned limits and their decisions are valid until the next call. Errors:
// ErrNoHold, ErrSealed, ErrNotIsolated, ErrUndoFull, and ErrFull if a counter is gone and
// there is no memory for a new one. After an error nothing has changed.
func (s *Session) Settle(now int64, key []byte, how Settlement) (reservation.Settled, error) {
	if s.settling == nil {
		s.settling = &settling{s: s}
	}
	x := s.settling
	x.how, x.hold = how, key
	defer x.forget()
	for range settleTries {
		var err error
		if x.seen, err = s.appendState(x.seen[:0], now, key); err != nil {
			return reservation.Settled{}, err
		}
		h := s.records()
		if !h.in.Read(x.seen) || h.in.Record.State == reservation.None {
			return reservation.Settled{}, ErrNoHold
		}
		settled, done, err := s.settleOnce(now, key, x, &h.in.Record)
		if done || err != nil {
			return settled, err
		}
	}
	return reservation.Settled{}, ErrNoHold
}

// appendState appends a copy of the state of a reservation's record.
func (s *Session) appendState(b []byte, now int64, key []byte) ([]byte, error) {
	hash := s.e.hash(algo.HoldSpace, key)
	sh, err := s.look(hash)
	if err != nil {
		return b, err
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if !ok || ent.Expired(now) {
		return b, ErrNoHold
	}
	return append(b, ent.State()...), nil
}

// settleOnce settles the reservation r, if its record is still what was seen.
func (s *Session) settleOnce(now int64, key []byte, x *settling, r *reservation.Record) (a reservation.Settled, done bool, err error) {
	hash := s.e.hash(algo.HoldSpace, key)
	t := &s.keys
	t.begin(s, hash, key)
	for i := range r.Limits {
		l := &r.Limits[i]
		l.Hash = s.e.table.Hash(l.Key)
		t.add(s, l.Hash, l.Key)
	}
	if err := t.lock(s); err != nil {
		return a, false, err
	}
	defer t.unlock(s)
	if s.e.sealed.Load() {
		return a, false, ErrSealed
	}
	now = s.advance(t.shards, now)
	sh := s.e.table.At(hash)
	ent, ok := sh.Find(hash, key)
	switch {
	case !ok || ent.Expired(now):
		return a, false, ErrNoHold
	case !bytes.Equal(ent.State(), x.seen):
		return a, false, nil
	}
	how := &x.how
	to := how.State
	x.begin(now, r, to)
	switch {
	case r.State == reservation.Committed || r.State == reservation.Cancelled:
		// The charge is settled, but not slots that a repeat has taken since.
		return r.Answer, true, x.endSlots(r)
	case to == reservation.Released && r.State == reservation.Open && now < r.Ends:
		s.e.reservations.again(now, r.Ends, hash)
		return reservation.Settled{State: r.State, Version: r.Version, Applied: r.Applied}, true, nil
	case to == reservation.Released && r.State != reservation.Open:
		return reservation.Settled{State: r.State, Version: r.Version, Applied: r.Applied}, true, nil
	case r.State == reservation.Open && now >= r.Ends:
		// First let it end by itself; a caller that wants more calls again.
		done = to == reservation.Released
		if to = reservation.Released; r.Charges {
			to = reservation.Charged
		}
	default:
		done = true
	}
	if to == reservation.Committed && how.Accepts != nil {
		if err := how.Accepts(r); err != nil {
			return a, false, err
		}
	}
	if to == reservation.Committed || to == reservation.Cancelled {
		// A record of an earlier version has no room for the answer.
		if words := s.records().enc.SettledWords(r); ent.Words() < words {
			if ent, err = sh.Resize(ent, hash, words, now); err != nil {
				return a, false, err
			}
		}
	}
	x.to = to
	if err := x.settle(r); err != nil {
		return a, false, err
	}
	a = x.answer(r)
	if r.State = to; to == reservation.Committed || to == reservation.Cancelled {
		r.Limits, r.Answer = reservation.SlotsOf(r.Limits), a
	}
	if x.st.moved {
		ent, ok = sh.Find(hash, key)
	}
	if ok { // evicted to make room: it stays charged
		s.keepReservation(sh, ent, hash, r, now+r.Keep, now)
	}
	s.e.reservations.settled(now+r.Keep, hash)
	return a, done, nil
}

// keepReservation writes the new state of a reservation to its record, which has room.
func (s *Session) keepReservation(sh *shard.Shard, ent shard.Entry, hash uint64, r *reservation.Record, deadline, now int64) {
	h := s.records()
	state, words := h.enc.Encode(r)
	sh.Touch(ent)
	if words < ent.Words() {
		if smaller, err := sh.Resize(ent, hash, words, now); err == nil {
			ent = smaller
		}
	}
	fillReservation(ent, state)
	ent.SetDeadline(deadline)
}
