package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// MaxSegments is how many limits one chain may name.
const MaxSegments = 32

// Errors of chains.
var (
	// ErrTooManySegments is returned for a chain of more than MaxSegments.
	ErrTooManySegments = fmt.Errorf("at most %d limits in one call", MaxSegments)
	// ErrAtMostCosts is returned for ATMOST over limits of different costs: all limits
	// must grant one amount.
	ErrAtMostCosts = errors.New("ATMOST needs the same COST in every limit of the chain")
)

// Segment is one limit of a chain.
type Segment struct {
	Key   []byte
	Limit algo.Limit
	Cost  int64
}

// chain is the scratch space of DecideAll.
type chain struct {
	items [MaxSegments]*interned
	plans [MaxSegments]plan
}

// DecideAll decides a call on several limits, as one atomic step: it charges all limits
// or none. It locks the shards of all keys in the order of their indexes. out receives
// each limit's decision, in order.
//
// The result binding is the index of the limit that speaks for the call. If the call is
// denied, binding is the limit with the longest wait, because an earlier retry would be
// denied again. If the call passes, binding is the limit with the fewest remaining
// units. If several limits are equal, binding is the first of them. If the call is
// denied, the limits that would have passed report OK and their present state, because
// nothing was charged.
//
// It returns the errors of Decide, ErrTooManySegments, ErrDuplicateKey and
// ErrAtMostCosts. After an error nothing has changed.
func (s *Session) DecideAll(now int64, segs []Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	if len(segs) > MaxSegments {
		return 0, ErrTooManySegments
	}
	if s.chain == nil {
		s.chain = new(chain)
	}
	c, n := s.chain, len(segs)
	defer c.forget(n)
	if err := s.prepare(segs, o); err != nil {
		return 0, err
	}
	keys := &s.keys
	keys.reset()
	for i := range segs {
		keys.add(s, c.plans[i].hash, segs[i].Key)
	}
	if err := keys.lock(s); err != nil {
		return 0, err
	}
	err = s.decideHeld(s.advance(keys.shards, now), segs, o, out)
	keys.unlock(s)
	if err != nil {
		return 0, err
	}
	for i := range segs {
		s.top.observe(now, segs[i].Key, c.plans[i].hash, out[i].OK)
	}
	return bind(out[:n]), nil
}

// advance returns the time of a visit to several shards, which must be locked: the latest
// time that shard.Shard.Advance returns for any of them.
func (s *Session) advance(shards []int, now int64) int64 {
	for range 2 {
		for _, i := range shards {
			now = s.e.table.Shard(i).Advance(now)
		}
	}
	return now
}

// prepare interns the limits, hashes the keys and refuses an invalid chain.
func (s *Session) prepare(segs []Segment, o *algo.Options) error {
	c := s.chain
	for i := range segs {
		if len(segs[i].Key) > shard.MaxKeyLen {
			return ErrKeyTooLong
		}
		l := segs[i].Limit
		l.DB = s.db
		it, err := s.rule(l)
		if err != nil {
			return err
		}
		// A later segment's limit may displace it from the session's cache.
		it.refs.Add(1)
		c.items[i] = it
		p := &c.plans[i]
		p.hash = s.hash(segs[i].Key)
		for j := range i {
			if c.plans[j].hash == p.hash && bytes.Equal(segs[j].Key, segs[i].Key) {
				return ErrDuplicateKey
			}
		}
		if o.AtMost && segs[i].Cost != segs[0].Cost {
			return ErrAtMostCosts
		}
	}
	return nil
}

// forget gives back the references taken by prepare, and drops the plans' references to
// the caller's keys.
func (c *chain) forget(n int) {
	for i := range n {
		if c.items[i] != nil {
			c.items[i].refs.Add(-1)
			c.items[i] = nil
		}
		c.plans[i] = plan{}
	}
}

// decideHeld decides and charges with all shards locked.
func (s *Session) decideHeld(now int64, segs []Segment, o *algo.Options, out []algo.Decision) error {
	if s.e.sealed.Load() {
		return ErrSealed
	}
	ok, err := s.planAll(now, segs, 0, o, out)
	if err != nil {
		return err
	}
	if ok && o.AtMost {
		ok, err = s.levelAtMost(now, segs, o, out)
		if err != nil {
			return err
		}
	}
	if !ok {
		return s.reportDenied(now, segs, o, out)
	}
	if o.Peek {
		return nil
	}
	return s.commitAll(now, segs)
}

