package algo

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Bounds of a lease's time to live, in ns.
const (
	MinLease = 100_000_000
	MaxLease = 60_000_000_000
)

// MaxBlocks is how many blocks one limit may have out.
const MaxBlocks = 1024

// leastBlock is the smallest block, in units: a smaller one saves no call.
const leastBlock = 2

// WorthA reports whether so many units are worth a block.
func WorthA(units int64) bool { return units >= leastBlock }

// Block is what one holder has of a limit. The server does not see how much of it the
// holder has spent.
type Block struct {
	Seq        uint64 // number of the holder's last request
	Generation uint64 // Generation of the Outstanding that counts the block
	Began      int64  // Unix ns: when the refill began
	RefillEnds int64
	Deadline   int64 // after this time the holder spends nothing
	Units      int64 // units that the holder got at once, or had before
	Refill     int64 // units that become due evenly from Began to RefillEnds
}

// blockWords is how many words a block's record has.
const blockWords = 7

// ReadBlock reads the words of a block's record.
func ReadBlock(record []byte) Block {
	return Block{
		Seq: word(record, 0), Generation: word(record, 1), Began: int64(word(record, 2)), RefillEnds: int64(word(record, 3)),
		Deadline: int64(word(record, 4)), Units: int64(word(record, 5)), Refill: int64(word(record, 6)),
	}
}

// Append appends the record of b to a slice.
func (b *Block) Append(record []byte) []byte {
	for _, v := range [blockWords]uint64{
		b.Seq, b.Generation, uint64(b.Began), uint64(b.RefillEnds), uint64(b.Deadline), uint64(b.Units), uint64(b.Refill),
	} {
		record = binary.LittleEndian.AppendUint64(record, v)
	}
	return record
}

// inflow returns the part of r's rate, in 2^-32, that the refill takes.
func (b *Block) inflow(r *Rule) uint64 {
	if b.Refill == 0 {
		return 0
	}
	return shareOf(r, b.Refill, b.RefillEnds-b.Began)
}

// Out returns how many units the holder may still spend before the deadline.
func (b *Block) Out() int64 { return b.Units + b.Refill }

// has returns the most units that the holder can have at now: the granted units, and the
// refill that is due.
func (b *Block) has(now int64) int64 {
	if b.Refill == 0 || now >= b.RefillEnds {
		return b.Out()
	}
	q, _ := mulDiv(uint64(max(now-b.Began, 0)), uint64(b.Refill), uint64(b.RefillEnds-b.Began))
	return b.Units + int64(q)
}

// Undue returns how many units of the refill are not due at now.
func (b *Block) Undue(now int64) int64 { return b.Out() - b.has(now) }

// Request is what a holder asks for. Units are those of the limit, times are ns.
type Request struct {
	Seq  uint64
	Want int64 // units that the holder would use within TTL
	Held int64 // units that the holder has left
	Need int64 // units for which callers wait now; the request is denied unless all of Need is granted
	TTL  int64
	// Share is the part of the capacity that all holders together may have, in 2^-32.
	Share uint32
	// Fair is the most that the holder may have.
	Fair Fair
}

// Fair is the part of a limit that one holder may have, in 2^-32.
type Fair struct {
	Rate uint32 // part of the limit's rate
	Out  uint32 // part of the units that may be out
	// Contended is set if the holder wants more than its part of the rate.
	Contended bool
}

// Grant is the answer to a Request.
type Grant struct {
	// Decision is the decision on Need. Remaining is how many units are left after the
	// whole grant.
	Decision
	Granted int64       // units that the holder gets at once, including Need
	Block   Block       // what the holder has after the grant
	Ends    bool        // the holder has no block, and must ask for each call
	Out     Outstanding // which units of the limit are out after the grant
	State   State       // state of the limit, without leases
}

