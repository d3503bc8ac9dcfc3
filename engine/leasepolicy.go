package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// # Leases of policies
//
// A lease of a policy takes units of all limits of the policy that apply, in one step:
// see algo.Lending. The block is one record, under the policy's name and the holder's
// id. The block has a part for each counter. A part names its counter by the generation
// of the counter's Outstanding.
//
// The step isolates all counters and the block, and can be rolled back. In the step, the
// old block ends, Check decides Need as for any call, and the new block is charged.
// After the old block ends, the rest of its units is charged but not out. This is not
// visible outside of the step.
//
// The parts of a block differ:
//
//   - A window has no refill, so all of its units are charged at once.
//   - A limit that is not enforced is charged at most the units that it has left.
//   - If a counter was deleted or evicted, its part has the units that were charged since.
//   - An edit of the policy changes no generation, so parts find their counters. A limit
//     that no longer applies keeps its part out until the deadline. If an edit resets a
//     counter, the units that are out count as used.
//
// These limits cannot be leased: leaky, log, a calendar, CountAll, and a cost other than 1.
// A policy without an enforced limit cannot either: a lease would hide calls that its
// limits should count.

// leaseUndo is how many bytes a lease of a policy may use to remember earlier states.
const leaseUndo = 1 << 20

// PolicyLease is a request of a holder for the limits of a policy.
type PolicyLease struct {
	Policy string
	ID     []byte
	algo.Request
	// Whole is set if two things are true: a unit of the lease is a unit of each limit, and
	// no limit counts denied calls. Otherwise the holder gets no block.
	Whole bool
}

// lent is one limit of a lease of a policy.
type lent struct {
	weighed
	algo.Lending
	due     []algo.Due // room of Out
	at      int        // position in the checks
	gives   float64    // how much the limit can give the holder, in units per second
	charged bool       // something was charged at once, since the limit was read
}

// policyBlockKey returns the key of a holder's block of a policy. No key of a counter is as
// long as its first number says.
func (l *Leases) policyBlockKey(name string, id []byte) []byte {
	l.block = binary.AppendUvarint(l.block[:0], math.MaxUint32)
	l.block = binary.AppendUvarint(l.block, uint64(len(name)))
	l.block = append(append(l.block, name...), id...)
	return l.block
}

// TakeAll gives a holder units of the limits of a policy. checks are the checks of a
// call of Need units. TakeAll decides them as Check does, and returns the same results.
// If the limits cannot be leased, or none is enforced, TTL is 0.
//
// Errors are those of Check, ErrLeaseID, ErrLeaseSeq, ErrLeaseBounds. Nothing is changed
// then.
func (l *Leases) TakeAll(now int64, q *PolicyLease, checks []Check, o CheckOptions, out []Checked) (v Verdict, a Leased, err error) {
	switch {
	case len(q.ID) == 0 || len(q.ID) > MaxLeaseID:
		return v, a, ErrLeaseID
	case q.Want < 0 || q.Held < 0 || q.Need < 0 || q.TTL < algo.MinLease || q.TTL > algo.MaxLease:
		return v, a, ErrLeaseBounds
	}
	s := l.s
	if o.Denied || !q.Whole || !leasable(checks) {
		if v, err = s.Check(now, checks, o, out); err == nil && v.OK {
			a.Granted = q.Need
		}
		return v, a, err
	}
	block := l.policyBlockKey(q.Policy, q.ID)
	step, err := l.isolate(now, checks, block)
	if err != nil {
		return v, a, err
	}
	v, a, err = l.takeAll(now, q, checks, o, out, block)
	if err != nil {
		step.Rollback()
		return Verdict{}, Leased{}, err
	}
	if err := step.Commit(); err != nil {
		return Verdict{}, Leased{}, err
	}
	return v, a, nil
}

// leasable reports whether all limits can be leased, and one of them is enforced.
func leasable(checks []Check) (ok bool) {
	for i := range checks {
		c := &checks[i]
		if c.Mode == algo.Off {
			continue
		}
		if !algo.Leasable(&c.Limit.it.Rule) || c.CountAll {
			return false
		}
		ok = ok || c.Mode == algo.Enforce
	}
	return ok
}

