package engine

import (
	"bytes"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// Reserve is what Session.Reserve needs beside its checks.
type Reserve struct {
	// Key is the key of the record.
	Key []byte
	// Named, Listed and Print go into the record. If Named is set and the call has been
	// made before, Reserve returns ErrRepeated.
	Named, Listed bool
	Print         reservation.Fingerprint
	// With Plain, only slots are held, and the charge is final. If the call has no slot, a
	// record is made only if the call has a name. A record with slots is open until the
	// last slot ends, and then stays charged.
	Plain bool
	// TTL is how long the record stays open at least, in ns, unless Plain is set; see
	// reservation.MinTTL. While the record has a slot, it stays open longer.
	TTL int64
	// Part, Keep, Charges, Version and Applied go into the record.
	Part    bool
	Keep    int64
	Charges bool
	Version uint64
	Applied int
	// For each check, Limits has the Name, CostBy and Each of a Held.
	Limits []reservation.Held

	// Held is set by Reserve if something is held.
	Held bool

	kept bool  // there is a record
	ends int64 // when the hold ends
}

// Reserve is Check that records under r.Key what a passing call was charged, so that
// Settle can correct it to the real cost. Check and record are one step, in one cut. A
// denied call leaves no record.
//
// With o.Note, the caller can cancel the charge and the record: see Cancellable.Cancel.
//
// It returns the errors of Check, ErrRepeated, and ErrFull if there is no room for the
// record. After an error nothing has changed.
func (s *Session) Reserve(now int64, checks []Check, o CheckOptions, out []Checked, r *Reserve) (Verdict, error) {
	if len(checks) > MaxChecks {
		return Verdict{}, ErrTooManyChecks
	}
	r.Held, r.kept = false, false
	if s.checking == nil {
		s.checking = new(checking)
	}
	st := s.checking
	defer st.forget()
	if err := st.prepare(s, checks, !o.Warm && s.Cold()); err != nil {
		return Verdict{}, err
	}
	hash := s.e.hash(algo.HoldSpace, r.Key)
	step := &s.keys
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
			rec := plan{hash: hash, key: r.Key, ent: ent, found: found}
			v, err = st.decideReserve(s, now, checks, o, out, r, &rec)
		}
	}
	step.unlock(s)
	if err != nil {
		return Verdict{}, err
	}
	switch {
	case r.Held:
		s.e.reservations.makeRoom(s)
		s.e.reservations.add(now, r.ends, hash)
	case r.kept:
		s.e.reservations.makeRoom(s)
		s.e.reservations.count.Add(1)
		s.e.reservations.settled(now+r.Keep, hash)
	}
	if v.Binding >= 0 {
		w := &st.weighed[v.Binding]
		s.top.observe(now, w.key, w.hash, v.OK)
	}
	return v, nil
}

// decideReserve is decide, and stores a call that passes with its record, whose entry is p.
func (st *checking) decideReserve(s *Session, now int64, checks []Check, o CheckOptions, out []Checked, r *Reserve, p *plan) (Verdict, error) {
	v, _, err := st.judge(s, now, checks, o, out)
	if err != nil {
		return v, err
	}
	writes := st.resolve(s, now, checks, v.OK, out)
	if !v.OK { // a denied call may still count
		if writes {
			err = st.commit(s, now, checks, false)
		}
		st.conclude(s, now, checks, o, &v, out)
		return v, err
	}
	id := st.takeSlots(now, checks, r)
	if !r.Held && !r.Named {
		err = st.commit(s, now, checks, true)
		st.conclude(s, now, checks, o, &v, out)
		return v, err
	}
	st.conclude(s, now, checks, o, &v, out)
	rec, deadline := r.record(s, now, &v, out)
	if err := st.storeReserved(s, now, checks, o, r, rec, deadline, p, id); err != nil {
		return v, err
	}
	for i := range checks {
		if err := st.weighed[i].err; err != nil {
			out[i].Err = err
		}
	}
	r.kept = true
	return v, nil
}

// record returns the record of a call that passes, without its limits, and when it expires.
func (r *Reserve) record(s *Session, now int64, v *Verdict, out []Checked) (rec *reservation.Record, deadline int64) {
	rec = &s.records().out
	*rec = reservation.Record{
		State: reservation.Open, Charges: r.Charges || r.Plain, Ends: r.ends, Keep: r.Keep, Version: r.Version, Applied: r.Applied,
		Named: r.Named, Listed: r.Listed, Part: r.Part, Print: r.Print, Limits: rec.Limits[:0],
	}
	deadline = rec.Ends + reservation.UnsettledFor
	if !r.Held {
		rec.State, rec.Charges, rec.Ends, deadline = reservation.None, r.Charges, now, now+r.Keep
	}
	if v.Binding >= 0 {
		rec.First.Name, rec.First.Decision = r.Limits[v.Binding].Name, out[v.Binding].Decision
	}
	rec.First.Delay = v.Delay
	return rec, deadline
}