// planAll plans every segment and reports whether all pass. If cost is not 0, it replaces
// each segment's own cost.
func (s *Session) planAll(now int64, segs []Segment, cost int64, o *algo.Options, out []algo.Decision) (bool, error) {
	all := true
	for i := range segs {
		p := &s.chain.plans[i]
		n := segs[i].Cost
		if cost != 0 {
			n = cost
		}
		if err := s.planSegment(i, now, segs[i].Key, n, o); err != nil {
			return false, err
		}
		out[i] = p.d
		all = all && p.d.OK
	}
	return all, nil
}

// planSegment plans segment i in place of its earlier plan.
func (s *Session) planSegment(i int, now int64, key []byte, cost int64, o *algo.Options) error {
	p := &s.chain.plans[i]
	p.d = algo.Decision{}
	return s.plan(p, s.e.table.At(p.hash), p.hash, key, s.chain.items[i], now, cost, o)
}

// levelAtMost plans again with the amount that every limit can grant.
func (s *Session) levelAtMost(now int64, segs []Segment, o *algo.Options, out []algo.Decision) (bool, error) {
	amount := out[0].Allowed
	for i := range segs {
		amount = min(amount, out[i].Allowed)
	}
	if amount == segs[0].Cost || amount <= 0 {
		return true, nil
	}
	return s.planAll(now, segs, amount, o, out)
}

// reportDenied makes limits that would have passed report what they hold now: the denied
// call took nothing from them.
func (s *Session) reportDenied(now int64, segs []Segment, o *algo.Options, out []algo.Decision) error {
	peek := algo.Options{Peek: true, Debt: o.Debt}
	for i := range segs {
		if !out[i].OK {
			continue
		}
		if err := s.planSegment(i, now, segs[i].Key, 0, &peek); err != nil {
			return err
		}
		out[i] = s.chain.plans[i].d
	}
	return nil
}

// commitAll writes every plan. Room for all is made first, so that a full
// table fails the chain before any limit is charged.
func (s *Session) commitAll(now int64, segs []Segment) error {
	for i := range segs {
		p := &s.chain.plans[i]
		if p.write && p.leased {
			if err := s.Leases().reserve(p); err != nil {
				s.unreserve(i)
				return err
			}
		}
		if !p.write || p.words == 0 {
			continue
		}
		sh := s.e.table.At(p.hash)
		p.ent, p.found = sh.Find(p.hash, p.key)
		if p.found && p.ent.Words() >= p.words {
			continue
		}
		created := !p.found
		if err := s.reserve(p, now); err != nil {
			s.unreserve(i)
			return err
		}
		p.created = created
	}
	for i := range segs {
		p := &s.chain.plans[i]
		if !p.write {
			continue
		}
		// An insert may have moved what an earlier Find returned, or evicted it.
		sh := s.e.table.At(p.hash)
		p.ent, p.found = sh.Find(p.hash, p.key)
		if err := s.commit(p, sh, now); err != nil {
			return err
		}
	}
	return nil
}

// reserve makes room for p without charging anything.
func (s *Session) reserve(p *plan, now int64) error {
	sh := s.e.table.At(p.hash)
	if p.found {
		return p.resize(sh, p.words, now)
	}
	if _, err := sh.Insert(p.hash, p.key, p.it.id, p.words, p.next.Deadline, now); err != nil {
		return err
	}
	p.it.refer(sh)
	return nil
}

// unreserve deletes what reserve created for the segments before n.
func (s *Session) unreserve(n int) {
	for i := range n {
		p := &s.chain.plans[i]
		if !p.created {
			continue
		}
		sh := s.e.table.At(p.hash)
		if ent, ok := sh.Find(p.hash, p.key); ok {
			sh.Delete(ent)
		}
	}
}

// bind picks the decision to report for the whole chain.
func bind(ds []algo.Decision) int {
	best := 0
	for i := 1; i < len(ds); i++ {
		if ds[i].BindsMoreThan(&ds[best]) {
			best = i
		}
	}
	return best
}