// isolate begins the step of a lease, which can be taken back.
func (l *Leases) isolate(now int64, checks []Check, block []byte) (Step, error) {
	s := l.s
	keys := [][]byte{block}
	for i := range checks {
		if len(checks[i].Key) > shard.MaxKeyLen {
			return Step{}, ErrKeyTooLong
		}
		keys = append(keys, checks[i].Key)
	}
	if len(checks) > MaxChecks {
		return Step{}, ErrTooManyChecks
	}
	return s.Isolate(now, keys, leaseUndo), nil
}

// policyStep is a step that ends a holder's block of a policy, and may put another in its
// place.
type policyStep struct {
	l      *Leases
	now    int64
	checks []Check
	each   []*lent // the limits that apply
	at     plan    // the place of the block
	// block is the old block with its parts, and held what the holder has left of it. found is
	// false if there is no old block, or if it has ended.
	block algo.Block
	parts []algo.Part
	found bool
	held  int64
}

// begin finds the limits that apply, and the holder's block under key.
func (t *policyStep) begin(key []byte) error {
	l, e := t.l, t.l.s.e
	t.at = plan{hash: e.hash(algo.BlockSpace, key), key: key}
	b := &t.at
	if err := l.s.enter(b.hash, b.key); err != nil {
		return err
	}
	if b.ent, b.found = e.table.At(b.hash).Find(b.hash, b.key); b.found && !b.ent.Expired(t.now) {
		t.block = algo.ReadBlock(b.ent.State())
		l.parts = algo.AppendParts(l.parts[:0], b.ent.State())
		t.parts, t.found = l.parts, t.block.Deadline > t.now
	}
	for i := range t.checks {
		if c := &t.checks[i]; c.Mode != algo.Off {
			if len(t.each) == len(l.each) {
				l.each = append(l.each, &lent{due: make([]algo.Due, 0, algo.DueRoom)})
			}
			x := l.each[len(t.each)]
			*x = lent{due: x.due, at: i}
			x.hash, x.key = c.Hash, c.Key
			x.Binds = c.Mode == algo.Enforce
			t.each = l.each[:len(t.each)+1]
		}
	}
	return nil
}

// open reads the state of a limit, and the limit's units that are out.
func (l *Leases) open(x *lent, c *Check, anew bool, now int64) (err error) {
	s := l.s
	sh := s.e.table.At(x.hash)
	x.plan = plan{it: c.Limit.it, hash: c.Hash, key: c.Key}
	x.anew, x.foreign = anew, false
	if x.State, err = s.find(&x.weighed, sh, now); err != nil {
		return err
	}
	x.st, x.Rule, x.Out = x.State, &x.it.Rule, algo.Outstanding{}
	if x.leased {
		if ent, found := sh.Find(besideHash(x.hash), x.key); found && !ent.Expired(now) {
			x.Out = algo.ReadOutstanding(ent.State(), x.due)
		}
		if old := s.e.limits.get(x.ent.Meta()); !sameNumbers(old.Limit, x.it.Limit) {
			x.Out.Forget(now)
			x.Out.Adopt(x.Rule, &old.Rule)
		}
	}
	if !x.Out.Live(now) {
		x.Out = algo.Outstanding{Generation: rand.Uint64() | 1}
	}
	return nil
}

// partOf returns the part of a generation.
func partOf(parts []algo.Part, generation uint64) (algo.Part, bool) {
	for _, p := range parts {
		if p.Generation == generation {
			return p, true
		}
	}
	return algo.Part{}, false
}

// putLent writes what open has read and the lease has changed.
func (l *Leases) putLent(x *lent, now int64) error {
	s, sh := l.s, l.s.e.table.At(x.hash)
	if !x.charged && !x.leased && !x.Out.Live(now) {
		return nil
	}
	if err := s.enter(x.hash, x.key); err != nil {
		return err
	}
	if x.foreign {
		s.e.replaced.Add(1)
	}
	it := s.claim(&x.weighed)
	defer it.refs.Add(-1)
	state := leasedState{st: x.State, out: x.Out, noted: true}
	peak := int64(0)
	x.mark = algo.Mark{}
	if x.found && s.keeps(&x.weighed) {
		if x.mark = x.it.Mark(plainPart(s, x.ent)); x.mark.Held > 0 {
			note(s, &x.weighed, now)
			if x.leased {
				peak = algo.Peak(x.Rule, x.ent.State())
			}
		}
		state.mark = x.mark
	}
	ends, err := l.putOutstanding(&x.plan, sh, &x.Out, now)
	if err != nil {
		return err
	}
	state.ends = ends
	x.ent, x.found = sh.Find(x.hash, x.key) // it may have moved
	err = l.putCounter(&x.plan, sh, &state, now)
	if err != nil && !x.charged && x.mark.Held > 0 { // there is no room for a low
		state.noted, state.peak = false, peak
		err = l.putCounter(&x.plan, sh, &state, now)
	}
	return err
}

