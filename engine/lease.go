package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// # Leases
//
// A lease moves units of a limit to a holder: see algo.Outstanding. Three records change
// in one step, and so are replicated together:
//
//   - the counter. While units are out, its limit has the flag Leased, and every
//     decision on it goes through unlease. Decisions on other counters only test the
//     flag.
//   - the units that are out (algo.Outstanding), under the counter's key in LeaseSpace.
//     This record is in the counter's shard. Only the code of leases writes it.
//   - the holder's block, under the counter's key and the holder's id in BlockSpace.
//
// If a counter is deleted or evicted, its leases are void. The Outstanding counts only
// while the counter's limit has the flag Leased, and a block counts only while it has
// the generation of the Outstanding.
//
// Leases are in database 0 only, because the two key spaces belong to it. Nobody counts
// the leases that end: the sweep deletes ended blocks like any expired entry.

// DefaultLeaseShare is a quarter.
const DefaultLeaseShare = 1 << 30

// LeaseShare converts a percentage, from 1 to 100, to Config.LeaseShare.
func LeaseShare(percent int) uint32 {
	return uint32(min(uint64(percent)<<32/100, math.MaxUint32)) // MaxUint32 is all
}

// MaxLeaseID bounds the id of a holder, in bytes.
const MaxLeaseID = 128

// leaseCounts counts units of leases since the start. Granted units that have not gone
// back are spent, are still out, or were lost at a deadline.
type leaseCounts struct {
	granted  atomic.Uint64 // granted at once, or as refill
	returned atomic.Uint64 // returned by the holder, or not due yet when a refill was ended
	// lapsed counts units that were still out at their deadline: they were spent, or lost
	// with their holder. They are counted when the Outstanding of their limit is next
	// written, and are not counted if it is never written again.
	lapsed atomic.Uint64
}

// Errors of leases.
var (
	// ErrLeaseID is returned for an id that is empty or longer than MaxLeaseID.
	ErrLeaseID = errors.New("id must be 1 to 128 bytes")
	// ErrLeaseSeq is returned for a request that is not newer than the holder's last one.
	// Nothing has changed.
	ErrLeaseSeq = errors.New("seq must be greater than the seq of the last request with this id")
	// ErrLeaseBounds is returned for a request with a negative number, or a time to live
	// that is not between algo.MinLease and algo.MaxLease.
	ErrLeaseBounds = errors.New("want, held and need must be 0 or more, and ttl 100 ms to 60 s")
)

// Lease is a request of a holder.
type Lease struct {
	Key   []byte
	Limit algo.Limit
	ID    []byte
	// Request is the request of the holder. Take fills in the fields Share and Fair.
	algo.Request
}

// Leased is the answer to a Lease. Times are in ns.
type Leased struct {
	algo.Decision       // the decision on Need
	Granted       int64 // units that the holder gets at once, including Need
	// TTL is how long the holder may spend the units; 0 if the holder must ask for each
	// call.
	TTL int64
	// Refill units become due evenly over RefillTime.
	Refill, RefillTime int64
	// Holders counts the ids with a block, or those that have lately asked for one if these
	// are more.
	Holders int64
}

// Leases is what a session can do with leases.
type Leases struct {
	s     *Session
	block []byte     // the key of a block
	words []byte     // scratch for a record
	due   []algo.Due // scratch for the entries of an Outstanding
	// counted and held are the records of the counter and of the block.
	counted, held plan
	// each, parts and offers are scratch of leases of policies.
	each   []*lent
	parts  []algo.Part
	offers []algo.Offer
}

// Leases returns the session's leases.
func (s *Session) Leases() *Leases {
	if s.leases == nil {
		s.leases = &Leases{s: s, due: make([]algo.Due, 0, algo.DueRoom)}
	}
	return s.leases
}

