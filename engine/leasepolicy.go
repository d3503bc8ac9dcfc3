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

// begin returns the limits of a step that apply, and the holder's block with its parts.
// found is false if there is no block, or if it has ended.
func (l *Leases) begin(now int64, checks []Check, key []byte, b *plan) (each []*lent, block algo.Block, parts []algo.Part, found bool, err error) {
	s := l.s
	*b = plan{hash: s.e.hash(algo.BlockSpace, key), key: key}
	if err := s.enter(b.hash, b.key); err != nil {
		return nil, block, nil, false, err
	}
	if b.ent, b.found = s.e.table.At(b.hash).Find(b.hash, b.key); b.found && !b.ent.Expired(now) {
		block = algo.ReadBlock(b.ent.State())
		l.parts = algo.AppendParts(l.parts[:0], b.ent.State())
		parts, found = l.parts, block.Deadline > now
	}
	for i := range checks {
		if c := &checks[i]; c.Mode != algo.Off {
			if len(each) == len(l.each) {
				l.each = append(l.each, &lent{due: make([]algo.Due, 0, algo.DueRoom)})
			}
			x := l.each[len(each)]
			*x = lent{due: x.due, at: i}
			x.hash, x.key = c.Hash, c.Key
			x.Binds = c.Mode == algo.Enforce
			each = l.each[:len(each)+1]
		}
	}
	return each, block, parts, found, nil
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
	var b plan
	each, block, parts, found, err := l.begin(now, checks, key, &b)
	if err != nil {
		return v, a, err
	}
	held, spent := q.Held, int64(0)
	switch {
	case found && q.Seq <= block.Seq:
		return v, a, ErrLeaseSeq
	case found:
		has := block.Has(now)
		held = min(held, has)
		spent = has - held
	default:
		block = algo.Block{Began: now, RefillEnds: now, Deadline: now + q.TTL}
	}
	q.Share = e.leaseShare // for Begin and Ask
	again := int64(0)      // what was charged again
	for _, x := range each {
		if err := l.open(x, &checks[x.at], o.Anew, now); err != nil {
			return v, a, err
		}
		known := false
		if x.Part, known = partOf(parts, x.Out.Generation); !found {
			known = false
		}
		charged, err := x.Begin(&block, known, now, held, spent, &q.Request)
		if err != nil {
			return v, a, err
		}
		if x.charged = charged; q.Need > 0 && (known || charged) {
			if err := l.putLent(x, now); err != nil {
				return v, a, err
			}
		}
		if x.Binds {
			again = max(again, x.Part.Units)
		}
	}
	if !found {
		held = min(held, again)
	}
	if v, err = s.Check(now, checks, o, out); err != nil {
		return v, a, err
	}
	next, ends, err := l.grant(now, q, checks, o, each, &block, held, found, v.Penalty)
	if err != nil {
		return v, a, err
	}
	more := next.Units - held
	record := next.Append(nil)
	for _, x := range each {
		var d algo.Decision
		charged, err := x.Give(&next, now, more, &d)
		if err != nil {
			return v, a, err
		}
		x.charged = x.charged || charged
		if err := l.putLent(x, now); err != nil {
			return v, a, err
		}
		if x.Part.Units+x.Part.Refill > 0 {
			record = algo.AppendPart(record, x.Part)
		}
		answer := &out[x.at].Decision
		answer.Remaining, answer.ResetAfter = d.Remaining, d.ResetAfter
		if _, blocks := x.Out.Sum(now); x.Binds {
			a.Holders = max(a.Holders, blocks, e.demand.Holders(e.table.Index(x.hash), x.hash))
		}
	}
	if err := l.putPolicyBlock(&b, &next, record, now); err != nil {
		return v, a, err
	}
	if v.OK {
		v.Binding, v.Delay = -1, 0
		v.bind(checks, out)
		a.Granted = q.Need
	}
	if found {
		e.leased.returned.Add(uint64(block.Undue(now)))
	}
	if a.Granted += more; !ends {
		e.leased.granted.Add(uint64(a.Granted + next.Refill))
		a.TTL, a.Refill, a.RefillTime = next.Deadline-now, next.Refill, next.RefillEnds-now
	}
	return v, a, nil
}