// takeAll is TakeAll within its step.
func (l *Leases) takeAll(now int64, q *PolicyLease, checks []Check, o CheckOptions, out []Checked, key []byte) (v Verdict, a Leased, err error) {
	s, e := l.s, l.s.e
	if e.sealed.Load() {
		return v, a, ErrSealed
	}
	now = s.advance(s.step.shards, now)
	t := policyStep{l: l, now: now, checks: checks}
	if err := t.begin(key); err != nil {
		return v, a, err
	}
	q.Share = e.leaseShare // for Begin and Ask
	if err := t.endOld(q, o.Anew); err != nil {
		return v, a, err
	}
	if v, err = s.Check(now, checks, o, out); err != nil {
		return v, a, err
	}
	next, ends, err := t.grant(q, o.Anew, v.Penalty)
	if err != nil {
		return v, a, err
	}
	if a.Holders, err = t.give(&next, out); err != nil {
		return v, a, err
	}
	if v.OK {
		v.Binding, v.Delay = -1, 0
		v.bind(checks, out)
		a.Granted = q.Need
	}
	if t.found {
		e.leased.returned.Add(uint64(t.block.Undue(now)))
	}
	if a.Granted += next.Units - t.held; !ends {
		e.leased.granted.Add(uint64(a.Granted + next.Refill))
		a.TTL, a.Refill, a.RefillTime = next.Deadline-now, next.Refill, next.RefillEnds-now
	}
	return v, a, nil
}

// endOld ends the holder's old block in all limits. If there is no old block, it charges
// again what the holder says it has.
func (t *policyStep) endOld(q *PolicyLease, anew bool) error {
	t.held = q.Held
	spent := int64(0)
	switch {
	case t.found && q.Seq <= t.block.Seq:
		return ErrLeaseSeq
	case t.found:
		has := t.block.Has(t.now)
		t.held = min(t.held, has)
		spent = has - t.held
	default:
		t.block = algo.Block{Began: t.now, RefillEnds: t.now, Deadline: t.now + q.TTL}
	}
	again := int64(0) // what was charged again
	for _, x := range t.each {
		if err := t.l.open(x, &t.checks[x.at], anew, t.now); err != nil {
			return err
		}
		known := false
		if x.Part, known = partOf(t.parts, x.Out.Generation); !t.found {
			known = false
		}
		charged, err := x.Begin(&t.block, known, t.now, t.held, spent, &q.Request)
		if err != nil {
			return err
		}
		if x.charged = charged; q.Need > 0 && (known || charged) {
			if err := t.l.putLent(x, t.now); err != nil {
				return err
			}
		}
		if x.Binds {
			again = max(again, x.Part.Units)
		}
	}
	if !t.found {
		t.held = min(t.held, again)
	}
	return nil
}

// give charges all limits with the holder's next block, and writes the block. out gets what
// is left of each limit. holders is as in Leased.
func (t *policyStep) give(next *algo.Block, out []Checked) (holders int64, err error) {
	e, more := t.l.s.e, next.Units-t.held
	record := next.Append(nil)
	for _, x := range t.each {
		var d algo.Decision
		charged, err := x.Give(next, t.now, more, &d)
		if err != nil {
			return 0, err
		}
		x.charged = x.charged || charged
		if err := t.l.putLent(x, t.now); err != nil {
			return 0, err
		}
		if x.Part.Units+x.Part.Refill > 0 {
			record = algo.AppendPart(record, x.Part)
		}
		answer := &out[x.at].Decision
		answer.Remaining, answer.ResetAfter = d.Remaining, d.ResetAfter
		if _, blocks := x.Out.Sum(t.now); x.Binds {
			holders = max(holders, blocks, e.demand.Holders(e.table.Index(x.hash), x.hash))
		}
	}
	return holders, t.l.putPolicyBlock(&t.at, next, record, t.now)
}

