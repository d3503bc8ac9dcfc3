package engine

// tokenState is the state of a token or leaky bucket: the theoretical arrival
// time of GCRA, TAT, in unix ns and 2^-32 ns. The time from now to TAT is what
// is used of the capacity; a TAT that has passed is a full bucket. The zero
// state is that of a missing key.
type tokenState struct {
	TAT  int64
	Frac uint32
}

// bucket is st as the state of a token or leaky bucket.
func (st state) bucket() tokenState { return tokenState{st.deadline, uint32(st.first)} }

// stored is st as a record has it.
func (st tokenState) stored() state { return state{deadline: st.TAT, first: uint64(st.Frac)} }

// used returns the time from now to TAT, 0 when TAT has passed. now must be
// clamped.
func (st tokenState) used(now int64) span {
	if st.TAT < now {
		return span{}
	}
	return span{uint64(min(st.TAT, latestInstant) - now), st.Frac}
}

// after returns the state whose TAT is used after now.
func (used span) after(now int64) tokenState {
	return tokenState{now + int64(used.ns), used.frac}
}

// token checks a token or leaky bucket by the virtual-scheduling form of the
// generic cell rate algorithm (ITU-T I.371): a call passes when the bucket's
// used time plus the time of its cost is at most the capacity. It returns the
// state to store when write is true; otherwise the state is unchanged. A nil o
// means no options. d, which must be zero, receives the answer; as a result it
// would be copied through memory, a copy that waits for the stores before it.
// With an error it means nothing.
//
// A refund that fills the bucket returns the zero state: the key holds nothing
// any more. The only error is ErrOverflow, of a forced cost.
//
// Debt raises the capacity by its units, Wait the time a call may reach beyond
// it; both together reach at most maxSpan ahead. A cost above capacity and
// Debt is denied with Never whatever Wait says, because no amount of waiting
// would make it fit.
//
// Cost: one division for a call of cost 1, that of Remaining
// (BenchmarkToken).
func (r *rule) token(st tokenState, now, cost int64, o *Options, d *Decision) (next tokenState, write bool, err error) {
	if o == nil {
		o = &noOptions
	}
	now = clampInstant(now)
	used := st.used(now)
	d.Limit = r.burst
	if cost <= 0 {
		next, write = r.tokenRefund(st, used, now, cost, o, d)
		return next, write, nil
	}

	room := r.capacity // what a call may fill with no wait
	reach := room      // what it may fill at all
	if o.Debt > 0 || o.Wait > 0 {
		room, reach = r.extended(o)
	}

	if o.AtMost && !o.Force {
		// With nothing there the call goes on as one of a single unit, which
		// is denied and told when that unit is there.
		there := shorter(reach.sub(used), room).fit(r.num, r.den)
		cost = int64(max(min(uint64(cost), there), 1))
	}
	inc := r.unit
	if cost != 1 {
		inc = times(uint64(cost), r.num, r.den)
	}
	charged := used.add(inc)
	if o.Wait != 0 && r.decides == Leaky {
		// Every call of a queue waits: the first unit must start in time.
		reach = shorter(reach, inc.add(span{ns: uint64(max(o.Wait, 0))}))
	}

	switch {
	case o.Force:
		if charged.ns > uint64(latestInstant-now) {
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
	if r.decides == Leaky {
		d.Delay = used.ceil()
	} else if o.Wait > 0 && !o.Force {
		d.Delay = charged.sub(room).ceil()
	}
	if o.Peek {
		return st, false, nil
	}
	return charged.after(now), true, nil
}

var noOptions Options

// extended returns how far Debt lets a call fill the bucket, and how far Wait
// lets it beyond that: not at all in a queue, whose calls wait anyway.
func (r *rule) extended(o *Options) (room, reach span) {
	room, most := r.capacity, span{ns: maxSpan}
	if o.Debt > 0 {
		room = shorter(times(uint64(r.burst)+uint64(o.Debt), r.num, r.den), most)
	}
	if r.decides == Leaky {
		return room, room
	}
	return room, shorter(room.add(span{ns: uint64(max(o.Wait, 0))}), most)
}

// tokenRefund answers a cost of 0 or less: a look, or a refund that stops at
// full.
func (r *rule) tokenRefund(st tokenState, used span, now, cost int64, o *Options, d *Decision) (next tokenState, write bool) {
	d.OK, d.Allowed = true, cost
	left := used
	if cost < 0 {
		// -cost as a uint64 is right for the smallest int64 too.
		left = used.sub(times(uint64(-cost), r.num, r.den))
	} else if r.decides == Leaky {
		d.Delay = used.ceil()
	}
	d.Remaining = r.free(left)
	d.ResetAfter = left.ceil()
	switch {
	case o.Peek || left == used:
		return st, false
	case left == span{}:
		return tokenState{}, true
	}
	return left.after(now), true
}

// free returns how many whole units fit beside used.
func (r *rule) free(used span) int64 {
	return int64(r.capacity.sub(used).fit(r.num, r.den))
}

func shorter(a, b span) span {
	if b.less(a) {
		return b
	}
	return a
}

// adoptToken carries st, made under old, over to r: a limit changed on a live
// key keeps what was consumed of it. Consumed units count in whole, at most
// the new capacity of them, plus the debt: what was charged beyond the old
// capacity by Force, Debt or Wait. With the same time per unit TAT is kept to
// the fraction.
func (r *rule) adoptToken(st tokenState, old *rule, now int64) tokenState {
	now = clampInstant(now)
	used := st.used(now)
	if used == (span{}) {
		return tokenState{}
	}
	if r.num == old.num && r.den == old.den {
		debt := used.sub(old.capacity)
		kept := shorter(shorter(used, old.capacity), r.capacity)
		return shorter(kept.add(debt), span{ns: uint64(latestInstant - now)}).after(now)
	}
	units := used.cover(old.num, old.den)
	consumed := min(units, uint64(old.burst))
	debt := units - consumed
	kept := times(min(consumed, uint64(r.burst))+debt, r.num, r.den)
	return shorter(kept, span{ns: uint64(latestInstant - now)}).after(now)
}

// adoptBucket is adoptToken of a record's state.
func adoptBucket(r, old *rule, st state, now int64) state {
	return r.adoptToken(st.bucket(), old, now).stored()
}