// Take gives a holder units of a limit, as q says. Of a limit whose units cannot be leased,
// or in a database other than 0, Need is decided like a call, and TTL is 0.
//
// Errors are those of Session.Decide, ErrLeaseID, ErrLeaseSeq, ErrLeaseBounds; nothing is
// charged then.
func (l *Leases) Take(now int64, q *Lease) (a Leased, err error) {
	switch {
	case len(q.ID) == 0 || len(q.ID) > MaxLeaseID:
		return a, ErrLeaseID
	case q.Want < 0 || q.Held < 0 || q.Need < 0 || q.TTL < algo.MinLease || q.TTL > algo.MaxLease:
		return a, ErrLeaseBounds
	}
	s := l.s
	limit := q.Limit
	limit.DB = s.db
	it, err := s.rule(limit)
	if err != nil {
		return a, err
	}
	if !algo.Leasable(&it.Rule) || s.db != 0 {
		if a.Decision, err = s.Decide(now, q.Key, q.Limit, q.Need, nil); err == nil {
			a.Granted = a.Allowed
		}
		return a, err
	}
	var hash uint64
	err = l.with(now, q.Key, q.ID, func(now int64, p, b *plan) error {
		hash = p.hash
		it.refs.Add(1) // the cache may drop it for the limit of a record
		defer it.refs.Add(-1)
		p.it = it
		a, err = l.take(now, q, p, b)
		return err
	})
	if err != nil {
		return Leased{}, err
	}
	s.top.observe(now, q.Key, hash, a.OK)
	return a, nil
}

// with locks the shards of a counter and of a holder's block, and calls fn. p and b have
// the keys and the entries of the counter and the block.
func (l *Leases) with(now int64, key, id []byte, fn func(now int64, p, b *plan) error) error {
	s := l.s
	block := l.blockKey(key, id)
	if len(block) > shard.MaxKeyLen {
		return ErrKeyTooLong
	}
	p, b := &l.counted, &l.held
	*p = plan{hash: s.hash(key), key: key}
	*b = plan{hash: s.e.hash(algo.BlockSpace, block), key: block}
	defer func() { *p, *b = plan{}, plan{} }()
	step := &s.keys
	step.begin(s, p.hash, key)
	step.add(s, b.hash, block)
	if err := step.lock(s); err != nil {
		return err
	}
	defer step.unlock(s)
	if s.e.sealed.Load() {
		return ErrSealed
	}
	now = s.advance(step.shards, now)
	p.ent, p.found = s.e.table.At(p.hash).Find(p.hash, key)
	p.live = p.found && !p.ent.Expired(now)
	b.ent, b.found = s.e.table.At(b.hash).Find(b.hash, block)
	return fn(now, p, b)
}

// counter returns the state of p's counter at now, without leases, and the units that
// are out.
func (l *Leases) counter(now int64, p *plan) (st algo.State, out algo.Outstanding, err error) {
	if !p.live {
		return st, out, nil
	}
	sh := l.s.e.table.At(p.hash)
	old := l.s.e.limits.get(p.ent.Meta())
	if !old.Limit.Leased || old.Limit.Algorithm != p.it.Limit.Algorithm {
		st, err = l.s.adopted(p, old, sh, now)
		return st, out, err
	}
	out = l.outstanding(sh, p.hash, p.key, now)
	st = p.unlease(&out, old, now)
	if !sameNumbers(old.Limit, p.it.Limit) {
		out.Forget(now)
		out.Adopt(&p.it.Rule, &old.Rule)
	}
	return st, out, nil
}

// known reads a holder's block. It reports whether there is one that counts. Nothing may
// have been inserted since with has found the block.
func (l *Leases) known(now int64, q *plan, out *algo.Outstanding) (b algo.Block, ok bool) {
	if !q.found || q.ent.Expired(now) {
		return b, false
	}
	b = algo.ReadBlock(q.ent.State())
	return b, b.Generation == out.Generation && b.Deadline > now && out.Live(now)
}

// take is Take with both shards locked.
func (l *Leases) take(now int64, q *Lease, p, b *plan) (a Leased, err error) {
	st, out, err := l.counter(now, p)
	if err != nil {
		return a, err
	}
	block, known := l.known(now, b, &out)
	if known && q.Seq <= block.Seq {
		return a, ErrLeaseSeq
	}
	if !out.Live(now) {
		out = algo.Outstanding{Generation: rand.Uint64()}
	}
	e := l.s.e
	q.Share = e.leaseShare
	wanted := float64(q.Want) / float64(q.TTL) * 1e9
	q.Fair = e.demand.Share(e.table.Index(p.hash), p.hash, b.hash, wanted, algo.PerSecond(&p.it.Rule), now+2*q.TTL, now)
	g := algo.Grant{Out: out}
	if err := algo.Lease(&p.it.Rule, st, &block, known, now, &q.Request, &g); err != nil {
		return a, err
	}
	if err := l.write(now, p, b, &g.Out, &g.Block, g.State); err != nil {
		return a, err
	}
	if known {
		e.leased.returned.Add(uint64(block.Undue(now)))
	}
	a.Decision, a.Granted = g.Decision, g.Granted
	_, blocks := g.Out.Sum(now)
	a.Holders = max(blocks, e.demand.Holders(e.table.Index(p.hash), p.hash))
	if !g.Ends {
		e.leased.granted.Add(uint64(g.Granted + g.Block.Refill))
		a.TTL, a.Refill, a.RefillTime = g.Block.Deadline-now, g.Block.Refill, g.Block.RefillEnds-now
	}
	return a, nil
}

