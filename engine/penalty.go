package engine

import (
	"math"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// # Penalties
//
// A limit of a policy may block callers whom it has denied too often. The offences of a
// caller, strikes and blocks, are a record beside the counter. It has the counter's key,
// in a key space that no command on keys uses. So it is in the counter's shard, under the
// shard's lock. The first strike makes the record.
//
// An edit of a policy touches no record. Each check brings the present Penalty, and reads
// the record by it. So a block ends early once the penalty has become shorter.
//
// The counter's own record cannot hold the offences: it is deleted when all units are
// available again, and a block may last longer. A step writes strikes last, after the
// counters, because making room may move or evict the records that weigh has found. A
// strike that finds no room is dropped. The call gets its answer, and Checked.Err has the
// reason.
//
// Without a leader, a node looks for blocks in its committed copy, and writes no strikes.
// It has only a share of a limit, so a strike could hit callers who are within the limit.

// Penalty is what a policy's limit does to callers whom it denies. A strike is a denial
// by this limit of a call that has a cost and may pass later. All times are in ns, from 1
// to MaxPenalty.
type Penalty struct {
	// A caller with After strikes (1 or more) is blocked for the time Block. A strike
	// counts until the time Within has passed since the first strike. A Within of 0 means
	// the limit's period.
	After         int64
	Within, Block int64
	// A block is Factor times as long as the previous block, if the previous block ended
	// less than Max ago. Factor is 1 or more. No block is longer than Max.
	Factor, Max int64
	// Epoch counts the edits of the policy that have forgiven all callers. Records of
	// callers from other epochs do not count.
	Epoch uint16
}

// MaxPenalty bounds the times of a Penalty, in ns: 366 days.
const MaxPenalty = 366 * 86_400_000_000_000

// maxRepeats bounds the count of consecutive blocks. Even a block of 1 ns with a factor of
// 2 reaches MaxPenalty after fewer blocks.
const maxRepeats = 63

// offences is the record of a caller. The zero value is the record of a caller without
// offences.
type offences struct {
	strikes uint32
	first   int64 // when the first strike was
	// began is when the last block began. length is how long it was meant to last, 0 if
	// there was no block. repeats is the number of consecutive blocks before it.
	began, length int64
	repeats       uint16
	epoch         uint16
}

// offenceWords is the size of a record in words: strikes, repeats and epoch in the first,
// then the times.
const offenceWords = 4

func readOffences(ent shard.Entry) offences {
	head := ent.Word(0)
	return offences{
		strikes: uint32(head), repeats: uint16(head >> 32), epoch: uint16(head >> 48),
		first: int64(ent.Word(1)), began: int64(ent.Word(2)), length: int64(ent.Word(3)),
	}
}

func (o *offences) write(ent shard.Entry) {
	ent.SetWord(0, uint64(o.strikes)|uint64(o.repeats)<<32|uint64(o.epoch)<<48)
	ent.SetWord(1, uint64(o.first))
	ent.SetWord(2, uint64(o.began))
	ent.SetWord(3, uint64(o.length))
}

// length returns the length of a block that follows repeats consecutive others.
func (p *Penalty) length(repeats uint16) int64 {
	n := min(p.Block, p.Max)
	if p.Factor == 1 {
		return n
	}
	for ; repeats > 0 && n < p.Max; repeats-- {
		if n > p.Max/p.Factor {
			return p.Max
		}
		n *= p.Factor
	}
	return n
}

// until returns when the last block ends or has ended, 0 if there was no block. If an edit
// has made the penalty shorter, the block ends earlier than planned. It never ends later.
func (p *Penalty) until(o *offences) int64 {
	if o.length == 0 {
		return 0
	}
	return o.began + min(o.length, p.length(o.repeats))
}

// within returns the time within which strikes on a limit count together.
func (p *Penalty) within(l *algo.Limit) int64 {
	if p.Within > 0 {
		return p.Within
	}
	return l.Period
}

// strike returns o after one more strike of a caller who is not blocked. within is
// Penalty.within.
func (p *Penalty) strike(o offences, now, within int64) offences {
	if o.strikes == 0 || now-o.first >= within {
		o.strikes, o.first = 0, now
	}
	o.epoch = p.Epoch
	if o.strikes++; int64(o.strikes) < p.After {
		return o
	}
	next := offences{began: now, epoch: p.Epoch}
	if end := p.until(&o); end > 0 && now-end < p.Max {
		next.repeats = min(o.repeats+1, maxRepeats)
	}
	next.length = p.length(next.repeats)
	return next
}

// deadline returns when the record stops counting. Strikes stop when their time is over. A
// block stops when it no longer lengthens the next block.
func (p *Penalty) deadline(o *offences, within int64) (at int64) {
	if o.strikes > 0 {
		at = o.first + within
	}
	if o.length > 0 {
		at = max(at, o.began+o.length+p.Max)
	}
	return at
}

// offenderHash returns the hash of the record beside a counter.
func offenderHash(hash uint64) uint64 { return hash ^ shard.SpaceMask(algo.OffenceSpace) }

// offencesOf returns the offences of a counter's caller. The counter's shard must be
// locked. If the record was written after a later edit than p, offencesOf returns
// ErrStale. If anew is set, it returns no offences instead.
func (e *Engine) offencesOf(now int64, hash uint64, key []byte, p *Penalty, anew bool) (offences, error) {
	ent, found := e.table.At(hash).Find(offenderHash(hash), key)
	if !found || ent.Expired(now) {
		return offences{}, nil
	}
	o := readOffences(ent)
	switch ahead := int16(o.epoch - p.Epoch); {
	case ahead == 0:
		return o, nil
	case ahead > 0 && !anew:
		return offences{}, ErrStale
	}
	return offences{}, nil
}

// offenceLimit is the limit that all offence records carry.
var offenceLimit = algo.Limit{Algorithm: algo.OffenceRecord, DB: algo.OffenceSpace}

// putOffences writes the record of w's caller. Its shard must be locked.
func (s *Session) putOffences(w *weighed, o *offences, deadline, now int64) (err error) {
	p := plan{hash: offenderHash(w.hash), key: w.key}
	if p.it, err = s.rule(offenceLimit); err != nil {
		return err
	}
	sh := s.e.table.At(w.hash)
	p.ent, p.found = sh.Find(p.hash, p.key)
	if err := s.place(&p, sh, offenceWords, deadline, now); err != nil {
		return err
	}
	o.write(p.ent)
	return nil
}

// suspect is one limit of a step that has a penalty.
type suspect struct {
	at       int // position in the checks
	offences offences
	strikes  bool  // the limit's denial is a strike
	until    int64 // end of a block that lasts, 0 for none
}

// suspect looks up the offences for limit i, which has been weighed.
func (st *checking) suspect(s *Session, i int, c *Check, now int64) error {
	w := &st.weighed[i]
	if s.step.isolated {
		if err := s.enter(offenderHash(w.hash), w.key); err != nil {
			return err
		}
	}
	o, err := s.e.offencesOf(now, w.hash, w.key, c.Penalty, w.anew)
	if err != nil {
		return err
	}
	x := suspect{at: i, offences: o, strikes: !w.d.OK && w.d.RetryAfter != algo.Never && c.Cost > 0 && !c.TooMuch}
	if end := c.Penalty.until(&o); end > now {
		x.until, st.blocked = end, true
	}
	st.suspects = append(st.suspects, x)
	return nil
}

// punish counts the strikes of a denied call. If a limit blocks the caller, because of
// this call or of earlier calls, the block replaces the limit's answer. If a record finds
// no room, the strike is dropped.
func (st *checking) punish(s *Session, now int64, checks []Check, o CheckOptions, v *Verdict, out []Checked) {
	for i := range st.suspects {
		x := &st.suspects[i]
		w, p := &st.weighed[x.at], checks[x.at].Penalty
		if !st.blocked && x.strikes && !o.Peek {
			within := p.within(&w.it.Limit)
			next := p.strike(x.offences, now, within)
			if err := s.putOffences(w, &next, p.deadline(&next, within), now); err != nil {
				w.err = err
				continue
			}
			if next.strikes == 0 {
				x.until, v.Begun = p.until(&next), true
			}
		}
		if x.until > 0 {
			v.block(x.at, x.until-now, out)
		}
	}
}

// block replaces the answer of limit i: the limit blocks the caller for lasts ns more. The
// call then reports this limit, unless another limit blocks for longer.
func (v *Verdict) block(i int, lasts int64, out []Checked) {
	d := &out[i].Decision
	retry := lasts
	if !d.OK && (d.RetryAfter == algo.Never || d.RetryAfter > lasts) {
		retry = d.RetryAfter
	}
	*d = algo.Decision{Limit: d.Limit, RetryAfter: retry, ResetAfter: d.ResetAfter}
	if !v.Penalty || d.BindsMoreThan(&out[v.Binding].Decision) || i < v.Binding && !out[v.Binding].BindsMoreThan(d) {
		v.Binding = i
	}
	v.OK, v.Penalty = false, true
}

// Offender describes a caller whom a limit with a penalty has denied.
type Offender struct {
	// StrikesEnd is when the caller's Strikes no longer count, engine time in ns.
	Strikes    int64
	StrikesEnd int64
	// BlockedUntil is when the block ends, 0 if the caller is not blocked.
	BlockedUntil int64
}

// Offender describes the caller of a counter under a limit and its penalty. key and hash
// are as in a Check. It works on any node.
func (e *Engine) Offender(now int64, key []byte, hash uint64, l algo.Limit, p *Penalty) Offender {
	sh := e.table.At(hash)
	sh.Lock()
	defer sh.Unlock()
	o, _ := e.offencesOf(now, hash, key, p, true) // anew excludes an error
	var is Offender
	if end := o.first + p.within(&l); o.strikes > 0 && end > now {
		is.Strikes, is.StrikesEnd = int64(o.strikes), end
	}
	if end := p.until(&o); end > now {
		is.BlockedUntil = end
	}
	return is
}

// Forgive forgets the offences of a counter's caller, and reports whether they counted
// under p. p is the penalty of the counter's limit, nil if the limit has no penalty. It
// returns the errors of Delete.
func (s *Session) Forgive(now int64, key []byte, p *Penalty) (bool, error) {
	hash := s.e.hash(algo.OffenceSpace, key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return false, err
	}
	defer s.unlock(sh)
	ent, found := sh.Find(hash, key)
	if !found {
		return false, nil
	}
	o := readOffences(ent)
	counts := p != nil && o.epoch == p.Epoch && !ent.Expired(now)
	sh.Delete(ent)
	return counts, nil
}

// Offenders returns the number of offence records, one per caller and limit.
func (e *Engine) Offenders() int { return e.table.SpaceLen(algo.OffenceSpace) }

// OffendersEvicted returns how many offence records were evicted for memory.
func (e *Engine) OffendersEvicted() uint64 { return e.table.Evicted(algo.OffenceSpace) }

// blockedHere decides a step without a leader if the table, even a sealed one, says that
// the caller is blocked. If blocked is false, nothing is decided.
func (e *Engine) blockedHere(now int64, checks []Check, out []Checked) (v Verdict, blocked bool) {
	v.Binding = -1
	for i := range checks {
		c := &checks[i]
		if c.Penalty == nil || c.Mode != algo.Enforce {
			continue
		}
		x := e.Offender(now, c.Key, c.Hash, c.Limit.Limit(), c.Penalty)
		if x.BlockedUntil == 0 {
			continue
		}
		if !v.Penalty {
			for j := range checks {
				full := checks[j].Limit.it.Burst
				out[j] = Checked{Decision: algo.Decision{OK: true, Limit: full, Remaining: full}}
			}
		}
		v.block(i, x.BlockedUntil-now, out)
	}
	return v, v.Penalty
}

// offencePressure ranks a block like an exhausted limit, and strikes without a block like
// data. See crowdedOffences.
func offencePressure(ent shard.Entry, now int64) uint32 {
	if o := readOffences(ent); o.began+o.length > now {
		return math.MaxUint32
	}
	return halfUsed
}

// Shares of the memory from which offence records are evicted first: a quarter for all of
// them, half for blocks that followed others. So a flood of identities that are each
// blocked once evicts its own records. It does not evict the counters of others, or
// callers who were blocked again and again.
const (
	offendersShare = 4
	repeatedShare  = 2
)

// crowdedOffences replaces offencePressure while offence records take more than these
// shares. While they take less, crowded is false. Strikes are evicted first, then blocks.
// Blocks rank like limits of which 1/512 to 1/8 is used. Of two blocks, the block that
// followed fewer blocks goes first. Of equal blocks, the block that ends first goes first.
func (e *Engine) crowdedOffences(ent shard.Entry, now int64) (pressure uint32, crowded bool) {
	o := readOffences(ent)
	of := int64(offendersShare)
	if o.repeats > 0 {
		of = repeatedShare
	}
	sh := e.table.At(e.table.Hash(ent.Key()))
	if int64(sh.SpaceLen(algo.OffenceSpace))*int64(ent.Size()) <= sh.Share()/of {
		return 0, false
	}
	if o.began+o.length <= now {
		return 0, true
	}
	return eighthUsed / (maxRepeats + 1) * (uint32(o.repeats) + 1), true
}

func describeOffences(x *Explanation, ent shard.Entry) {
	o := readOffences(ent)
	x.Fact("strikes", int64(o.strikes))
	x.Fact("blocked_until_ns", o.began+o.length)
}
