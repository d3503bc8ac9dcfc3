package algo

import "math"

// bucketAlgorithm is the algorithm of token and leaky buckets.
var bucketAlgorithm = algorithm{
	words: 1, timed: true,
	window: func(r *Rule) int64 { return int64(r.capacity.NS) },
	split:  splitBucket, multiple: multipleBucket,
	adopt: adoptBucket, scale: scaleBucket, pressure: bucketPressure, describe: describeBucket,
	count: countBucket, charged: bucketCharged, refund: refundBucket, forcible: bucketForcible, over: bucketOver,
}

// tokenState is the state of a token or leaky bucket: the theoretical arrival time of
// GCRA, TAT, in unix ns and 2^-32 ns. The time from now to TAT is the used part of the
// capacity; a TAT that has passed is a full bucket. The zero state is that of a missing
// key.
type tokenState struct {
	TAT  int64
	Frac uint32
}

// bucket returns st as the state of a token or leaky bucket.
func (st State) bucket() tokenState { return tokenState{st.Deadline, uint32(st.First)} }

// stored returns st as it is stored in a record.
func (st tokenState) stored() State { return State{Deadline: st.TAT, First: uint64(st.Frac)} }

// used returns the time from now to TAT, 0 if TAT has passed. now must be clamped.
func (st tokenState) used(now int64) Span {
	if st.TAT < now {
		return Span{}
	}
	return Span{uint64(min(st.TAT, latestInstant) - now), st.Frac}
}

// after returns the state in which used is in use at now.
func (used Span) after(now int64) tokenState {
	return tokenState{now + int64(used.NS), used.Frac}
}

// token checks a token or leaky bucket with the virtual-scheduling form of the generic
// cell rate algorithm (ITU-T I.371). A call passes if the bucket's used time plus the
// time of the call's cost is at most the capacity. If write is true, next is the state
// to store. Otherwise the state is unchanged. d is as in Decide.
//
// If a refund makes the bucket full again, token returns the zero state, and the key
// holds nothing any more. The only error is ErrOverflow, for a forced cost.
//
// The option Debt raises the capacity by that many units. The option Wait lets a call
// use units that refill within that time. Together they reach at most MaxSpan ahead. A
// cost that is more than the capacity plus Debt is denied with Never, because the call
// will not fit after any wait.
//
// A call of cost 1 takes one division, to compute Remaining (BenchmarkToken).
func (r *Rule) token(st tokenState, now, cost int64, o *Options, d *Decision) (next tokenState, write bool, err error) {
	now = Clamp(now)
	used := st.used(now)
	d.Limit = r.Burst
	if cost <= 0 {
		next, write = r.tokenRefund(st, used, now, cost, o, d)
		return next, write, nil
	}

	room := r.capacity // what a call may fill without a wait
	reach := room      // what it may fill at all
	if o.Debt > 0 || o.Wait > 0 {
		room, reach = r.extended(o)
	}

	if o.AtMost && !o.Force {
		// If nothing is available, decide the call as one of a single unit: it is denied,
		// with the wait until that unit is available.
		there := shorter(reach.sub(used), room).fit(r.num, r.den)
		cost = int64(max(min(uint64(cost), there), 1))
	}
	inc := r.unit
	if cost != 1 {
		inc = times(uint64(cost), r.num, r.den)
	}
	charged := used.add(inc)
	if o.Wait != 0 && r.Decides == Leaky {
		// Every call of a queue waits: the first unit must start in time.
		reach = shorter(reach, inc.add(Span{NS: uint64(max(o.Wait, 0))}))
	}

	switch {
	case o.Force:
		if charged.NS > uint64(latestInstant-now) {
			return st, false, ErrOverflow
		}
	case reach.less(charged), room.less(inc):
		d.RetryAfter = Never
		if !room.less(inc) {
			d.RetryAfter = charged.sub(reach).ceil()
		}
		d.Remaining = r.free(used)
		d.ResetAfter = used.ceil()
		return st, false, nil
	}

	d.OK, d.Allowed = true, cost
	d.Remaining = r.free(charged)
	d.ResetAfter = charged.ceil()
	if r.Decides == Leaky {
		d.Delay = used.ceil()
	} else if o.Wait > 0 && !o.Force {
		d.Delay = charged.sub(room).ceil()
	}
	if o.Peek {
		return st, false, nil
	}
	return charged.after(now), true, nil
}