// write writes the Outstanding, the block and the counter. A write can fail for lack of
// room only if the record is new or grows. So the order is: a new block, the
// Outstanding, an old block, the counter. If the Outstanding finds no room, the new
// block is removed again. A counter grows only if it was not leased, and then the other
// records do not count.
func (l *Leases) write(now int64, p, b *plan, out *algo.Outstanding, block *algo.Block, st algo.State) error {
	it, err := l.leased(p)
	if err != nil {
		return err
	}
	defer it.refs.Add(-1)
	sh, blocks := l.s.e.table.At(p.hash), l.s.e.table.At(b.hash)
	if !l.s.step.isolated {
		sh.Keep(p.hash) // protects the Outstanding too
		blocks.Keep(b.hash)
		defer sh.LetGo()
		defer blocks.LetGo()
	}
	added := !b.found
	if added {
		if err := l.putBlock(b, block, now); err != nil {
			return err
		}
	}
	ends, err := l.putOutstanding(p, sh, out, now)
	if err != nil {
		if added {
			remove(blocks, b)
		}
		return err
	}
	if !added {
		if err := l.putBlock(b, block, now); err != nil {
			return err
		}
	}
	p.ent, p.found = sh.Find(p.hash, p.key) // it may have moved
	return l.putCounter(p, sh, &leasedState{st: st, out: *out, ends: ends, it: it}, now)
}

// Return ends a holder's block of key. held is what the holder has left. It returns the
// units that went back to the limit: 0 if the block had ended.
//
// Errors: ErrLeaseID, ErrLeaseSeq, ErrLeaseBounds, ErrSealed; nothing is changed then.
func (l *Leases) Return(now int64, key, id []byte, seq uint64, held int64) (units int64, err error) {
	switch {
	case len(id) == 0 || len(id) > MaxLeaseID:
		return 0, ErrLeaseID
	case held < 0:
		return 0, ErrLeaseBounds
	case l.s.db != 0:
		return 0, nil
	}
	err = l.with(now, key, id, func(now int64, p, b *plan) (err error) {
		if !p.live {
			return nil
		}
		limit := l.s.e.limits.get(p.ent.Meta()).Limit
		if !limit.Leased {
			return nil
		}
		limit.Leased = false
		if p.it, err = l.s.rule(limit); err != nil {
			return err
		}
		p.it.refs.Add(1)
		defer p.it.refs.Add(-1)
		st, out, err := l.counter(now, p)
		if err != nil {
			return err
		}
		block, known := l.known(now, b, &out)
		switch {
		case !known:
			return nil
		case seq <= block.Seq:
			return ErrLeaseSeq
		}
		st, out, back, err := algo.Return(&p.it.Rule, st, out, block, now, held)
		if err != nil {
			return err
		}
		if err := l.write(now, p, b, &out, &algo.Block{}, st); err != nil {
			return err
		}
		units = back
		l.s.e.leased.returned.Add(uint64(back + block.Undue(now)))
		l.s.e.demand.Gone(l.s.e.table.Index(p.hash), p.hash, b.hash)
		return nil
	})
	return units, err
}

// Reset forgets the state of key (RL.RESET): the next call finds a full quota, minus the
// units that are out as leases, which holders may still spend. It reports whether there
// was a state. Errors are those of Session.Delete.
func (l *Leases) Reset(now int64, key []byte) (bool, error) {
	s := l.s
	p := plan{hash: s.hash(key), key: key}
	sh, err := s.lock(p.hash, key)
	if err != nil {
		return false, err
	}
	defer s.unlock(sh)
	p.ent, p.found = sh.Find(p.hash, key)
	now = sh.Advance(now)
	if p.live = p.found && !p.ent.Expired(now); !p.live {
		return false, nil
	}
	p.it = s.e.limits.get(p.ent.Meta())
	if p.it.Limit.Leased {
		if out := l.outstanding(sh, p.hash, key, now); out.Live(now) {
			return true, l.putCounter(&p, sh, &leasedState{st: out.Floor(&p.it.Rule, algo.State{}, now), out: out}, now)
		}
	}
	counted := s.counts(p.ent, now)
	sh.Delete(p.ent)
	return counted, nil
}
