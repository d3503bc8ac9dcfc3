package algo

import "math"

// fixedAlgorithm and slidingAlgorithm are the algorithms of fixed and sliding windows.
var (
	fixedAlgorithm = algorithm{
		words: 1, countsOn: true, window: periodOf, split: splitUnits, multiple: multipleUnits,
		adopt: adoptCounts, scale: scaleCounts, pressure: firstPressure, describe: describeFixed,
		count: countFixed, charged: fixedCharged, refund: refundFixed, forcible: fixedForcible, over: fixedOver,
	}
	slidingAlgorithm = algorithm{
		words: 2, countsOn: true, window: periodOf, split: splitUnits, multiple: multipleUnits,
		adopt: adoptCounts, scale: scaleCounts, pressure: slidingPressure, describe: describeSliding,
		count: countSliding, charged: slidingCharged, refund: refundSliding, forcible: slidingForcible, over: slidingOver,
	}
)

// windowState is the state of a fixed or sliding limit: the start of the current window
// in unix ns, the units counted in it, and for sliding those of the window before. The
// zero state is that of a missing key.
type windowState struct {
	Start, Prev, Cur int64
}

// bounded brings a state into the ranges that every function here relies on.
func (st windowState) bounded() windowState {
	return windowState{
		Start: Clamp(st.Start),
		Prev:  min(max(st.Prev, 0), MaxCount),
		Cur:   min(max(st.Cur, 0), MaxCount),
	}
}

// admit decides a cost of 1 or more if used units count now. granted is the charge, 0 if
// the call is denied. room is the highest used count at which the call would pass,
// negative if it never will.
//
// The options mean the same for windows and for the log. Debt raises the limit by that
// many units, and ends when they stop counting. Force counts beyond every bound up to
// MaxCount, otherwise ErrOverflow. Wait changes nothing: only calls that pass now are
// admitted. A call that waits would count at a later time, and so deny calls that fit
// before it.
func (r *Rule) admit(used, cost int64, o *Options) (granted, room int64, err error) {
	bound := r.Burst
	if o.Debt > 0 {
		bound = min(bound, MaxCount-min(o.Debt, MaxCount)) + min(o.Debt, MaxCount)
	}
	switch {
	case o.Force:
		if cost > MaxCount-used {
			return 0, 0, ErrOverflow
		}
		return cost, bound - cost, nil
	case o.AtMost:
		// If nothing is available, decide the call as one of a single unit: it is denied,
		// with the wait until that unit is available.
		cost = max(min(cost, bound-used), 1)
	}
	room = bound - cost
	if used > room {
		return 0, room, nil
	}
	return cost, room, nil
}

// lower subtracts a refund, a cost of 0 or less, from a count and stops at 0.
func lower(count, cost int64) int64 {
	return count + max(cost, -count)
}

// opening returns the start of a new window that contains now.
func (r *Rule) opening(now int64) int64 {
	if r.Limit.Align == First {
		return now
	}
	return now - now%r.Period
}