// Lease decides a request for units of r at now. st is the limit's state without leases:
// see Outstanding.Plain. block is the holder's block. known is false if the holder has
// no block that counts. The answer goes to g, of which Out has to be what is out.
func Lease(r *Rule, st State, block *Block, known bool, now int64, q *Request, g *Grant) (err error) {
	o := &g.Out
	now = Clamp(now)
	most := portion(r.Burst, q.Share)
	o.Forget(now)
	held := q.Held
	deadline := now + q.TTL
	if known {
		held = min(held, block.has(now))
		deadline = max(deadline, block.Deadline)
		o.remove(r, block, now)
	} else if held = min(held, most, o.room(r, now)); held > 0 {
		// The block is not known here, for example after a leader was lost. Its units are
		// charged again, as far as no more than the capacity is then out.
		var d Decision
		if st, err = charge(r, st, now, held, &Options{Force: true}, &d); err != nil {
			return err
		}
	}
	out, blocks := o.Sum(now)

	if st, err = charge(r, st, now, q.Need, &noOptions, &g.Decision); err != nil {
		return err
	}
	g.Granted = g.Allowed
	offers := [...]Offer{r.offer(g.Remaining, q, held, most-out, now, o)}
	more, refill, lasts := Join(offers[:])
	if end := windowEnd(r, st, now); end > 0 {
		deadline = min(deadline, end)
		if known { // the period may have been edited since
			deadline = max(deadline, block.Deadline)
		}
	}
	next := &g.Block
	*next = Block{Seq: q.Seq, Generation: o.Generation, Began: now, RefillEnds: now, Deadline: deadline, Units: held + more}
	switch {
	case next.Units+refill < leastBlock || blocks >= MaxBlocks || deadline <= now:
		// The holder may still spend what it has, because this answer may not reach it.
		next.Units, g.Ends = held, true
		if known {
			next.Deadline = block.Deadline
		}
	default:
		g.Granted += more
		if more > 0 {
			var d Decision
			if st, err = charge(r, st, now, more, &Options{Force: true}, &d); err != nil {
				return err
			}
		}
		if refill > 0 {
			next.Refill, next.RefillEnds = refill, now+lasts
		}
	}
	switch {
	case next.Out() == 0:
	case blocks >= MaxBlocks:
		// The Outstanding has no room for the block. So the block's units are out until the
		// deadline, even if the holder returns the block earlier.
		o.enter(Due{At: next.Deadline, Units: next.Units})
		o.shrink()
		*next = Block{}
	default:
		o.add(r, next)
	}
	g.State = o.Floor(r, st, now)
	var left Decision
	_, err = charge(r, g.State, now, 0, &noOptions, &left)
	g.Remaining, g.ResetAfter = left.Remaining, left.ResetAfter
	return err
}

// Return ends a block of r's at now. units is how many went back to the limit. o is
// consumed.
func Return(r *Rule, st State, o Outstanding, block Block, now, held int64) (next State, left Outstanding, units int64, err error) {
	now = Clamp(now)
	o.Forget(now)
	units = min(held, block.has(now))
	o.remove(r, &block, now)
	if units > 0 {
		var d Decision
		if st, err = charge(r, st, now, -units, &noOptions, &d); err != nil {
			return st, o, 0, err
		}
	}
	return o.Floor(r, st, now), o, units, nil
}

// charge is Decide for a state without a list. next is st if nothing is written.
func charge(r *Rule, st State, now, cost int64, o *Options, d *Decision) (next State, err error) {
	// Set each field: a literal would be copied, and the copy waits for the stores before it.
	var in Input
	in.State, in.Now, in.Cost, in.Options = st, now, cost, o
	next, _, write, err := r.Decide(&in, d)
	if err != nil || !write {
		return st, err
	}
	return next, nil
}

// Offer is what a limit can give to a holder in addition to Need, in units of the limit.
type Offer struct {
	Most  int64 // bound of More and refill together
	More  int64 // units at once
	Flow  int64 // units of refill within Lasts ns; Flow and Lasts are 0 without a refill
	Lasts int64
}

