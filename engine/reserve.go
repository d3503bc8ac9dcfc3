package engine

import (
	"github.com/puzpuzpuz/xsync/v3"

	"github.com/headgate-io/headgate/shard"
)

// Reserve is what Session.Reserve is asked beside its checks.
type Reserve struct {
	// Key is that of the record.
	Key []byte
	// Named, Listed and Print are of a Reservation. Of a call that is named, and has
	// been made before, Reserve is ErrRepeated.
	Named, Listed bool
	Print         Fingerprint
	// Plain: nothing is held, the record is there for its name alone.
	Plain bool
	// TTL is for how long it is open, ns; see MinHoldTTL.
	TTL int64
	// Keep and Charges, Version and Applied are of a Reservation.
	Keep    int64
	Charges bool
	Version uint64
	Applied int
	// Limits has, for each check, Name, CostBy and Each of a Reserved.
	Limits []Reserved
}

// Reserve is Check, and keeps what a call that passes was charged under r.Key, so
// that Settle can make it what the call did cost: both in one step, and in one
// cut. A call that is denied leaves no record.
//
// Errors are those of Check, ErrNotYet, ErrRepeated, and ErrFull where there is no room for the
// record. Nothing is changed then.
func (s *Session) Reserve(now int64, checks []Check, o CheckOptions, out []Checked, r *Reserve) (Verdict, error) {
	if len(checks) > MaxChecks {
		return Verdict{}, ErrTooManyChecks
	}
	if !s.e.HoldsKept() {
		return Verdict{}, ErrNotYet
	}
	s.e.holds.makeRoom(s)
	if s.checking == nil {
		s.checking = new(checking)
	}
	st := s.checking
	defer st.forget()
	if err := st.prepare(s, checks, s.Cold()); err != nil {
		return Verdict{}, err
	}
	hash := s.e.hash(internal, r.Key)
	step := &s.steps
	step.begin(s, hash, r.Key)
	for i := range st.n {
		w := st.at(i)
		step.add(s, w.hash, w.key)
	}
	if err := step.lock(s); err != nil {
		return Verdict{}, err
	}
	var v Verdict
	err := error(ErrSealed)
	if !s.e.sealed.Load() {
		now = s.advance(step.shards, now)
		if ent, found := s.e.table.At(hash).Find(hash, r.Key); found && !ent.Expired(now) {
			err = ErrRepeated
		} else {
			v, err = st.decideReserve(s, now, checks, o, out, r, hash)
		}
	}
	step.unlock(s)
	if err != nil {
		return Verdict{}, err
	}
	switch {
	case v.OK && r.Plain:
		s.e.holds.count.Add(1)
		s.e.holds.settled(now+r.Keep, r.Key)
	case v.OK:
		s.e.holds.add(now+r.TTL, r.Key)
	}
	if v.Binding >= 0 {
		w := &st.weighed[v.Binding]
		s.top.observe(now, w.key, w.hash, v.OK)
	}
	return v, nil
}

// decideReserve is decide, and puts the record of a call that passes.
func (st *checking) decideReserve(s *Session, now int64, checks []Check, o CheckOptions, out []Checked, r *Reserve, hash uint64) (Verdict, error) {
	v, _, err := st.judge(s, now, checks, o, out)
	if err != nil {
		return v, err
	}
	writes := st.settle(s, now, checks, v.OK, out)
	if !v.OK { // it may count all the same
		if writes {
			err = st.commit(s, now, checks, false)
		}
		st.conclude(&v, checks, out)
		return v, err
	}
	// The record's room first: what is charged then, is held.
	rec := Reservation{
		State: HoldOpen, Charges: r.Charges, Ends: now + r.TTL, Keep: r.Keep, Version: r.Version, Applied: r.Applied,
		Named: r.Named, Listed: r.Listed, Print: r.Print,
	}
	deadline := rec.Ends + unsettledFor
	if r.Plain {
		rec.State, rec.Ends, deadline = HoldNone, now, now+r.Keep
	}
	for i := range checks {
		if w := &st.weighed[i]; !r.Plain && checks[i].Mode != Off && w.write {
			rec.Limits = append(rec.Limits, reserved(&checks[i], w, &r.Limits[i]))
		}
	}
	p := plan{hash: hash, key: r.Key}
	if p.it, err = s.rule(reservationLimit); err != nil {
		return v, err
	}
	sh := s.e.table.At(hash)
	most := (8+len(appendReservation(nil, &rec))+len(rec.Limits)*mostCharge+7)/8 + answerWords
	p.ent, p.found = sh.Find(hash, r.Key)
	if err := s.place(&p, sh, most, deadline, now); err != nil {
		return v, err
	}
	if r.Plain {
		err = st.commit(s, now, checks, true)
	} else {
		err = st.commitReserve(s, now, checks)
	}
	if err != nil {
		if p.ent, p.found = sh.Find(hash, r.Key); p.found {
			sh.Delete(p.ent)
		}
		return v, err
	}
	rec.Limits = rec.Limits[:0]
	for i := range checks {
		if w := &st.weighed[i]; !r.Plain && checks[i].Mode != Off && w.write {
			l := reserved(&checks[i], w, &r.Limits[i])
			l.charge = w.chargeOf(now)
			rec.Limits = append(rec.Limits, l)
		}
	}
	st.conclude(&v, checks, out)
	if v.Binding >= 0 {
		rec.First.Name, rec.First.Decision = r.Limits[v.Binding].Name, out[v.Binding].Decision
	}
	rec.First.Delay = v.Delay
	s.putReservation(sh, hash, r.Key, &rec, deadline, now)
	return v, nil
}