// storeReserved stores the charges of a call that passes, and its record in the entry of p.
// It makes room for all first, then writes the record, then the counters: every charge then
// has its record. After an error nothing has changed.
func (st *checking) storeReserved(s *Session, now int64, checks []Check, o CheckOptions, r *Reserve, rec *reservation.Record, deadline int64, p *plan, id algo.HolderID) (err error) {
	marked := r.Held || o.Note != nil
	if marked {
		if err := st.reserveMarked(s, now, checks); err != nil {
			return err
		}
	}
	if r.Held {
		for i := range checks {
			if w := &st.weighed[i]; checks[i].Mode != algo.Off && w.write {
				rec.Limits = append(rec.Limits, reservation.Held{})
				describe(&rec.Limits[len(rec.Limits)-1], &checks[i], w, &r.Limits[i], now)
			}
		}
	}
	if p.it, err = s.rule(reservationLimit); err != nil {
		return err
	}
	if p.found && st.moved {
		p.ent, p.found = s.e.table.At(p.hash).Find(p.hash, p.key)
	}
	if err := s.putReservation(p, rec, deadline, now); err != nil {
		st.unreserve(s, len(st.weighed))
		return err
	}
	st.findBeside(s, p.hash)
	if o.Note != nil {
		o.Note.note(s, st, now, checks)
		o.Note.key = bytes.Clone(r.Key)
	}
	if marked {
		err = st.storeHeld(s, now, checks, id)
	} else {
		err = st.commit(s, now, checks, true)
	}
	if err != nil {
		remove(s.e.table.At(p.hash), p)
		if o.Note != nil {
			*o.Note = Cancellable{}
		}
	}
	return err
}

// describe fills in l from a check, for the reservation.
func describe(l *reservation.Held, c *Check, w *weighed, named *reservation.Held, now int64) {
	l.Key, l.Limit, l.Mode, l.Cost, l.Debt = w.key, w.it.Limit, c.Mode, c.Cost, c.Debt
	l.Name, l.CostBy, l.Each = named.Name, named.CostBy, named.Each
	l.Receipt = w.receipt(now, c.Cost)
}

// receipt returns the receipt of w for the charge of a cost. Its mark must be known.
func (w *weighed) receipt(now, cost int64) algo.Receipt {
	units := w.d.Allowed
	switch {
	case w.it.Decides == algo.Slots:
		units = cost
	case w.counted != 0:
		units = w.counted
	}
	return w.it.Receipt(&w.mark, w.st, w.next, now, cost, units)
}

// records is the scratch space of a session for the records of reservations.
type records struct {
	in  reservation.Reader
	out reservation.Record
	enc reservation.Encoder
}

func (s *Session) records() *records {
	if s.holding == nil {
		s.holding = new(records)
	}
	return s.holding
}

// putReservation writes r to the record of p, which it creates if needed. Its shard must
// be locked, and p must hold what Find returns for the key.
func (s *Session) putReservation(p *plan, r *reservation.Record, deadline, now int64) error {
	h := s.records()
	state, words := h.enc.Encode(r)
	sh := s.e.table.At(p.hash)
	if err := s.place(p, sh, words, deadline, now); err != nil {
		return err
	}
	fillReservation(p.ent, state)
	return nil
}

// fillReservation writes the encoding of a reservation to its record, which may be
// larger.
func fillReservation(ent shard.Entry, b []byte) {
	state := ent.State()
	clear(state[copy(state, b):])
}

// findBeside finds the counters in the shard of a hash again, after an insert into that
// shard.
func (st *checking) findBeside(s *Session, hash uint64) {
	place := s.e.table.Index(hash)
	for i := range st.n {
		if int(st.shard(i)) == place {
			w := st.at(i)
			sh := s.e.table.Shard(place)
			w.ent, w.found = sh.Find(w.hash, w.key)
			w.own = w.found && s.e.limits.get(w.ent.Meta()) == w.it
		}
	}
}

// reserveMarked makes room for the writes of a call that passes, marks included.
func (st *checking) reserveMarked(s *Session, now int64, checks []Check) error {
	for i := range st.weighed {
		w := &st.weighed[i]
		if !w.write {
			continue
		}
		// A list of holders itself shows what was taken. A charge that has pushed entries
		// out of a log is not given back: those entries would stay out.
		w.reserves = w.it.Decides != algo.Slots && (!w.forfeits || w.counted == 0)
		if err := st.reserve(s, w, now); err != nil {
			if checks[i].Mode == algo.Enforce {
				st.unreserve(s, i)
				return err
			}
			w.err, w.write = err, false
		}
	}
	return nil
}

// storeHeld writes what reserveMarked has made room for, with slots for holder id.
func (st *checking) storeHeld(s *Session, now int64, checks []Check, id algo.HolderID) error {
	for i := range st.weighed {
		w := &st.weighed[i]
		if !w.write {
			continue
		}
		var err error
		if sh := s.e.table.At(w.hash); w.it.Decides == algo.Slots {
			err = s.storeSlots(w, sh, now, id, checks[i].Cost)
			st.moved = true
		} else {
			err = st.storeMarked(s, w, sh, now)
		}
		if err != nil {
			if checks[i].Mode == algo.Enforce {
				return err
			}
			w.err, w.write = err, false
		}
	}
	return nil
}
