package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/headgate-io/headgate/faults/history"
)

// CheckRules are what policies are held to in a run.
type CheckRules struct {
	// Durable reports whether what a caller was answered may not be lost.
	Durable func(*history.Caller) bool
	// Bound is what lost leaders may cost of changes that are not durable, in units of a
	// counter.
	Bound func(key uint32, calls []history.Call) int64
	// Back is how far the clock of the limits may go back, ns: what a window has is
	// there for so much longer.
	Back int64
}

// Counter is one counter of a policy: of a limit, by its place, and of a value that the
// limit counts by.
type Counter struct {
	Policy string
	Limit  int
	Value  string
}

// counted is what there was of a counter.
type counted struct {
	Counter
	policy *history.Policy
	limit  history.PolicyLimit
	calls  []history.Call // by Start; Limit is the most that the counter may have had room for then
	sums   sums
}

// Counters checks the counters of policies: each holds what calls that were admitted
// have cost, and nothing of calls that were denied. used is what static ones hold in
// the end, or nil.
//
//   - No more is admitted than the largest amount that was in force allows, but for
//     what lost leaders may cost.
//   - A call is denied only if others explain it; what an answer says is left is no
//     less than what all calls can have taken, and no more than what those have left
//     whose charges are durable.
//   - The same holds of what is used in the end.
//
// A change that resets splits a counter's time in two.
func Counters(h *history.History, rules CheckRules, used map[Counter]int64) Finding {
	f := Finding{Check: "policies", OK: true}
	made := newEdits(h)
	made.slack = untilSlack + rules.Back
	var units, allowed int64
	checks, looked := 0, 0
	for _, k := range countersOf(h, made) {
		extra, most := k.excess(h, made.resets[k.Policy]), int64(0)
		if slices.ContainsFunc(k.calls, func(c history.Call) bool { return !rules.Durable(h.Keys[c.Key].Caller) }) {
			most = rules.Bound(0, k.calls)
		}
		units, allowed, checks = units+extra, allowed+most, checks+len(k.calls)
		if extra > most {
			f.violate("%v: at least %d units too many were admitted (allowed: %d)", k.Counter, extra, most)
		}
		k.sums = sumsOf(h, k.calls, rules.Durable)
		for i := range k.calls {
			if c := &k.calls[i]; c.Decided() && int(c.Binding) == k.Limit+1 {
				k.explain(&f, h, c, made.resets[k.Policy], rules.Back)
			}
		}
		if n, ok := used[k.Counter]; ok {
			looked++
			least, most := k.inTheEnd(made.resets[k.Policy])
			if n < least || n > most {
				f.violate("%v holds %d in the end, and calls explain %d to %d", k.Counter, n, least, most)
			}
		}
	}
	f.Text = fmt.Sprintf("%d charges of counters: %d units beyond the limits (bound %d); %d counters read in the end", checks, units, allowed, looked)
	return f
}

// countersOf returns the counters of a history, with their calls.
func countersOf(h *history.History, made *edits) []*counted {
	policies := make(map[string]*history.Policy)
	for i := range h.Policies {
		policies[h.Policies[i].Name] = &h.Policies[i]
	}
	all := make(map[Counter]*counted)
	var out []*counted
	for i := range h.Calls {
		c := h.Calls[i]
		if c.Kind != history.Check || c.Outcome == history.Refused {
			continue
		}
		who := h.Keys[c.Key].Caller
		p := policies[who.Policy]
		for j, l := range p.Limits {
			id := Counter{who.Policy, j, who.Of(l.By)}
			k := all[id]
			if k == nil {
				k = &counted{Counter: id, policy: p, limit: l}
				all[id] = k
				out = append(out, k)
			}
			of := c
			if e := made.version(who.Policy, uint64(c.Version)); e != nil && c.Decided() && int(c.Binding) != j+1 {
				of.Limit = slices.Max(made.amounts(e, who, j, &c))
			}
			k.calls = append(k.calls, of)
		}
	}
	return out
}