// mostCharge is by how many bytes the encoding of a charge may grow: of five
// varints.
const mostCharge = 5 * 10

// reserved is what a reservation keeps of a check, but for the charge.
func reserved(c *Check, w *weighed, named *Reserved) Reserved {
	return Reserved{
		Key: w.key, Limit: w.it.limit, Mode: c.Mode, Cost: c.Cost, Debt: c.Debt,
		Name: named.Name, CostBy: named.CostBy, Each: named.Each,
	}
}

// putReservation makes the record of a reservation, which is there and has room,
// what r says. Its shard must be locked.
func (s *Session) putReservation(sh *shard.Shard, hash uint64, key []byte, r *Reservation, deadline, now int64) {
	ent, found := sh.Find(hash, key)
	if !found { // evicted for what was charged: it stays charged
		return
	}
	state := appendReservation(nil, r)
	sh.Touch(ent)
	if words := len(state) / 8; words < ent.Words() {
		if smaller, err := sh.Resize(ent, hash, words, now); err == nil {
			ent = smaller
		}
	}
	clear(ent.State()[copy(ent.State(), state):])
	ent.SetDeadline(deadline)
}

// commitReserve is commit of a call that passes, and marks the counters.
func (st *checking) commitReserve(s *Session, now int64, checks []Check) error {
	for i := range st.weighed {
		w := &st.weighed[i]
		if !w.write {
			continue
		}
		w.reserves = true
		if err := st.reserve(s, w, now); err != nil {
			if checks[i].Mode == Enforce {
				st.unreserve(s, i)
				return err
			}
			w.err, w.write = err, false
		}
	}
	for i := range st.weighed {
		w := &st.weighed[i]
		if !w.write {
			continue
		}
		if err := s.storeMoved(w, s.e.table.At(w.hash), now); err != nil {
			if checks[i].Mode == Enforce {
				return err
			}
			w.err, w.write = err, false
		}
	}
	return nil
}

// keyStep is a set of keys that are changed as one, and the locks of their shards.
type keyStep struct {
	shards []int
	hashes []uint64
	keys   [][]byte
	locked bool
	gate   *xsync.RToken
}

// begin begins a step with a key.
func (t *keyStep) begin(s *Session, hash uint64, key []byte) {
	t.shards, t.hashes, t.keys = t.shards[:0], t.hashes[:0], t.keys[:0]
	t.add(s, hash, key)
}

func (t *keyStep) add(s *Session, hash uint64, key []byte) {
	t.shards = append(t.shards, s.e.table.Index(hash))
	t.hashes, t.keys = append(t.hashes, hash), append(t.keys, key)
}

// lock locks the shards, each once and in order, and the gate. In a session that
// holds keys, these have to be among them.
func (t *keyStep) lock(s *Session) error {
	t.shards = sorted(t.shards)
	t.locked = !s.held.active
	if !t.locked {
		for i, hash := range t.hashes {
			if err := s.enter(hash, t.keys[i]); err != nil {
				return err
			}
		}
		return nil
	}
	t.gate = s.enterGate()
	for _, i := range t.shards {
		s.e.table.Shard(i).Lock()
	}
	return nil
}

func (t *keyStep) unlock(s *Session) {
	clear(t.keys)
	if !t.locked {
		return
	}
	for _, i := range t.shards {
		s.e.table.Shard(i).Unlock()
	}
	s.leaveGate(t.gate)
	t.gate = nil
}
