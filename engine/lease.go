package engine

import (
	"encoding/binary"
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
// in one step, and so travel in one cut:
//
//   - the counter. While units are out, its limit is Leased, which sends every decision on
//     it through unlease. Other counters pay nothing.
//   - what is out, under the counter's key in LeaseSpace: in its shard, under its lock.
//     Only leases write it.
//   - the holder's block, under the counter's key and the holder's id in BlockSpace.
//
// A counter that is deleted or evicted takes its leases along: the record of what is out
// counts only while the counter's limit is Leased, and a block only while it has that
// record's generation.
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

// leaseCounts are units of leases since the start. What is granted and did not go back
// is spent, out, or was lost at a deadline.
type leaseCounts struct {
	granted  atomic.Uint64 // at once, or as refill
	returned atomic.Uint64 // given back, or not due yet when a refill was ended
	// lapsed were out at their deadline: spent, or lost with their holder. They are counted
	// when what is out of their limit is next written, and not at all if it never is.
	lapsed atomic.Uint64
}

// Errors of leases.
var (
	// ErrLeaseID is returned for an id that is empty or longer than MaxLeaseID.
	ErrLeaseID = errors.New("id must be 1 to 128 bytes")
	// ErrLeaseSeq is returned for a request that is not newer than the holder's last one.
	// Nothing has changed.
	ErrLeaseSeq = errors.New("seq must be above that of the last request with this id")
	// ErrLeaseBounds is returned for a request with a negative number, or a time to live
	// that is not between algo.MinLease and algo.MaxLease.
	ErrLeaseBounds = errors.New("want, held and need must be 0 or more, and ttl 100 ms to 60 s")
)

// Lease is a request of a holder.
type Lease struct {
	Key   []byte
	Limit algo.Limit
	ID    []byte
	// Request is what is asked for. Take fills in what the holder may get at most.
	algo.Request
}

// Leased is the answer to a Lease. Times are in ns.
type Leased struct {
	algo.Decision       // of Need
	Granted       int64 // units at once, Need included
	// TTL is for how long the units last, 0 if the holder must ask for each call.
	TTL int64
	// Refill units become due evenly over RefillTime.
	Refill, RefillTime int64
	Holders            int64 // blocks that are out
}

// Leases is what a session can do with leases.
type Leases struct {
	s     *Session
	block []byte     // the key of a block
	words []byte     // a record
	due   []algo.Due // of what is out
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

// blockKey returns the key of a holder's block. The counter's key has its length before
// it, so that no two counters and ids have the same one.
func (l *Leases) blockKey(key, id []byte) []byte {
	l.block = binary.AppendUvarint(l.block[:0], uint64(len(key)))
	l.block = append(append(l.block, key...), id...)
	return l.block
}

// besideHash returns the hash of the record of what is out of a counter.
func besideHash(hash uint64) uint64 { return hash ^ shard.SpaceMask(algo.LeaseSpace) }

// outstanding reads what is out of a leased counter. Its shard must be locked. The result
// is valid until the next call.
func (l *Leases) outstanding(sh *shard.Shard, hash uint64, key []byte, now int64) (o algo.Outstanding) {
	if ent, found := sh.Find(besideHash(hash), key); found && !ent.Expired(now) {
		o = algo.ReadOutstanding(ent.State(), l.due)
	}
	return o
}

// unlease returns the state of p's counter at now, without leases and converted to the
// limit of p. old is the limit of p's entry, which is leased, and of which out is out.
func (p *plan) unlease(out *algo.Outstanding, old *interned, now int64) algo.State {
	st := out.Plain(&old.Rule, p.ent.State(), now)
	p.leased = true
	if !sameNumbers(old.Limit, p.it.Limit) {
		st = p.it.Adopt(&old.Rule, st, now)
		if algo.Leasable(&p.it.Rule) {
			st = out.Floor(&p.it.Rule, st, now)
		}
	}
	return st
}

// loaded returns the state of p's entry at now, whose limit is it, without leases.
func loaded(s *Session, p *plan, it *interned, now int64) algo.State {
	if p.leased = it.Limit.Leased; !p.leased {
		return load(p.ent)
	}
	out := s.Leases().outstanding(s.e.table.At(p.hash), p.hash, p.key, now)
	return out.Plain(&it.Rule, p.ent.State(), now)
}

// sameNumbers reports whether two limits differ in Leased at most.
func sameNumbers(a, b algo.Limit) bool {
	a.Leased = b.Leased
	return a == b
}

// commit is Session.commit for a leased counter.
func (l *Leases) commit(p *plan, sh *shard.Shard, now int64) error {
	return l.commitMarked(p, sh, &leasedState{}, now)
}

// commitMarked writes p, whose counter is leased, with the mark of x.
func (l *Leases) commitMarked(p *plan, sh *shard.Shard, x *leasedState, now int64) error {
	if !algo.Leasable(&p.it.Rule) { // a limit of 0 units writes nothing
		return nil
	}
	var old *interned
	if p.found {
		old = l.s.e.limits.get(p.ent.Meta())
	}
	if old != nil && old.Limit.Leased { // else another record of the step has evicted it, and what is out
		x.out = l.outstanding(sh, p.hash, p.key, now)
		if !sameNumbers(old.Limit, p.it.Limit) {
			it, err := l.leased(p) // putCounter needs it
			if err != nil {
				return err
			}
			defer it.refs.Add(-1)
			x.out.Forget(now)
			x.out.Adopt(&p.it.Rule, &old.Rule)
			if x.ends, err = l.putOutstanding(p, sh, &x.out, now); err != nil {
				return err
			}
			p.ent, p.found = sh.Find(p.hash, p.key)
		}
	}
	x.st = p.next
	return l.putCounter(p, sh, x, now)
}

// storeWeighed is Session.storeCheck for a leased counter.
func (l *Leases) storeWeighed(w *weighed, sh *shard.Shard, now int64) error {
	it := l.s.claim(w)
	defer it.refs.Add(-1)
	return l.commitMarked(&w.plan, sh, &leasedState{mark: w.mark, noted: true, reserves: w.reserves}, now)
}

// carried is Session.carried for a leased counter. What is out stays counted, also if the
// counter begins anew.
func (l *Leases) carried(w *weighed, old *interned, now int64) (st algo.State, err error) {
	was, is := &old.Limit, &w.it.Limit
	fresh := was.Algorithm != is.Algorithm
	if was.Resets != is.Resets {
		if fresh = true; int16(was.Resets-is.Resets) > 0 && !w.anew {
			return st, ErrStale
		}
	}
	out := l.outstanding(l.s.e.table.At(w.hash), w.hash, w.key, now)
	switch {
	case fresh:
		w.live = false
		st = out.Anew(&w.it.Rule, now)
	case was.Scalings != is.Scalings:
		st, _ = w.it.Scale(&old.Rule, out.Plain(&old.Rule, w.ent.State(), now), nil, now)
	default:
		st = w.unlease(&out, old, now)
	}
	if w.leased = algo.Leasable(&w.it.Rule); w.leased {
		st = out.Floor(&w.it.Rule, st, now)
	}
	return st, nil
}

// reserve makes sure that commit can intern what it needs.
func (l *Leases) reserve(p *plan) error {
	if !algo.Leasable(&p.it.Rule) {
		return nil
	}
	it, err := l.leased(p)
	if err == nil {
		it.refs.Add(-1)
	}
	return err
}

// leased returns the leased form of p's limit, with a reference for the caller.
func (l *Leases) leased(p *plan) (*interned, error) {
	limit := p.it.Limit
	limit.Leased = true
	it, err := l.s.rule(limit)
	switch {
	case err == nil:
		it.refs.Add(1)
	case limit.Algorithm.IsPolicy(): // only the number of policies bounds that of their limits
		return l.s.e.limits.acquireReplicated(limit), nil
	}
	return it, err
}

// leasedState is the state of a counter with leases, and what becomes of its mark.
type leasedState struct {
	st   algo.State // without leases
	out  algo.Outstanding
	ends int64     // algo.Outstanding.Ends of out, 0 if not known yet
	mark algo.Mark // without a generation: none
	// noted is set if the mark has noted a charge. Otherwise it has the peak: see
	// algo.Outstanding.Peak. reserves is as in weighed.
	noted, reserves bool
	peak            int64
}

// putCounter writes the state of p's counter, under its leased limit while something is
// out, or while a peak must be kept.
func (l *Leases) putCounter(p *plan, sh *shard.Shard, x *leasedState, now int64) error {
	q := plan{it: p.it, hash: p.hash, key: p.key, ent: p.ent, found: p.found, live: p.live}
	live := x.out.Live(now)
	if !live && x.st.Deadline <= now {
		if q.found {
			sh.Delete(q.ent)
		}
		return nil
	}
	head := 0
	if live = live || x.peak > 0; live {
		it, err := l.leased(p)
		if err != nil {
			return err
		}
		defer it.refs.Add(-1)
		q.it, head = it, algo.LeasedHead(&it.Rule)
	}
	r := &q.it.Rule
	words := head + algo.PlainWords(r)
	var was []byte // the plain part of the record, with its mark
	switch marks := x.mark.Generation != 0; {
	case marks && q.found:
		was = plainPart(l.s, q.ent)
	case marks:
		x.mark.Forget()
	}
	if x.noted && x.mark.Generation != 0 {
		words += x.mark.Words(r)
	} else if was != nil {
		words = head + len(was)/8
	}
	l.words = append(l.words[:0], make([]byte, 8*words)...)
	copy(l.words[8*head:], was)
	deadline := x.st.Deadline
	if live {
		if x.ends == 0 {
			x.ends = x.out.Ends(r, now)
		}
		deadline = max(x.ends, x.out.Store(r, x.st, l.words, x.peak, now))
	} else {
		algo.PutPlain(r, x.st, l.words)
	}
	switch {
	case x.mark.Generation == 0:
	case x.noted:
		x.mark.PutCharge(r, l.words[8*head:], x.reserves)
	default:
		x.mark.Put(r, l.words[8*head:])
	}
	if err := l.s.place(&q, sh, words, deadline, now); err != nil {
		return err
	}
	state := q.ent.State()
	clear(state[copy(state, l.words):]) // it could not be made smaller
	return nil
}

// putOutstanding writes what is out of p's counter, or deletes the record if nothing is.
// It returns when the record ends.
func (l *Leases) putOutstanding(p *plan, sh *shard.Shard, out *algo.Outstanding, now int64) (ends int64, err error) {
	q := plan{hash: besideHash(p.hash), key: p.key}
	if l.s.step.isolated {
		if err := l.s.enter(q.hash, q.key); err != nil {
			return 0, err
		}
	}
	if ent, found := sh.Find(q.hash, q.key); found {
		l.s.e.leased.lapsed.Add(uint64(algo.Lapsed(ent.State(), now)))
	}
	if !out.Live(now) {
		remove(sh, &q)
		return now, nil
	}
	l.words, ends = out.Append(l.words[:0]), out.Ends(&p.it.Rule, now)
	return ends, l.put(&q, sh, algo.LeaseRecord, l.words, ends, now)
}

// putBlock writes a holder's block under the key of q, or deletes it if nothing of it is
// out.
func (l *Leases) putBlock(q *plan, b *algo.Block, now int64) error {
	sh := l.s.e.table.At(q.hash)
	if b.Out() == 0 || b.Deadline <= now {
		remove(sh, q)
		return nil
	}
	l.words = b.Append(l.words[:0])
	return l.put(q, sh, algo.BlockRecord, l.words, b.Deadline, now)
}

// put writes a record of a kind without limits under the key of q.
func (l *Leases) put(q *plan, sh *shard.Shard, a algo.Algorithm, record []byte, deadline, now int64) (err error) {
	if q.it, err = l.s.rule(algo.Limit{Algorithm: a, DB: a.Space()}); err != nil {
		return err
	}
	q.ent, q.found = sh.Find(q.hash, q.key)
	if err := l.s.place(q, sh, len(record)/8, deadline, now); err != nil {
		return err
	}
	state := q.ent.State()
	clear(state[copy(state, record):]) // it could not be made smaller
	return nil
}

func remove(sh *shard.Shard, q *plan) {
	if ent, found := sh.Find(q.hash, q.key); found {
		sh.Delete(ent)
	}
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
	it.refs.Add(1) // the cache may drop it for the limit of a record
	defer it.refs.Add(-1)
	err = l.with(now, q.Key, q.ID, func(now int64, p, b *plan) error {
		p.it = it
		a, err = l.take(now, q, p, b)
		return err
	})
	if err != nil {
		return Leased{}, err
	}
	s.top.observe(now, q.Key, s.hash(q.Key), a.OK)
	return a, nil
}

// with calls fn with the shards of a counter and of a holder's block locked. p and b have
// their keys, and p has what is found.
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
	_, b.found = s.e.table.At(b.hash).Find(b.hash, block)
	return fn(now, p, b)
}

// counter returns the state of p's counter at now, without leases, and what is out.
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

// known reads a holder's block. It reports whether there is one that counts.
func (l *Leases) known(now int64, q *plan, out *algo.Outstanding) (b algo.Block, ok bool) {
	ent, found := l.s.e.table.At(q.hash).Find(q.hash, q.key)
	if !found || ent.Expired(now) {
		return b, false
	}
	b = algo.ReadBlock(ent.State())
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
	g, err := algo.Lease(&p.it.Rule, st, out, block, known, now, &q.Request)
	if err != nil {
		return a, err
	}
	if err := l.write(now, p, b, &g.Out, &g.Block, g.State); err != nil {
		return a, err
	}
	if known {
		e.leased.returned.Add(uint64(block.Undue(now)))
	}
	a.Decision, a.Granted = g.Decision, g.Granted
	_, a.Holders = g.Out.Sum(now)
	if !g.Ends {
		e.leased.granted.Add(uint64(g.Granted + g.Block.Refill))
		a.TTL, a.Refill, a.RefillTime = g.Block.Deadline-now, g.Block.Refill, g.Block.RefillEnds-now
	}
	return a, nil
}

// write writes what is out, the block and the counter. Only a record that is new or grows
// can find no room, so the order is: a new block, what is out, an old block, the counter.
// The first two are taken back. A counter grows only if it was not leased, and then the
// other records do not count.
func (l *Leases) write(now int64, p, b *plan, out *algo.Outstanding, block *algo.Block, st algo.State) error {
	it, err := l.leased(p)
	if err != nil {
		return err
	}
	defer it.refs.Add(-1)
	sh, blocks := l.s.e.table.At(p.hash), l.s.e.table.At(b.hash)
	if !l.s.step.isolated {
		sh.Keep(p.hash) // what is out, too
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
	return l.putCounter(p, sh, &leasedState{st: st, out: *out, ends: ends}, now)
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

// Reset forgets the state of key (RL.RESET): its next call finds a full quota, except for
// what is out as leases, which holders may still spend. It reports whether there was a
// state. Errors are those of Session.Delete.
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

// outPressure and blockPressure are the pressure of the records of leases. What is out
// stays for as long as an exhausted limit. A block goes before it: its holder says what it
// has left, and is charged for that again.
func outPressure(shard.Entry, int64) uint32   { return math.MaxUint32 }
func blockPressure(shard.Entry, int64) uint32 { return math.MaxUint32 - 1 }

func describeOut(x *Explanation, ent shard.Entry) {
	out := algo.ReadOutstanding(ent.State(), nil)
	x.Out, x.Holders = out.Sum(0)
	x.Fact("out", x.Out)
	x.Fact("holders", x.Holders)
}

func describeBlock(x *Explanation, ent shard.Entry) {
	b := algo.ReadBlock(ent.State())
	x.Out, x.Holders = b.Out(), 1
	x.Fact("out", x.Out)
}