// grant decides how many units a holder gets in addition to Need, and returns the
// holder's next block. ends is set if the holder gets no next block; then the result is
// what is left of the old block.
func (t *policyStep) grant(q *PolicyLease, anew, blocked bool) (next algo.Block, ends bool, err error) {
	l, e, now := t.l, t.l.s.e, t.now
	wanted := float64(q.Want) / float64(q.TTL) * 1e9
	deadline := now + q.TTL
	for _, x := range t.each {
		if q.Need > 0 { // Check has written it
			if err := l.open(x, &t.checks[x.at], anew, now); err != nil {
				return next, false, err
			}
			x.charged = false
		}
		if end := x.WindowEnd(now); x.Binds && end > 0 {
			deadline = min(deadline, end)
		}
	}
	ask := q.Request
	ask.TTL = deadline - now
	l.offers = l.offers[:0]
	if len(t.each) > 1 {
		if err := t.estimate(q.TTL); err != nil {
			return next, false, err
		}
	}
	for _, x := range t.each {
		if x.Binds {
			would := wanted // of this limit
			for _, y := range t.each {
				if y != x && y.Binds {
					would = min(would, y.gives)
				}
			}
			ask.Fair = e.demand.Share(e.table.Index(x.hash), x.hash, t.at.hash, would, algo.PerSecond(x.Rule), now+2*q.TTL, now)
		}
		if err := x.Ask(now, t.held, &ask); err != nil {
			return next, false, err
		}
		if x.Binds {
			l.offers = append(l.offers, x.Offer)
			ends = ends || x.Full(now)
		}
	}
	if t.found {
		deadline = max(deadline, t.block.Deadline)
	}
	next = algo.Block{Seq: q.Seq, Began: now, RefillEnds: now, Deadline: deadline, Units: t.held}
	more, refill, lasts := algo.Join(l.offers)
	if ends = ends || blocked || deadline <= now || !algo.WorthA(t.held+more+refill); ends {
		// What the holder has may still be spent: it may not hear this.
		if t.found {
			next.Deadline = t.block.Deadline
		}
		return next, true, nil
	}
	if next.Units += more; refill > 0 {
		next.Refill, next.RefillEnds = refill, now+lasts
	}
	return next, false, nil
}

// estimate sets how many units each limit can give a holder within ttl: its part of
// the rate, the units that are left, and the units that the holder has. The limit that
// can give least bounds how much the holder uses of the other limits, so the holder's
// part of the other limits need not be larger.
func (t *policyStep) estimate(ttl int64) error {
	e := t.l.s.e
	for _, x := range t.each {
		if x.Binds {
			left, err := x.Left(t.now)
			if err != nil {
				return err
			}
			x.gives = e.demand.Level(e.table.Index(x.hash), x.hash, algo.PerSecond(x.Rule)) + float64(max(left, 0)+t.held)/float64(ttl)*1e9
		}
	}
	return nil
}

// putPolicyBlock writes a holder's block of a policy, or deletes it if nothing is out.
func (l *Leases) putPolicyBlock(b *plan, block *algo.Block, record []byte, now int64) error {
	sh := l.s.e.table.At(b.hash)
	if block.Out() == 0 || block.Deadline <= now {
		remove(sh, b)
		return nil
	}
	b.ent, b.found = sh.Find(b.hash, b.key) // it may have moved
	return l.put(b, sh, algo.BlockRecord, record, block.Deadline, now)
}

// ReturnAll ends a holder's block of a policy. checks are the checks of a call. It
// returns how many units the holder gave back: 0 if the block had ended. Units that are
// out of limits that no longer apply stay out until the deadline.
//
// Errors: ErrLeaseID, ErrLeaseSeq, ErrLeaseBounds, ErrSealed, and those of Check; nothing is
// changed then.
func (l *Leases) ReturnAll(now int64, policy string, id []byte, seq uint64, left int64, checks []Check) (units int64, err error) {
	switch {
	case len(id) == 0 || len(id) > MaxLeaseID:
		return 0, ErrLeaseID
	case left < 0:
		return 0, ErrLeaseBounds
	}
	key := l.policyBlockKey(policy, id)
	step, err := l.isolate(now, checks, key)
	if err != nil {
		return 0, err
	}
	if units, err = l.returnAll(now, seq, left, checks, key); err != nil {
		step.Rollback()
		return 0, err
	}
	return units, step.Commit()
}