// static reports whether nothing comes back within the run by itself.
func (k *counted) static(h *history.History) bool {
	key := history.Key{Algorithm: k.limit.Algorithm, Limit: 1000, Period: k.limit.Period}
	return key.Static(h.Length)
}

// excess is the least number of units admitted beyond the limit, between resets.
func (k *counted) excess(h *history.History, resets []*history.Edit) (extra int64) {
	segments := make(map[int][]history.Call)
	for _, c := range k.calls {
		if c.Outcome != history.Admitted || c.Cost <= 0 {
			continue
		}
		at, whole := 0, true
		for _, r := range resets {
			if r.Outcome == history.Unknown {
				whole = whole && r.Start >= c.End
				continue
			}
			if r.End <= c.Start {
				at++
			} else if r.Start < c.End {
				whole = false
			}
		}
		if whole {
			c.Kind = history.Limit
			segments[at] = append(segments[at], c)
		}
	}
	for _, calls := range segments {
		extra += k.beyond(h, calls)
	}
	return extra
}

// beyond is excess of calls between which nothing was reset.
func (k *counted) beyond(h *history.History, calls []history.Call) (worst int64) {
	most := int64(slices.MaxFunc(calls, func(a, b history.Call) int { return cmp.Compare(a.Limit, b.Limit) }).Limit)
	if !k.static(h) {
		if k.limit.Algorithm != history.Log {
			most *= 2
		}
		return trailingExcess(most, int64(k.limit.Period), calls)
	}
	// Of all calls that had room for so much at most, the last one has found the others.
	slices.SortFunc(calls, func(a, b history.Call) int { return cmp.Compare(a.Limit, b.Limit) })
	sum := int64(0)
	for i := range calls {
		sum += int64(calls[i].Cost)
		if i+1 == len(calls) || calls[i+1].Limit > calls[i].Limit {
			worst = max(worst, sum-int64(calls[i].Limit))
		}
	}
	return worst
}

// explain checks what an answer says of the limit that stands for it.
func (k *counted) explain(f *Finding, h *history.History, c *history.Call, resets []*history.Edit, back int64) {
	from, after, certain := reset(resets, c)
	if !k.static(h) {
		if k.limit.Algorithm != history.Log {
			return
		}
		from = max(from, c.Start-int64(k.limit.Period)-int64(k.limit.Period)/clockSlack-back)
	}
	own := int64(0)
	if c.Outcome == history.Admitted {
		own = int64(c.Cost)
	}
	most := k.sums.possible(from, c.End) // itself, if it was admitted
	left := int64(c.Remaining)
	if c.Outcome == history.Denied && most+int64(c.Cost) <= int64(c.Limit) {
		f.violate("%v: denied at %.3f s with %d of %d left, but all calls so far have taken %d", k.Counter, seconds(c.Start), left, c.Limit, most)
	}
	if taken := int64(c.Limit) - left; left > 0 && taken > most+rounding(k.limit) {
		f.violate("%v: at %.3f s %d of %d were left, but all calls so far have taken %d", k.Counter, seconds(c.Start), left, c.Limit, most)
	}
	if least := k.sums.certain(after, c.Start) + own; certain && k.static(h) && left > max(0, int64(c.Limit)-least) {
		f.violate("%v: at %.3f s %d of %d were left, when %d had been acknowledged", k.Counter, seconds(c.Start), left, c.Limit, least)
	}
}

// rounding is how many units a counter may hold more than was charged, by rounding.
func rounding(l history.PolicyLimit) int64 {
	if l.Algorithm == history.Fixed || l.Algorithm == history.Log {
		return 0
	}
	return 1
}

// reset finds the last reset that was made before a call. Calls that ended before from
// are forgotten, and no call that began after after is. certain is false if a reset may
// have been made meanwhile.
func reset(resets []*history.Edit, c *history.Call) (from, after int64, certain bool) {
	certain = true
	for _, r := range resets {
		switch {
		case r.Outcome == history.Unknown && r.Start < c.End:
			certain = false
		case r.Outcome == history.Unknown:
		case r.End <= c.Start:
			from, after = max(from, r.Start), max(after, r.End)
		case r.Start < c.End:
			certain = false
		}
	}
	return from, after, certain
}