// grant decides how many units a holder gets in addition to Need, and returns the
// holder's next block. ends is set if the holder gets no next block; then the result is
// what is left of the old block.
func (l *Leases) grant(now int64, q *PolicyLease, checks []Check, o CheckOptions, each []*lent, block *algo.Block, held int64, found, blocked bool) (next algo.Block, ends bool, err error) {
	e := l.s.e
	wanted := float64(q.Want) / float64(q.TTL) * 1e9
	deadline := now + q.TTL
	for _, x := range each {
		if q.Need > 0 { // Check has written it
			if err := l.open(x, &checks[x.at], o.Anew, now); err != nil {
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
	if len(each) > 1 {
		if err := l.gives(now, each, held, q.TTL); err != nil {
			return next, false, err
		}
	}
	for _, x := range each {
		if x.Binds {
			would := wanted // of this limit
			for _, y := range each {
				if y != x && y.Binds {
					would = min(would, y.gives)
				}
			}
			ask.Fair = e.demand.Share(e.table.Index(x.hash), x.hash, e.hash(algo.BlockSpace, l.block), would, algo.PerSecond(x.Rule), now+2*q.TTL, now)
		}
		if err := x.Ask(now, held, &ask); err != nil {
			return next, false, err
		}
		if x.Binds {
			l.offers = append(l.offers, x.Offer)
			ends = ends || x.Full(now)
		}
	}
	if found {
		deadline = max(deadline, block.Deadline)
	}
	next = algo.Block{Seq: q.Seq, Began: now, RefillEnds: now, Deadline: deadline, Units: held}
	more, refill, lasts := algo.Join(l.offers)
	if ends = ends || blocked || deadline <= now || !algo.WorthA(held+more+refill); ends {
		// What the holder has may still be spent: it may not hear this.
		if found {
			next.Deadline = block.Deadline
		}
		return next, true, nil
	}
	if next.Units += more; refill > 0 {
		next.Refill, next.RefillEnds = refill, now+lasts
	}
	return next, false, nil
}

// gives estimates how many units each limit can give a holder within ttl: its part of
// the rate, the units that are left, and the units that the holder has. The limit that
// can give least bounds how much the holder uses of the other limits, so the holder's
// part of the other limits need not be larger.
func (l *Leases) gives(now int64, each []*lent, held, ttl int64) error {
	e := l.s.e
	for _, x := range each {
		if x.Binds {
			left, err := x.Left(now)
			if err != nil {
				return err
			}
			x.gives = e.demand.Level(e.table.Index(x.hash), x.hash, algo.PerSecond(x.Rule)) + float64(max(left, 0)+held)/float64(ttl)*1e9
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
	now = s.advance(s.step.shards, now)
	var b plan
	each, block, parts, found, err := l.begin(now, checks, key, &b)
	switch {
	case err != nil || !found:
		return 0, err
	case seq <= block.Seq:
		return 0, ErrLeaseSeq
	}
	units = min(left, block.Has(now))
	spent := block.Has(now) - units
	for _, x := range each {
		if err := l.open(x, &checks[x.at], false, now); err != nil {
			return 0, err
		}
		known := false
		if x.Part, known = partOf(parts, x.Out.Generation); !known {
			continue
		}
		if _, err := x.Return(&block, now, spent); err != nil {
			return 0, err
		}
		if err := l.putLent(x, now); err != nil {
			return 0, err
		}
		s.e.demand.Gone(s.e.table.Index(x.hash), x.hash, b.hash)
	}
	remove(s.e.table.At(b.hash), &b)
	s.e.leased.returned.Add(uint64(units + block.Undue(now)))
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
