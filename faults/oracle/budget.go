package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/headgate-io/headgate/faults/history"
)

// clockSlack is how much faster than the clients' a limiter's clock may run: 500 ppm of slew, and as much for the two
// machines' oscillators.
const clockSlack = 1000 // 1 part in clockSlack

// Extra is what was admitted beyond the limits, in units, and what the mode of the run allows.
type Extra struct {
	Units, Bound            int64 // over all keys
	Worst, WorstBound       int64 // on the key with the most
	Keys, KeysBeyond, Calls int
}

// Budgets checks that no key was admitted more than its limit, plus what lost leaders may cost: bound gives that in
// units per key. It also checks the other side, on keys whose units do not come back within the run. There a call is
// denied only when others, answered or not, have used the limit up.
func Budgets(h *history.History, bound func(key uint32, calls []history.Call) int64) (Finding, Extra) {
	f := Finding{Check: "budgets", OK: true}
	var sum Extra
	for k, cs := range h.ByKey() {
		key := &h.Keys[k]
		if key.Free || key.Unjudged || key.Algorithm == history.Slots || len(cs) == 0 {
			continue
		}
		extra, allowed := excess(key, cs, h.Length), bound(uint32(k), cs)
		sum.Keys++
		sum.Calls += len(cs)
		sum.Units += extra
		sum.Bound += allowed
		if extra > 0 {
			sum.KeysBeyond++
		}
		if extra > sum.Worst {
			sum.Worst, sum.WorstBound = extra, allowed
		}
		if extra > allowed {
			f.violate("%s: %d admitted of %d per %v, at least %d too many (allowed: %d)",
				key.Name, admitted(cs), key.Limit, key.Period, extra, allowed)
		}
		if key.Static(h.Length) {
			if d := unexplained(key, cs); d != nil {
				f.violate("%s: denied at %v with %d remaining, but all calls so far leave more", key.Name, time.Duration(d.Start), d.Remaining)
			}
		}
	}
	f.Text = fmt.Sprintf("%d calls on %d keys: %d units admitted beyond the limits (bound %d), on %d keys, at most %d on one (bound %d)",
		sum.Calls, sum.Keys, sum.Units, sum.Bound, sum.KeysBeyond, sum.Worst, sum.WorstBound)
	return f, sum
}

// excess is the least number of units admitted beyond the key's limit, whenever within its call each was decided.
func excess(key *history.Key, calls []history.Call, length time.Duration) int64 {
	extra := int64(key.Extra)
	switch {
	case key.Algorithm == history.Token || key.Algorithm == history.Leaky:
		return bucketExcess(int64(key.Limit), int64(key.Period), extra, calls)
	case key.Static(length) && key.Algorithm != history.Log:
		return max(0, admitted(calls)-int64(key.Limit)-extra)
	case key.Algorithm == history.Fixed || key.Algorithm == history.Sliding:
		// The end of one window and the start of the next may both be used up.
		return trailingExcess(2*int64(key.Limit), int64(key.Period), calls)
	default:
		return trailingExcess(int64(key.Limit), int64(key.Period), calls)
	}
}

func admitted(calls []history.Call) (n int64) {
	for i := range calls {
		if counts(&calls[i]) {
			n += int64(calls[i].Cost)
		}
	}
	return n
}

// counts reports whether a call has surely used units of the limit. What a failure policy admits has its own bounds.
func counts(c *history.Call) bool {
	return c.Kind == history.Limit && c.Outcome == history.Admitted && c.Cost > 0 && !c.Local
}

// trailingExcess bounds what was admitted in any window of the period: calls that began and ended within it.
func trailingExcess(limit, period int64, calls []history.Call) int64 {
	type point struct{ at, cost int64 }
	var starts, ends []point
	for i := range calls {
		if c := &calls[i]; counts(c) {
			starts = append(starts, point{c.Start, int64(c.Cost)})
			ends = append(ends, point{c.End, int64(c.Cost)})
		}
	}
	byTime := func(a, b point) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(starts, byTime)
	slices.SortFunc(ends, byTime)
	period -= period / clockSlack
	var before, ended, worst int64
	next := 0
	for _, s := range starts {
		for next < len(ends) && ends[next].at < s.at+period {
			ended += ends[next].cost
			next++
		}
		// All that ended before the window's end, less all that began before its start: never more than what did both.
		worst = max(worst, ended-before-limit)
		before += s.cost
	}
	return worst
}

// unexplained returns a denial of a key without refill that less than the limit can explain, or nil.
func unexplained(key *history.Key, calls []history.Call) *history.Call {
	// used[i] is the most that the first i calls can have charged.
	used := make([]int64, len(calls)+1)
	for i := range calls {
		c := &calls[i]
		used[i+1] = used[i]
		if c.Kind != history.Limit || c.Cost <= 0 {
			continue
		}
		if c.Outcome == history.Admitted || c.Outcome == history.Unknown {
			used[i+1] += int64(c.Cost)
		}
		if c.Local {
			// The leader may have got it, too, and answered too late.
			used[i+1] += int64(c.Cost)
		}
	}
	for i := range calls {
		d := &calls[i]
		if d.Outcome != history.Denied || d.Local {
			continue
		}
		begun := sort.Search(len(calls), func(j int) bool { return calls[j].Start >= d.End })
		if used[begun]+int64(d.Cost) <= int64(key.Limit)+int64(key.Extra) {
			return d
		}
	}
	return nil
}
