package engine

import (
	"encoding/binary"
	"math"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// blockKey returns the key of a holder's block. The counter's key has its length before
// it, so that no two counters and ids have the same one.
func (l *Leases) blockKey(key, id []byte) []byte {
	l.block = binary.AppendUvarint(l.block[:0], uint64(len(key)))
	l.block = append(append(l.block, key...), id...)
	return l.block
}

// besideHash returns the hash of the record of a counter's Outstanding.
func besideHash(hash uint64) uint64 { return hash ^ shard.SpaceMask(algo.LeaseSpace) }

// outstanding reads the Outstanding of a leased counter, whose shard must be locked. The
// result is valid until the next call.
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

// commitLeased is commit for a leased counter. Inlined, its frame would slow down commit
// for all other keys.
//
//go:noinline
func (s *Session) commitLeased(p *plan, sh *shard.Shard, now int64) error {
	return s.Leases().commitMarked(p, sh, &leasedState{}, now)
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
	if old != nil && old.Limit.Leased { // else another record of the step has evicted the counter and its Outstanding
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

// carried is Session.carried for a leased counter. Units that are out stay counted, also
// if the counter begins again from zero.
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
	// it is the leased form of the counter's limit, nil if not known yet.
	it *interned
	// noted is set if the mark has noted a charge. Otherwise it has the peak: see
	// algo.Outstanding.Peak. reserves is as in weighed.
	noted, reserves bool
	peak            int64
}

// putCounter writes the state of p's counter, under its leased limit while something is
// out, or while a peak must be kept.
func (l *Leases) putCounter(p *plan, sh *shard.Shard, x *leasedState, now int64) (err error) {
	live := x.out.Live(now)
	if !live && x.st.Deadline <= now {
		if p.found {
			sh.Delete(p.ent)
		}
		return nil
	}
	head, plain := 0, p.it
	defer func() { p.it = plain }()
	if live = live || x.peak > 0; live {
		it := x.it
		if it == nil {
			if it, err = l.leased(p); err != nil {
				return err
			}
			defer it.refs.Add(-1)
		}
		p.it, head = it, algo.LeasedHead(&it.Rule)
	}
	r := &p.it.Rule
	words := head + algo.PlainWords(r)
	var was []byte // the plain part of the record, with its mark
	switch marks := x.mark.Generation != 0; {
	case marks && p.found:
		was = plainPart(l.s, p.ent)
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
	if err := l.s.place(p, sh, words, deadline, now); err != nil {
		return err
	}
	state := p.ent.State()
	clear(state[copy(state, l.words):]) // it could not be made smaller
	return nil
}

// putOutstanding writes the Outstanding of p's counter, or deletes the record if no
// units are out. It returns the time at which the record expires.
func (l *Leases) putOutstanding(p *plan, sh *shard.Shard, out *algo.Outstanding, now int64) (ends int64, err error) {
	var q plan
	q.hash, q.key = besideHash(p.hash), p.key
	if l.s.step.isolated {
		if err := l.s.enter(q.hash, q.key); err != nil {
			return 0, err
		}
	}
	if q.ent, q.found = sh.Find(q.hash, q.key); q.found {
		if lapsed := algo.Lapsed(q.ent.State(), now); lapsed > 0 {
			l.s.e.leased.lapsed.Add(uint64(lapsed))
		}
	}
	if !out.Live(now) {
		if q.found {
			sh.Delete(q.ent)
		}
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
	q.ent, q.found = sh.Find(q.hash, q.key) // it may have moved
	l.words = b.Append(l.words[:0])
	return l.put(q, sh, algo.BlockRecord, l.words, b.Deadline, now)
}

// put writes a record of a kind without limits to the entry of q, or to a new one.
func (l *Leases) put(q *plan, sh *shard.Shard, a algo.Algorithm, record []byte, deadline, now int64) (err error) {
	if q.found { // records of one space have one limit
		q.it = l.s.e.limits.get(q.ent.Meta())
	} else if q.it, err = l.s.rule(algo.Limit{Algorithm: a, DB: a.Space()}); err != nil {
		return err
	}
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

// outPressure and blockPressure are the pressure of the records of leases. The record of
// units that are out is kept like an exhausted limit. A holder's block is evicted first:
// if it is gone, the holder says how many units it has left, and these units are charged
// again.
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
