package engine

import "math"

// windowState is the state of a fixed or sliding limit: the start of the
// current window in unix ns, and the units counted in it and, for sliding, in
// the window before it. The zero state is that of a missing key.
type windowState struct {
	Start, Prev, Cur int64
}

// bounded brings a state into the ranges that every function here relies on.
func (st windowState) bounded() windowState {
	return windowState{
		Start: clampInstant(st.Start),
		Prev:  min(max(st.Prev, 0), maxCount),
		Cur:   min(max(st.Cur, 0), maxCount),
	}
}

// admit decides a cost of 1 or more where used units count now. granted is
// what to charge, 0 when the call is denied; room is the highest used count at
// which the call would pass, negative when it never will.
//
// Windows and the log share what the options mean. Debt raises the limit by
// its units; what is owed goes with the count. Force counts beyond every bound
// up to maxCount, else ErrOverflow. Wait changes nothing: a call that waits
// would have to be counted at a later time, which would also deny calls that
// fit before it, so only what passes now is admitted.
func (r *rule) admit(used, cost int64, o *Options) (granted, room int64, err error) {
	bound := r.burst
	if o.Debt > 0 {
		bound = min(bound, maxCount-min(o.Debt, maxCount)) + min(o.Debt, maxCount)
	}
	switch {
	case o.Force:
		if cost > maxCount-used {
			return 0, 0, ErrOverflow
		}
		return cost, bound - cost, nil
	case o.AtMost:
		// With nothing there the call goes on as one of a single unit, which
		// is denied and told when that unit is there.
		cost = max(min(cost, bound-used), 1)
	}
	room = bound - cost
	if used > room {
		return 0, room, nil
	}
	return cost, room, nil
}

// lower takes a refund, a cost of 0 or less, from a count and stops at 0.
func lower(count, cost int64) int64 {
	return count + max(cost, -count)
}

// opening returns the start of a new window that contains now.
func (r *rule) opening(now int64) int64 {
	if r.limit.Align == First {
		return now
	}
	return now - now%r.period
}

// fixed checks a fixed window: at most Limit units in Start <= t <
// Start+Period. It returns the state to store when write is true; otherwise
// the state is unchanged. o, d and errors are as for token. A refund that brings the
// count to 0 returns the zero state: the key holds nothing any more. The only
// error is ErrOverflow, of a forced cost.
//
// Worst case: 2*Limit units in any period, Limit at the end of a window and
// Limit at the start of the next.
func (r *rule) fixed(st windowState, now, cost int64, o *Options, d *Decision) (next windowState, write bool, err error) {
	if o == nil {
		o = &noOptions
	}
	now = clampInstant(now)
	live := r.fixedAt(st, now)
	end := live.Start + r.period - now
	next = live
	d.Allowed, d.OK, d.Limit = cost, true, r.burst
	if cost > 0 {
		granted, room, err := r.admit(live.Cur, cost, o)
		if err != nil {
			return st, false, err
		}
		next.Cur += granted
		d.Allowed, d.OK = granted, granted > 0
		if !d.OK {
			d.RetryAfter = Never
			if room >= 0 {
				d.RetryAfter = end
			}
		}
	} else {
		next.Cur = lower(live.Cur, cost)
	}
	d.Remaining = max(r.burst-next.Cur, 0)
	if next.Cur > 0 {
		d.ResetAfter = end
	}
	if o.Peek || next.Cur == live.Cur {
		return st, false, nil
	}
	if next.Cur == 0 {
		next = windowState{}
	}
	return next, true, nil
}

// fixedAt returns the window that contains now: st's while it lasts, else an
// empty one.
func (r *rule) fixedAt(st windowState, now int64) windowState {
	st = st.bounded()
	if st.Cur == 0 || now-st.Start >= r.period {
		return windowState{Start: r.opening(now)}
	}
	return windowState{Start: st.Start, Cur: st.Cur}
}

// sliding checks a sliding window counter: what is used is the current count
// plus the previous one by the share of it that the last period still covers,
// rounded up: Cur + ceil(Prev * (Period-elapsed) / Period). State, options and
// results are as in fixed; ErrOverflow also answers a window whose weight
// would last past what an int64 can count, which takes a period of more than
// 73 years.
//
// A refund is taken from the current count first, and only what is left of it
// from the previous one: a unit refunded in its own window is given back in
// full; one refunded a window later, while others count in the current one,
// gives back a whole unit for the share it still weighed.
//
// Worst case: the weighting takes the previous count for evenly spread, so
// calls bunched at the end of one window and at the earliest chances in the
// next add up to more than Limit in a period, but to less than 2*Limit.
func (r *rule) sliding(st windowState, now, cost int64, o *Options, d *Decision) (next windowState, write bool, err error) {
	if o == nil {
		o = &noOptions
	}
	now = clampInstant(now)
	live := r.slidingAt(st, now)
	if live.Start > math.MaxInt64-2*r.period {
		return st, false, ErrOverflow
	}
	used := r.weigh(live, now)
	next = live
	d.Allowed, d.OK, d.Limit = cost, true, r.burst
	if cost > 0 {
		granted, room, err := r.admit(used, cost, o)
		if err != nil {
			return st, false, err
		}
		next.Cur += granted
		used += granted
		d.Allowed, d.OK = granted, granted > 0
		if !d.OK {
			d.RetryAfter = r.slidingRetry(live, now, room)
		}
	} else if cost < 0 {
		next.Cur = lower(live.Cur, cost)
		next.Prev = lower(live.Prev, cost+live.Cur-next.Cur)
		used = r.weigh(next, now)
	}
	d.Remaining = max(r.burst-used, 0)
	switch {
	case next.Cur > 0:
		d.ResetAfter = live.Start + 2*r.period - now
	case next.Prev > 0:
		d.ResetAfter = live.Start + r.period - now
	}
	if o.Peek || next == live {
		return st, false, nil
	}
	switch {
	case next.Cur == 0 && next.Prev == 0:
		next = windowState{}
	case next.Cur == 0 && next.Start >= r.period:
		// The same as the window before alone, which is forgotten earlier.
		next = windowState{Start: next.Start - r.period, Cur: next.Prev}
	}
	return next, true, nil
}