// returnAll is ReturnAll within its step.
func (l *Leases) returnAll(now int64, seq uint64, left int64, checks []Check, key []byte) (units int64, err error) {
	s := l.s
	if s.e.sealed.Load() {
		return 0, ErrSealed
	}
	t := policyStep{l: l, now: s.advance(s.step.shards, now), checks: checks}
	switch err := t.begin(key); {
	case err != nil || !t.found:
		return 0, err
	case seq <= t.block.Seq:
		return 0, ErrLeaseSeq
	}
	units = min(left, t.block.Has(t.now))
	spent := t.block.Has(t.now) - units
	for _, x := range t.each {
		if err := l.open(x, &checks[x.at], false, t.now); err != nil {
			return 0, err
		}
		known := false
		if x.Part, known = partOf(t.parts, x.Out.Generation); !known {
			continue
		}
		if _, err := x.Return(&t.block, t.now, spent); err != nil {
			return 0, err
		}
		if err := l.putLent(x, t.now); err != nil {
			return 0, err
		}
		s.e.demand.Gone(s.e.table.Index(x.hash), x.hash, t.at.hash)
	}
	remove(s.e.table.At(t.at.hash), &t.at)
	s.e.leased.returned.Add(uint64(units + t.block.Undue(t.now)))
	return units, nil
}

// OutOf returns how many units of a counter of a policy are out, and how many holders
// have them.
func (l *Leases) OutOf(now int64, key []byte, hash uint64) (units, holders int64, err error) {
	sh, err := l.s.look(hash)
	if err != nil {
		return 0, 0, err
	}
	defer l.s.unlock(sh)
	if ent, found := sh.Find(hash, key); found && !ent.Expired(now) && l.s.e.limits.get(ent.Meta()).Limit.Leased {
		out := l.outstanding(sh, hash, key, now)
		units, holders = out.Sum(now)
	}
	return units, holders, nil
}

// Holding is the block of one holder.
type Holding struct {
	// Key is the key of the counter, or the name of the policy if Policy is set.
	Key, ID []byte
	Policy  bool
	Units   int64 // units that are out
	Until   int64 // the deadline, engine time in ns
}

// Holders returns the blocks for which want returns true and of which most units are out,
// the largest first. It reads the whole table, in parts.
func Holders(e *Engine, now int64, count int, want func(*Holding) bool) (top []Holding) {
	const part = 1 << 14
	for cursor := uint64(0); ; {
		cursor = e.table.ScanIf(cursor, part, false, func(ent shard.Entry) bool {
			if e.limits.get(ent.Meta()).Limit.DB != algo.BlockSpace || ent.Expired(now) {
				return false
			}
			b := algo.ReadBlock(ent.State())
			h, ok := holdingOf(ent.Key())
			if h.Units, h.Until = b.Out(), b.Deadline; !ok || h.Until <= now || !want(&h) {
				return false
			}
			at, _ := slices.BinarySearchFunc(top, h.Units, func(x Holding, units int64) int { return cmp.Compare(units, x.Units) })
			if at < count {
				h.Key, h.ID = bytes.Clone(h.Key), bytes.Clone(h.ID)
				top = slices.Insert(top, at, h)
				top = top[:min(len(top), count)]
			}
			return true
		})
		if cursor == 0 {
			return top
		}
	}
}

// holdingOf reads the key of a block.
func holdingOf(key []byte) (h Holding, ok bool) {
	length, n := binary.Uvarint(key)
	if h.Policy = length == math.MaxUint32; h.Policy {
		key = key[n:]
		length, n = binary.Uvarint(key)
	}
	if n <= 0 || length > uint64(len(key)-n) {
		return h, false
	}
	h.Key, h.ID = key[n:n+int(length)], key[n+int(length):]
	return h, true
}