// inTheEnd is what the counter may hold when all is over.
func (k *counted) inTheEnd(resets []*history.Edit) (least, most int64) {
	from, after, certain := reset(resets, &history.Call{Start: math.MaxInt64, End: math.MaxInt64})
	if certain {
		least = k.sums.certain(after, math.MaxInt64)
	}
	return least, k.sums.possible(from, math.MaxInt64) + rounding(k.limit)
}

// sums add up the calls of a counter.
type sums struct {
	starts, ends, unknown steps // of admitted calls, and of those without an answer, by start
	from, to              steps // of admitted calls whose charges are durable, by start and end
}

// steps are costs by time, with their sums.
type steps struct {
	at  []int64
	sum []int64 // up to and including
}

func stepsOf(calls []history.Call, at func(*history.Call) int64, of func(*history.Call) bool) (s steps) {
	type step struct{ at, cost int64 }
	var all []step
	for i := range calls {
		if c := &calls[i]; c.Cost > 0 && of(c) {
			all = append(all, step{at(c), int64(c.Cost)})
		}
	}
	slices.SortFunc(all, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	sum := int64(0)
	for _, p := range all {
		sum += p.cost
		s.at, s.sum = append(s.at, p.at), append(s.sum, sum)
	}
	return s
}

// before is the sum of all amounts before a time.
func (s *steps) before(t int64) int64 {
	i := sort.Search(len(s.at), func(i int) bool { return s.at[i] >= t })
	if i == 0 {
		return 0
	}
	return s.sum[i-1]
}

func sumsOf(h *history.History, calls []history.Call, durable func(*history.Caller) bool) sums {
	start := func(c *history.Call) int64 { return c.Start }
	end := func(c *history.Call) int64 { return c.End }
	admitted := func(c *history.Call) bool { return c.Outcome == history.Admitted }
	lasting := func(c *history.Call) bool { return admitted(c) && durable(h.Keys[c.Key].Caller) }
	return sums{
		starts: stepsOf(calls, start, admitted), ends: stepsOf(calls, end, admitted),
		unknown: stepsOf(calls, start, func(c *history.Call) bool { return c.Outcome == history.Unknown }),
		from:    stepsOf(calls, start, lasting), to: stepsOf(calls, end, lasting),
	}
}

// possible is the most that calls can have charged that ended after from and began
// before to.
func (s *sums) possible(from, to int64) int64 {
	return s.starts.before(to) - min(s.starts.before(to), s.ends.before(from)) + s.unknown.before(to)
}

// certain is the least that calls have charged, for good, that began after after and
// ended before to.
func (s *sums) certain(after, to int64) int64 {
	return max(0, s.to.before(to)-s.from.before(after))
}

// LinearChecks is Linear for policies of one limit whose every answer is durable:
// what they answer, changes that reset included, is explained by one order.
func LinearChecks(h *history.History, dir string) Finding {
	made := newEdits(h)
	of := &history.History{Length: h.Length}
	for _, k := range countersOf(h, made) {
		if !k.policy.Sync || len(k.policy.Limits) != 1 {
			continue
		}
		id := uint32(len(of.Keys))
		of.Keys = append(of.Keys, history.Key{
			Name: fmt.Sprint(k.Counter), Algorithm: k.limit.Algorithm, Limit: k.calls[0].Limit, Period: k.limit.Period, Free: true,
		})
		for _, c := range k.calls {
			c.Key, c.Kind = id, history.Limit
			of.Calls = append(of.Calls, c)
		}
		for _, r := range made.resets[k.Policy] {
			if r.Outcome == history.Admitted && r.End < k.calls[0].Start {
				continue
			}
			of.Calls = append(of.Calls, history.Call{Key: id, Kind: history.Reset, Start: r.Start, End: r.End, Outcome: r.Outcome})
		}
	}
	slices.SortStableFunc(of.Calls, func(a, b history.Call) int { return cmp.Compare(a.Start, b.Start) })
	f := Linear(of, dir)
	f.Check = "linear checks"
	return f
}