// slidingAt returns the windows around now: st's, moved on when its current
// window is over, or empty ones.
func (r *rule) slidingAt(st windowState, now int64) windowState {
	st = st.bounded()
	switch age := now - st.Start; {
	case age < r.period && (st.Cur > 0 || st.Prev > 0):
		return st
	case age >= r.period && age-r.period < r.period && st.Cur > 0:
		return windowState{Start: st.Start + r.period, Prev: st.Cur}
	}
	return windowState{Start: r.opening(now)}
}

// weigh returns the units that count at now, at most 2*maxCount.
func (r *rule) weigh(st windowState, now int64) int64 {
	if st.Prev == 0 {
		return st.Cur
	}
	left := uint64(r.period - max(now-st.Start, 0))
	q, rem := mulDiv(uint64(st.Prev), left, uint64(r.period))
	if rem > 0 {
		q++
	}
	return st.Cur + int64(q)
}

// slidingRetry returns the wait until at most room units count. More count
// now. Weights only shrink while nothing is charged, also at the roll from one
// window to the next, so the first instant that fits is the answer.
func (r *rule) slidingRetry(st windowState, now, room int64) int64 {
	if room < 0 {
		return Never
	}
	period := uint64(r.period)
	if beside := room - st.Cur; beside >= 0 {
		// Prev has to weigh no more than beside: Prev*left/Period <= beside.
		left, _ := mulDiv(period, uint64(beside), uint64(st.Prev))
		return st.Start + r.period - int64(left) - now
	}
	// Not in this window. In the next one Cur is the previous count.
	left, _ := mulDiv(period, uint64(room), uint64(st.Cur))
	return st.Start + 2*r.period - int64(left) - now
}

// windowDeadline returns when st stops mattering: at the end of a fixed
// window, or when a sliding one can weigh nothing any more.
func (r *rule) windowDeadline(st windowState) int64 {
	return st.Start + r.windowLife()
}

// windowFromDeadline returns the state whose windowDeadline is deadline.
func (r *rule) windowFromDeadline(deadline, prev, cur int64) windowState {
	return windowState{Start: deadline - r.windowLife(), Prev: prev, Cur: cur}
}

// counts is st as the state of a fixed or sliding limit, written under r.
func (r *rule) counts(st state) windowState {
	if r.decides == Sliding {
		return r.windowFromDeadline(st.deadline, int64(st.first), int64(st.second))
	}
	return r.windowFromDeadline(st.deadline, 0, int64(st.first))
}

// stored is a fixed or sliding limit's st as a record has it.
func (r *rule) stored(st windowState) state {
	if r.decides == Sliding {
		return state{r.windowDeadline(st), uint64(st.Prev), uint64(st.Cur)}
	}
	return state{deadline: r.windowDeadline(st), first: uint64(st.Cur)}
}

func (r *rule) windowLife() int64 {
	if r.decides == Sliding {
		return 2 * r.period
	}
	return r.period
}

// adoptWindow carries st, made under old, over to r: a limit changed on a live
// key keeps its count. With the same period and alignment the windows go on;
// otherwise everything that counted under old counts in the new window, which
// is the aligned one that contains now or, with First, starts where the old
// one did while that is less than a period ago.
func (r *rule) adoptWindow(st windowState, old *rule, now int64) windowState {
	now = clampInstant(now)
	used := int64(0)
	if old.decides == Sliding {
		st = old.slidingAt(st, now)
		used = min(old.weigh(st, now), maxCount)
	} else {
		st = old.fixedAt(st, now)
		used = st.Cur
	}
	if used == 0 {
		return windowState{}
	}
	if r.period == old.period && r.limit.Align == old.limit.Align {
		return st
	}
	start := r.opening(now)
	if r.limit.Align == First && now-st.Start < r.period {
		start = st.Start
	}
	return windowState{Start: start, Cur: used}
}

// adoptCounts is adoptWindow of a record's state.
func adoptCounts(r, old *rule, st state, now int64) state {
	return r.stored(r.adoptWindow(old.counts(st), old, now))
}