// extended returns how far a call may fill the bucket with Debt, and how far with Wait
// too. In a queue, Wait adds nothing: its calls wait anyway.
func (r *Rule) extended(o *Options) (room, reach Span) {
	room, most := r.capacity, Span{NS: MaxSpan}
	if o.Debt > 0 {
		room = shorter(times(uint64(r.Burst)+uint64(o.Debt), r.num, r.den), most)
	}
	if r.Decides == Leaky {
		return room, room
	}
	return room, shorter(room.add(Span{NS: uint64(max(o.Wait, 0))}), most)
}

// tokenRefund answers a cost of 0 or less: a look, or a refund that stops at full.
func (r *Rule) tokenRefund(st tokenState, used Span, now, cost int64, o *Options, d *Decision) (next tokenState, write bool) {
	d.OK, d.Allowed = true, cost
	left := used
	if cost < 0 {
		// -cost as a uint64 is right for the smallest int64 too.
		left = used.sub(times(uint64(-cost), r.num, r.den))
	} else if r.Decides == Leaky {
		d.Delay = used.ceil()
	}
	d.Remaining = r.free(left)
	d.ResetAfter = left.ceil()
	switch {
	case o.Peek || left == used:
		return st, false
	case left == Span{}:
		return tokenState{}, true
	}
	return left.after(now), true
}

// free returns how many whole units are free if used is in use.
func (r *Rule) free(used Span) int64 {
	return int64(r.capacity.sub(used).fit(r.num, r.den))
}

func shorter(a, b Span) Span {
	if b.less(a) {
		return b
	}
	return a
}

// adoptToken converts st from old to r, in whole units: a limit changed on a live key
// keeps the units in use. Units within the old capacity are kept up to the new capacity.
// Units beyond it, charged by Force, Debt or Wait, are all kept, as debt. If the time per
// unit has not changed, TAT keeps its fraction.
func (r *Rule) adoptToken(st tokenState, old *Rule, now int64) tokenState {
	now = Clamp(now)
	used := st.used(now)
	if used == (Span{}) {
		return tokenState{}
	}
	if r.num == old.num && r.den == old.den {
		debt := used.sub(old.capacity)
		kept := shorter(shorter(used, old.capacity), r.capacity)
		return shorter(kept.add(debt), Span{NS: uint64(latestInstant - now)}).after(now)
	}
	units := used.cover(old.num, old.den)
	consumed := min(units, uint64(old.Burst))
	debt := units - consumed
	kept := times(min(consumed, uint64(r.Burst))+debt, r.num, r.den)
	return shorter(kept, Span{NS: uint64(latestInstant - now)}).after(now)
}

// adoptBucket is adoptToken for the state of a record.
func adoptBucket(r, old *Rule, st State, now int64) State {
	return r.adoptToken(st.bucket(), old, now).stored()
}

// scaleBucket is Rule.Scale for a bucket.
func scaleBucket(r, old *Rule, st State, _ []byte, now int64) (State, []byte) {
	now = Clamp(now)
	used := st.bucket().used(now)
	if used == (Span{}) {
		return State{}, nil
	}
	ns := scaled(uint64(used.ceil()), r.capacity.NS, old.capacity.NS)
	return Span{NS: min(ns, uint64(latestInstant-now))}.after(now).stored(), nil
}

// splitBucket returns the same units in n times the period, and 1/n of the burst.
func splitBucket(l Limit, n int64) (share Limit, ok bool) {
	l.Burst = l.Capacity() / n
	if l.Period > MaxSpan/n {
		return Limit{}, false
	}
	l.Period *= n
	return l, true
}

// multipleBucket multiplies the rounded rate: num/den ns per unit, in lowest terms, num
// >= den. Nobody waits for the result, so a leaky bucket becomes a token bucket.
func multipleBucket(l Limit, m *Limit, n int64) {
	num, den := l.interval()
	num = min(num, MaxSpan)
	m.Algorithm = Token
	m.Limit, m.Period = int64(min(product(den, n, math.MaxInt64), num)), int64(num)
	m.Burst = int64(product(uint64(l.Capacity()), n, MaxSpan))
}

func bucketPressure(r *Rule, st State, now int64) uint32 {
	return share(uint64(max(st.Deadline-now, 0)), r.capacity.NS)
}

func describeBucket(r *Rule, state State, _ []byte, now int64) (u Usage) {
	st := state.bucket()
	u.TAT, u.TATFrac = st.TAT, st.Frac
	u.Fact("tat_ns", u.TAT)
	u.Fact("tat_fraction", int64(u.TATFrac))
	used := st.used(now)
	u.Used = int64(used.cover(r.num, r.den))
	if free := r.free(used); free > 0 {
		// A fraction beyond whole units, left by a refund, does not count as in use.
		u.Used = r.Burst - free
	}
	return u
}
