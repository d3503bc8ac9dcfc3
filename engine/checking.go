package engine

import (
	"bytes"
	"errors"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// checking is the scratch space of Session.Check.
type checking struct {
	weighed []weighed
	// order has an element for each limit that applies: the shard's number, and below it
	// the limit's position in orderBits bits. It is sorted.
	order [MaxChecks]uint32
	n     int // of order
	gate  *xsync.RToken
	gated bool
	// suspects are the limits that have a penalty. blocked is set if one of them blocks
	// the caller.
	suspects []suspect
	blocked  bool
	// moved is set if room was made after the limits were weighed: entries found before
	// may have moved or gone.
	moved bool
}

// orderBits are the low bits of an element of checking.order. A shard's number has 16.
const orderBits = 6

// weighed is one limit of a step.
type weighed struct {
	plan
	st   algo.State // converted to the limit
	opts algo.Options
	anew bool // see CheckOptions
	// foreign is set if the key has a live entry that is not a policy's counter.
	foreign bool
	// own is set if the found entry refers to the limit.
	own bool
	// counted is what a denied call that counts charges to a log. It is 0 if the plan
	// contains the whole charge.
	counted int64
	err     error // does not fail the call
	// reserves is set if the charge may be given back, forfeits if no earlier charge can
	// be given back after it. mark is the record's next mark.
	reserves, forfeits bool
	mark               algo.Mark
}

// prepare hashes the keys of the limits that apply, sorts their shards and refuses an
// invalid step.
func (st *checking) prepare(s *Session, checks []Check, cold bool) error {
	if cap(st.weighed) < len(checks) {
		st.weighed = make([]weighed, len(checks), max(len(checks), 16))
	}
	st.weighed, st.n, st.moved = st.weighed[:len(checks)], 0, false
	for i := range checks {
		c := &checks[i]
		if c.Mode == algo.Off {
			continue
		}
		if len(c.Key) > shard.MaxKeyLen {
			return ErrKeyTooLong
		}
		if uint64(c.Cost) > algo.MaxCount {
			return algo.ErrOverflow
		}
		w := &st.weighed[i]
		w.key, w.hash, w.it = c.Key, c.Hash, c.Limit.it
		if cold {
			s.e.table.PrefetchSlot(w.hash)
		}
		// Insertion sort: most steps have few limits.
		place, at := uint32(s.e.table.Index(w.hash))<<orderBits|uint32(i), st.n
		for ; at > 0 && st.order[at-1] > place; at-- {
			st.order[at] = st.order[at-1]
		}
		st.order[at] = place
		st.n++
	}
	for i := 1; i < st.n; i++ {
		for j := i - 1; j >= 0 && st.shard(j) == st.shard(i); j-- {
			a, b := st.at(i), st.at(j)
			if a.hash == b.hash && bytes.Equal(a.key, b.key) {
				return ErrDuplicateKey
			}
		}
	}
	return nil
}

// shard returns the number of the shard of element i of the order, at its limit.
func (st *checking) shard(i int) uint32 { return st.order[i] >> orderBits }
func (st *checking) position(i int) int { return int(st.order[i] & (1<<orderBits - 1)) }
func (st *checking) at(i int) *weighed  { return &st.weighed[st.position(i)] }
func (st *checking) opens(i int) bool   { return i == 0 || st.shard(i) != st.shard(i-1) }

// forget drops the references to the caller's keys.
func (st *checking) forget() {
	clear(st.weighed)
	st.suspects, st.blocked = st.suspects[:0], false
}

// lock locks the shards in their order, each once. If the session isolates keys, the
// shards must be among theirs.
func (st *checking) lock(s *Session, cold bool) (locked bool, err error) {
	if s.step.isolated {
		for i := range st.n {
			w := st.at(i)
			if err := s.enter(w.hash, w.key); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	// A cut cannot tear the effects of a single key apart.
	if st.gated = st.n > 1; st.gated {
		st.gate = s.enterGate()
	}
	for i := range st.n {
		sh := s.e.table.Shard(int(st.shard(i)))
		if st.opens(i) {
			sh.Lock()
		}
		if cold { // prefetch while the next ones are locked
			w := st.at(i)
			sh.PrefetchRecord(w.hash, len(w.key))
		}
	}
	return true, nil
}

func (st *checking) unlock(s *Session) {
	for i := range st.n {
		if st.opens(i) {
			s.e.table.Shard(int(st.shard(i))).Unlock()
		}
	}
	if st.gated {
		s.leaveGate(st.gate)
		st.gate = nil
	}
}

// advance returns the time of the visit: see Session.advance.
func (st *checking) advance(t *shard.Table, now int64) int64 {
	for range 2 {
		before := now
		for i := range st.n {
			if st.opens(i) {
				now = t.Shard(int(st.shard(i))).Advance(now)
			}
		}
		if now == before { // all have the same time
			break
		}
	}
	return now
}

// decide decides and charges with all shards locked.
func (st *checking) decide(s *Session, now int64, checks []Check, o CheckOptions, out []Checked) (Verdict, error) {
	v, plain, err := st.judge(s, now, checks, o, out)
	switch {
	case err != nil:
		return v, err
	case plain && v.OK && o.Note == nil: // the usual case
		return st.pass(s, now, checks, out)
	}
	if st.resolve(s, now, checks, v.OK, out) && !o.Peek {
		if o.Note != nil && v.OK {
			err = st.commitNoted(s, now, checks, o.Note)
		} else {
			err = st.commit(s, now, checks, v.OK)
		}
		if err != nil {
			return v, err
		}
	}
	st.conclude(s, now, checks, o, &v, out)
	return v, nil
}

// judge plans the decisions of all limits. plain is set if each limit passes and its
// state is written in place.
func (st *checking) judge(s *Session, now int64, checks []Check, o CheckOptions, out []Checked) (v Verdict, plain bool, err error) {
	v, plain = Verdict{OK: !o.Denied, Binding: -1}, true
	failed, failure := len(checks), error(nil)
	for k := range st.n { // in the order of the prefetch
		i := st.position(k)
		c, w := &checks[i], &st.weighed[i]
		w.opts, w.anew = algo.Options{Peek: o.Peek, Force: o.Force, Wait: c.Wait, Debt: c.Debt, Window: c.Window}, o.Anew
		err := s.weigh(w, now, c)
		if w.leased && c.Cost > 0 && !o.Peek {
			s.e.demand.Asked(s.e.table.Index(w.hash), w.hash, c.Cost, now)
		}
		if err == nil && c.Penalty != nil && c.Mode == algo.Enforce && !o.Force {
			err = st.suspect(s, i, c, now)
		}
		switch {
		case err == nil:
			v.OK = v.OK && (w.d.OK && !c.TooMuch || c.Mode != algo.Enforce)
		case c.Mode == algo.Enforce || errors.Is(err, ErrStale):
			if i < failed {
				failed, failure = i, err
			}
		default:
			w.err, w.write = err, false
		}
		plain = plain && w.err == nil && w.d.OK && (!w.write || w.own && w.ring == nil && w.ent.Words() == w.words)
	}
	if failure != nil {
		return v, false, failure
	}
	if st.n < len(checks) {
		clear(out[:len(checks)]) // a limit that is off has no answer
	}
	v.OK = v.OK && !st.blocked
	return v, plain, nil
}

// resolve decides, once the verdict is known, what is stored of each plan, and reports
// whether anything is.
func (st *checking) resolve(s *Session, now int64, checks []Check, passed bool, out []Checked) (writes bool) {
	for i := range checks {
		if c := &checks[i]; c.Mode != algo.Off {
			w := &st.weighed[i]
			s.resolve(w, now, c, passed, c.CountAll && c.Cost > 0 && !st.blocked, &out[i])
			if d := &out[i].Decision; c.TooMuch { // whatever it counts
				*d = algo.Decision{Limit: d.Limit, Remaining: d.Remaining, RetryAfter: algo.Never, ResetAfter: d.ResetAfter}
			}
			writes = writes || w.write
		}
	}
	return writes
}

// conclude picks the limit to report for the call after its charge, and counts strikes.
func (st *checking) conclude(s *Session, now int64, checks []Check, o CheckOptions, v *Verdict, out []Checked) {
	if len(st.suspects) > 0 && !v.OK {
		st.punish(s, now, checks, o, v, out)
	}
	for i := range checks {
		if err := st.weighed[i].err; err != nil {
			out[i].Err = err
		}
	}
	if !v.Penalty {
		v.bind(checks, out)
	}
	if !v.OK {
		v.prolong(checks, out)
	}
}

// pass is decide for the case that each limit passes and no entry moves.
func (st *checking) pass(s *Session, now int64, checks []Check, out []Checked) (Verdict, error) {
	v := Verdict{OK: true, Binding: -1}
	for k := range st.n {
		i := st.position(k)
		w := &st.weighed[i]
		out[i] = Checked{Decision: w.d}
		if !w.write {
			continue
		}
		if err := s.commit(&w.plan, s.e.table.At(w.hash), now); err != nil {
			return v, err
		}
	}
	v.bind(checks, out)
	return v, nil
}

// weigh plans the decision of one limit on the call.
func (s *Session) weigh(w *weighed, now int64, c *Check) (err error) {
	if w.st, err = s.find(w, s.e.table.At(w.hash), now); err != nil {
		return err
	}
	w.d = algo.Decision{}
	return s.evaluate(&w.plan, w.st, now, c.Cost, &w.opts)
}

// resolve decides, once the verdict is known, what is stored of a limit's plan, and fills
// in its answer. all is set if the limit counts denied calls.
func (s *Session) resolve(w *weighed, now int64, c *Check, passed, all bool, out *Checked) {
	out.Over, out.Err = false, nil
	switch {
	case w.err != nil:
		out.Decision = algo.Decision{}
		return
	case passed && w.d.OK:
	case all:
		out.Over = passed
		s.countDenied(w, now, c)
	case passed && c.Mode == algo.Soft:
		retry := w.d.RetryAfter
		s.fill(w, now, c.Cost)
		out.Over, out.Decision = true, w.d // w keeps the charge
		out.OK, out.Allowed, out.RetryAfter, out.Delay = false, 0, retry, 0
		return
	case passed: // a shadow limit, not charged for a denial of its own
		out.Over = true
	case w.d.OK: // the call is denied: take nothing
		w.err = s.ask(w, now, 0)
	}
	out.Decision = w.d
}

// ask plans what the limit would answer, without a charge.
func (s *Session) ask(w *weighed, now, cost int64) error {
	opts := w.opts
	opts.Peek = true
	w.d = algo.Decision{}
	return s.evaluate(&w.plan, w.st, now, cost, &opts)
}

// bind picks the limit to report for the call.
func (v *Verdict) bind(checks []Check, out []Checked) {
	var rooms int64
	for i := range checks {
		if checks[i].Mode != algo.Enforce {
			continue
		}
		d := &out[i].Decision
		if !v.OK {
			if !d.OK && (v.Binding < 0 || waitsLonger(&checks[i], d, &checks[v.Binding], &out[v.Binding].Decision)) {
				v.Binding = i
			}
			continue
		}
		v.Delay = max(v.Delay, d.Delay)
		calls := d.Remaining
		if cost := checks[i].Cost; cost > 1 {
			calls /= cost
		}
		if v.Binding < 0 || calls < rooms {
			v.Binding, rooms = i, calls
		}
	}
}

// waitsLonger reports whether d, the denial of check c, is reported for the call rather
// than other, the denial of check than. A wait for a slot is reported only if no other
// limit denies: it is an upper bound, since the holder may settle sooner.
func waitsLonger(c *Check, d *algo.Decision, than *Check, other *algo.Decision) bool {
	if d.RetryAfter != algo.Never && other.RetryAfter != algo.Never {
		if mine, theirs := c.Limit.it.Decides == algo.Slots, than.Limit.it.Decides == algo.Slots; mine != theirs {
			return theirs
		}
	}
	return d.BindsMoreThan(other)
}

// prolong gives the limit reported for a denied call the longest wait of all limits
// except slots: an earlier retry would be denied again. A limit may have lost its room
// when this call was counted; until here, out[i] has its wait.
func (v *Verdict) prolong(checks []Check, out []Checked) {
	for i := range checks {
		d := &out[i].Decision
		if v.Binding >= 0 && checks[i].Mode == algo.Enforce && (d.RetryAfter == algo.Never || checks[i].Limit.it.Decides != algo.Slots) {
			b := &out[v.Binding].Decision
			b.RetryAfter = longest(b.RetryAfter, d.RetryAfter)
		}
		if d.OK {
			d.RetryAfter = 0
		}
	}
}

// longest returns the longer one of two waits.
func longest(a, b int64) int64 { return int64(max(uint64(a), uint64(b))) } // Never is the longest

// countDenied plans the charge of a denied call to a limit that counts it: see
// Rule.Count. If the limit had room, w.d gets the wait of the next such call: see
// Verdict.prolong.
func (s *Session) countDenied(w *weighed, now int64, c *Check) {
	in := algo.Input{State: w.st, List: w.list(), Now: now, Cost: c.Cost, Options: &w.opts, MaxEntries: s.e.logMaxEntries}
	var n algo.Count
	n, w.err = w.it.Count(&in, &w.d)
	w.next, w.words, w.write, w.counted, w.forfeits = n.Next, n.Words, n.Write, n.Units, n.Forfeits
}

// fill plans the charge of a call that a soft limit would have denied: up to its room, or
// beyond its limit if it counts on.
func (s *Session) fill(w *weighed, now, cost int64) {
	if w.it.Decides == algo.Slots { // Reserve takes them
		return
	}
	opts := w.opts
	opts.Wait = 0
	opts.Force = w.it.CountsOn()
	opts.AtMost = !opts.Force
	w.forfeits = opts.AtMost && cost > 0
	w.d = algo.Decision{}
	if w.err = s.evaluate(&w.plan, w.st, now, cost, &opts); w.err != nil {
		w.write = false
	}
	if w.forfeits && !w.write && !opts.Peek { // there was no room
		s.unmark(w)
	}
}