// fixed checks a fixed window: at most Limit units in Start <= t < Start+Period. If
// write is true, next is the state to store; otherwise the state is unchanged. o and d
// are as for token. If a refund reduces the count to 0, fixed returns the zero state,
// and the key holds nothing any more. The only error is ErrOverflow, for a forced cost.
//
// Worst case: a period admits 2*Limit units: Limit at the end of a window, and Limit at
// the start of the next window.
func (r *Rule) fixed(st windowState, now, cost int64, o *Options, d *Decision) (next windowState, write bool, err error) {
	now = Clamp(now)
	live := r.fixedAt(st, now)
	end := live.Start + r.Period - now
	next = live
	d.Allowed, d.OK, d.Limit = cost, true, r.Burst
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
	d.Remaining = max(r.Burst-next.Cur, 0)
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

// fixedAt returns the window that contains now: st's while it lasts, otherwise an empty
// one.
func (r *Rule) fixedAt(st windowState, now int64) windowState {
	st = st.bounded()
	if st.Cur == 0 || now-st.Start >= r.Period {
		return windowState{Start: r.opening(now)}
	}
	return windowState{Start: st.Start, Cur: st.Cur}
}

// sliding checks a sliding window counter. The units in use are the current window's
// count plus a share of the previous window's count, rounded up: Cur + ceil(Prev *
// (Period-elapsed) / Period). The share is the part of the previous window that lies
// within the last period. State, options and results are as in fixed. Also, sliding
// returns ErrOverflow if the window's weight would last beyond an int64, which takes a
// period of more than 73 years.
//
// A refund is taken from the current count first, and the rest from the previous one. If
// a unit is refunded in its own window, it is given back in full. In the next window,
// the unit weighs only a part of a unit. But if other calls have counted in the current
// window by then, the refund still gives back a whole unit.
//
// Worst case: one period admits more than Limit, but fewer than 2*Limit units. The
// weighting assumes that the calls of the previous window were evenly spread. But calls
// may be concentrated at the end of one window and at the earliest possible time in the
// next.
func (r *Rule) sliding(st windowState, now, cost int64, o *Options, d *Decision) (next windowState, write bool, err error) {
	now = Clamp(now)
	live := r.slidingAt(st, now)
	if live.Start > math.MaxInt64-2*r.Period {
		return st, false, ErrOverflow
	}
	used := r.weigh(live, now)
	next = live
	d.Allowed, d.OK, d.Limit = cost, true, r.Burst
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
	d.Remaining = max(r.Burst-used, 0)
	switch {
	case next.Cur > 0:
		d.ResetAfter = live.Start + 2*r.Period - now
	case next.Prev > 0:
		d.ResetAfter = live.Start + r.Period - now
	}
	if o.Peek || next == live {
		return st, false, nil
	}
	switch {
	case next.Cur == 0 && next.Prev == 0:
		next = windowState{}
	case next.Cur == 0 && next.Start >= r.Period:
		// This equals the window before alone, which is forgotten earlier.
		next = windowState{Start: next.Start - r.Period, Cur: next.Prev}
	}
	return next, true, nil
}

// slidingAt returns the windows around now: st's, moved on if its current window is over,
// or empty ones.
func (r *Rule) slidingAt(st windowState, now int64) windowState {
	st = st.bounded()
	switch age := now - st.Start; {
	case age < r.Period && (st.Cur > 0 || st.Prev > 0):
		return st
	case age >= r.Period && age-r.Period < r.Period && st.Cur > 0:
		return windowState{Start: st.Start + r.Period, Prev: st.Cur}
	}
	return windowState{Start: r.opening(now)}
}

// weigh returns the units that count at now, at most 2*MaxCount.
func (r *Rule) weigh(st windowState, now int64) int64 {
	if st.Prev == 0 {
		return st.Cur
	}
	left := uint64(r.Period - max(now-st.Start, 0))
	q, rem := mulDiv(uint64(st.Prev), left, uint64(r.Period))
	if rem > 0 {
		q++
	}
	return st.Cur + int64(q)
}

// slidingRetry returns the wait until at most room units count; more count now. Without
// charges, weights only shrink, also when one window follows another. So the first
// instant that fits is the answer.
func (r *Rule) slidingRetry(st windowState, now, room int64) int64 {
	if room < 0 {
		return Never
	}
	period := uint64(r.Period)
	if beside := room - st.Cur; beside >= 0 {
		// Prev must weigh at most beside: Prev*left/Period <= beside.
		left, _ := mulDiv(period, uint64(beside), uint64(st.Prev))
		return st.Start + r.Period - int64(left) - now
	}
	// Not in this window. In the next one Cur is the previous count.
	left, _ := mulDiv(period, uint64(room), uint64(st.Cur))
	return st.Start + 2*r.Period - int64(left) - now
}

// windowDeadline returns when st stops mattering: at the end of a fixed window, or when a
// sliding one has no weight any more.
func (r *Rule) windowDeadline(st windowState) int64 {
	return st.Start + r.windowLife()
}

// windowFromDeadline returns the state whose windowDeadline is deadline.
func (r *Rule) windowFromDeadline(deadline, prev, cur int64) windowState {
	return windowState{Start: deadline - r.windowLife(), Prev: prev, Cur: cur}
}

// counts returns st as the state of a fixed or sliding limit, written under r.
func (r *Rule) counts(st State) windowState {
	if r.Decides == Sliding {
		return r.windowFromDeadline(st.Deadline, int64(st.First), int64(st.Second))
	}
	return r.windowFromDeadline(st.Deadline, 0, int64(st.First))
}

// stored returns st, of a fixed or sliding limit, as it is stored in a record.
func (r *Rule) stored(st windowState) State {
	if r.Decides == Sliding {
		return State{r.windowDeadline(st), uint64(st.Prev), uint64(st.Cur)}
	}
	return State{Deadline: r.windowDeadline(st), First: uint64(st.Cur)}
}

func (r *Rule) windowLife() int64 {
	if r.Decides == Sliding {
		return 2 * r.Period
	}
	return r.Period
}

// adoptWindow converts st from old to r: a limit changed on a live key keeps its count.
// With the same period and alignment, the windows stay too. Otherwise all units that
// counted under old count in one new window. With Epoch, that is the aligned window that
// contains now. With First, it starts when the old window did, if the old window began
// less than a period ago.
func (r *Rule) adoptWindow(st windowState, old *Rule, now int64) windowState {
	now = Clamp(now)
	used := int64(0)
	if old.Decides == Sliding {
		st = old.slidingAt(st, now)
		used = min(old.weigh(st, now), MaxCount)
	} else {
		st = old.fixedAt(st, now)
		used = st.Cur
	}
	if used == 0 {
		return windowState{}
	}
	if r.Period == old.Period && r.Limit.Align == old.Limit.Align {
		return st
	}
	start := r.opening(now)
	if r.Limit.Align == First && now-st.Start < r.Period {
		start = st.Start
	}
	return windowState{Start: start, Cur: used}
}

// adoptCounts is adoptWindow for the state of a record.
func adoptCounts(r, old *Rule, st State, now int64) State {
	return r.stored(r.adoptWindow(old.counts(st), old, now))
}

// scaleCounts is Rule.Scale for a window.
func scaleCounts(r, old *Rule, st State, _ []byte, now int64) (State, []byte) {
	w := r.adoptWindow(old.counts(st), old, Clamp(now))
	if w == (windowState{}) {
		return State{}, nil
	}
	w.Prev = int64(scaled(uint64(w.Prev), uint64(r.Burst), uint64(old.Burst)))
	w.Cur = int64(scaled(uint64(w.Cur), uint64(r.Burst), uint64(old.Burst)))
	return r.stored(w), nil
}

// Tally adds units to the count of a fixed window, also beyond the limit. Negative units
// are subtracted. The count stays between 0 and MaxCount. next is the state to store,
// and words is the size of its record. previous and total are the window's counts before
// and after the call. The window ends in reset ns.
func (r *Rule) Tally(st State, now, units int64) (next State, words int, previous, total, reset int64) {
	now = Clamp(now)
	w := r.fixedAt(r.counts(st), now)
	previous, reset = w.Cur, w.Start+r.Period-now
	if units > 0 {
		w.Cur += min(units, MaxCount-w.Cur)
	} else {
		w.Cur = lower(w.Cur, max(units, -MaxCount))
	}
	return r.stored(w), wordsIf(1, w.Cur > 0), previous, w.Cur, reset
}

func periodOf(r *Rule) int64 { return r.Period }

// splitUnits returns 1/n of the units in the same period.
func splitUnits(l Limit, n int64) (share Limit, ok bool) {
	l.Limit /= n
	return l, true
}

func multipleUnits(l Limit, m *Limit, n int64) {
	m.Limit = int64(product(uint64(l.Limit), n, MaxCount))
}

// firstPressure returns the pressure of a state whose first word counts.
func firstPressure(r *Rule, st State, _ int64) uint32 { return share(st.First, uint64(r.Burst)) }

// slidingPressure weighs the previous window in full. The result is at most twice too
// high, which only makes the key stay longer.
func slidingPressure(r *Rule, st State, _ int64) uint32 {
	return share(st.First+st.Second, uint64(r.Burst))
}

func describeFixed(r *Rule, st State, _ []byte, now int64) (u Usage) {
	w := r.fixedAt(r.counts(st), now)
	u.WindowStart, u.Current, u.Previous = w.Start, w.Cur, w.Prev
	u.Used = w.Cur
	u.Fact("window_start_ms", u.WindowStart/1e6)
	u.Fact("current", u.Current)
	return u
}

func describeSliding(r *Rule, st State, _ []byte, now int64) (u Usage) {
	w := r.slidingAt(r.counts(st), now)
	u.WindowStart, u.Current, u.Previous = w.Start, w.Cur, w.Prev
	u.Used = r.weigh(w, now)
	u.Fact("window_start_ms", u.WindowStart/1e6)
	u.Fact("current", u.Current)
	u.Fact("previous", u.Previous)
	return u
}