// offer returns what r can give to a holder that has held units. room is how many units
// this holder may have, given what other holders have.
func (r *Rule) offer(remaining int64, q *Request, held, room, now int64, o *Outstanding) (f Offer) {
	fair := portion(portion(r.Burst, q.Share), q.Fair.Out)
	f.Most = max(min(max(q.Want-held, 0), room-held, fair-held), 0)
	f.More = max(min(f.Most, remaining), 0)
	if r.Decides != Token {
		return f
	}
	// A refill covers at most the share of the capacity, and takes what others leave of
	// the rate.
	f.Lasts = min(q.TTL, portion(int64(r.capacity.NS), q.Share))
	rate := uint64(q.Fair.Rate)
	if reserved := o.Reserved(now); reserved >= 1<<32 {
		rate = 0
	} else {
		rate = min(rate, 1<<32-reserved)
	}
	f.Flow = int64(Span{NS: uint64(portion(f.Lasts, uint32(min(rate, math.MaxUint32))))}.fit(r.num, r.den))
	if q.Fair.Contended { // the holder's part of the units left, and of the rate
		f.More, f.Flow = min(f.More, portion(remaining, q.Fair.Rate)), max(f.Flow-held, 0)
	}
	return f
}

// Join returns what several limits can give together: units at once, and a refill that
// lasts for a time.
func Join(offers []Offer) (more, refill, lasts int64) {
	most := int64(math.MaxInt64)
	more, lasts = most, most
	for i := range offers {
		f := &offers[i]
		most, more = min(most, f.Most), min(more, f.More)
		if f.Lasts > 0 {
			lasts = min(lasts, f.Lasts)
		}
	}
	flows := int64(math.MaxInt64)
	for i := range offers {
		flows = min(flows, offers[i].beside(more, lasts))
	}
	if refill = min(most-more, flows); refill <= 0 {
		return more, 0, 0
	}
	if refill < flows { // at this rate, for less long
		hi, lo := bits.Mul64(uint64(refill), uint64(lasts))
		q, rem := bits.Div64(hi, lo, uint64(flows))
		if rem > 0 {
			q++
		}
		lasts = int64(q)
		for i := range offers {
			refill = min(refill, offers[i].beside(more, lasts))
		}
		if refill <= 0 {
			return more, 0, 0
		}
	}
	return more, refill, lasts
}

// beside returns how many units the limit can give within the time lasts, in addition to
// more at once: from the refill, and from the units left. lasts is at most Lasts.
func (f *Offer) beside(more, lasts int64) int64 { return f.More - more + f.flow(lasts) }

// flow returns how much of a refill can come from the rate within a time.
func (f *Offer) flow(lasts int64) int64 {
	if f.Lasts == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(f.Flow), uint64(lasts))
	q, _ := bits.Div64(hi, lo, uint64(f.Lasts))
	return int64(q)
}

// shareOf returns the part of the rate, in 2^-32, that units take within a time, rounded
// up.
func shareOf(r *Rule, units, lasts int64) uint64 {
	span := times(uint64(units), r.num, r.den)
	hi, lo := span.NS>>32, span.NS<<32|uint64(span.Frac)
	if hi >= uint64(lasts) {
		return maxInflow
	}
	q, rem := bits.Div64(hi, lo, uint64(lasts))
	if rem > 0 {
		q++
	}
	return min(q, maxInflow)
}

// windowEnd returns when the window of a state ends, 0 for a bucket.
func windowEnd(r *Rule, st State, now int64) int64 {
	switch r.Decides {
	case Fixed:
		return r.fixedAt(r.counts(st), now).Start + r.Period
	case Sliding:
		return r.slidingAt(r.counts(st), now).Start + r.Period
	}
	return 0
}

// portion returns whole*part/2^32, rounded down; MaxUint32 is all of it.
func portion(whole int64, part uint32) int64 {
	if part == math.MaxUint32 {
		return whole
	}
	hi, lo := bits.Mul64(uint64(whole), uint64(part))
	return int64(hi<<32 | lo>>32)
}
