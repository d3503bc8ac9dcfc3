package oracle

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/faults/history"
)

const ms = int64(time.Millisecond)

// fixedKey is a key whose units do not come back within a test's history.
func fixedKey(limit int32) history.Key {
	return history.Key{Name: "k", Algorithm: history.Fixed, Limit: limit, Period: time.Hour}
}

func one(key history.Key, calls ...history.Call) *history.History {
	for i := range calls {
		if calls[i].Limit == 0 {
			calls[i].Limit = key.Limit
		}
	}
	return &history.History{Keys: []history.Key{key}, Calls: calls, Length: time.Minute}
}

// call is a charge of 1 that began and ended at the given ms.
func call(start, end int64, o history.Outcome, remaining int32) history.Call {
	return history.Call{Due: start * ms, Start: start * ms, End: end * ms, Cost: 1, Outcome: o, Remaining: remaining}
}

func budgets(h *history.History) Finding {
	f, _ := Budgets(h, None)
	return f
}

func linear(h *history.History) Finding { return Linear(h, "") }

func TestFixedWindow(t *testing.T) {
	a, d, u := history.Admitted, history.Denied, history.Unknown
	for name, c := range map[string]struct {
		calls           []history.Call
		budgets, linear bool
	}{
		"in order":                   {[]history.Call{call(0, 1, a, 1), call(2, 3, a, 0), call(4, 5, d, 0)}, true, true},
		"concurrent, other order":    {[]history.Call{call(0, 9, a, 0), call(1, 8, a, 1)}, true, true},
		"one too many":               {[]history.Call{call(0, 1, a, 1), call(2, 3, a, 0), call(4, 5, a, 0)}, false, false},
		"the budget twice":           {[]history.Call{call(0, 1, a, 1), call(2, 3, a, 0), call(4, 5, a, 1), call(6, 7, a, 0)}, false, false},
		"a lost answer":              {[]history.Call{call(0, 1, a, 1), call(2, 3, a, 1)}, true, false},
		"an unanswered call counted": {[]history.Call{call(0, 1, u, 0), call(2, 3, a, 0), call(4, 5, d, 0)}, true, true},
		"an unanswered call did not": {[]history.Call{call(0, 1, u, 0), call(2, 3, a, 1), call(4, 5, a, 0)}, true, true},
		"it counted late":            {[]history.Call{call(0, 1, u, 0), call(2, 3, a, 1), call(4, 5, d, 0)}, true, true},
		"denied without reason":      {[]history.Call{call(0, 1, a, 1), call(2, 3, d, 0)}, false, false},
		"refused is not executed":    {[]history.Call{call(0, 1, history.Refused, 0), call(2, 3, d, 0)}, false, false},
		"admitted before its time":   {[]history.Call{call(0, 1, a, 0), call(2, 3, a, 1)}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := one(fixedKey(2), c.calls...)
			require.Equal(t, c.budgets, budgets(h).OK, budgets(h))
			require.Equal(t, c.linear, linear(h).OK, linear(h))
		})
	}
}

func TestRefundsResetsAndLimits(t *testing.T) {
	key := fixedKey(10)
	key.Free = true
	with := func(c history.Call, kind history.Kind, cost, limit int32) history.Call {
		c.Kind, c.Cost, c.Limit = kind, cost, limit
		return c
	}
	a, d := history.Admitted, history.Denied
	f := func(ok bool, calls ...history.Call) {
		t.Helper()
		require.Equal(t, ok, linear(one(key, calls...)).OK)
	}
	charge := with(call(0, 1, a, 2), history.Limit, 8, 10)
	f(true, charge, with(call(2, 3, a, 5), history.Limit, -3, 10), with(call(4, 5, a, 0), history.Limit, 5, 10))
	f(true, charge, with(call(2, 3, a, 10), history.Limit, -30, 10), with(call(4, 5, a, 10), history.Limit, 0, 10))
	f(false, charge, with(call(2, 3, a, 5), history.Limit, -3, 10), with(call(4, 5, a, 2), history.Limit, 0, 10))
	f(true, charge, with(call(2, 3, a, 0), history.Reset, 0, 10), with(call(4, 5, a, 0), history.Limit, 10, 10))
	f(false, charge, with(call(2, 3, a, 0), history.Reset, 0, 10), with(call(4, 5, a, 2), history.Limit, 0, 10))
	f(true, charge, with(call(2, 3, d, 0), history.Limit, 1, 5), with(call(4, 5, a, 1), history.Limit, 1, 10))
	f(false, charge, with(call(2, 3, a, 4), history.Limit, 1, 5))
	// A reset without an answer may come at any time, once.
	open := with(call(2, 3, history.Unknown, 0), history.Reset, 0, 10)
	f(true, charge, open, with(call(4, 5, a, 2), history.Limit, 0, 10), with(call(6, 7, a, 10), history.Limit, 0, 10))
	f(false, charge, open, with(call(4, 5, a, 10), history.Limit, 0, 10), charge, with(call(6, 7, a, 10), history.Limit, 0, 10))
}

// Many unanswered calls on one key must not make the search take for ever.
func TestLinearWithManyUnanswered(t *testing.T) {
	var calls []history.Call
	for i := range int64(80) {
		calls = append(calls, call(i, i+1, history.Unknown, 0))
	}
	used := int32(0)
	for i := range int64(80) {
		used++
		if i%3 == 0 {
			used++ // one of the unanswered
		}
		calls = append(calls, call(300+2*i, 301+2*i, history.Admitted, 1000-used))
	}
	require.True(t, linear(one(fixedKey(1000), calls...)).OK)
	calls[159].Remaining = 0 // no number of unanswered calls explains that
	f := linear(one(fixedKey(1000), calls...))
	require.False(t, f.OK)
	require.NotContains(t, f.String(), "undecided")
}

func TestLinearDrawsFailures(t *testing.T) {
	dir := t.TempDir()
	require.False(t, Linear(one(fixedKey(1), call(0, 1, history.Admitted, 0), call(2, 3, history.Admitted, 0)), dir).OK)
	_, err := os.Stat(filepath.Join(dir, "linear-1.html"))
	require.NoError(t, err)
}

func TestTokenBucket(t *testing.T) {
	key := history.Key{Name: "k", Algorithm: history.Token, Limit: 10, Period: 10 * time.Second} // a unit per second
	var calls []history.Call
	for range 10 {
		calls = append(calls, call(0, 1, history.Admitted, 0))
	}
	for i := int64(1); i <= 20; i++ {
		calls = append(calls, call(1000*i, 1000*i+1, history.Admitted, 0))
	}
	require.True(t, budgets(one(key, calls...)).OK)
	early := call(20_500, 20_501, history.Admitted, 0)
	require.False(t, budgets(one(key, append(calls, early)...)).OK)
	early.End = 21_000 * ms
	require.True(t, budgets(one(key, append(calls, early)...)).OK, "it may have been decided at the end of the call")
	early.Cost, early.End = 2, 21_900*ms
	_, sum := Budgets(one(key, append(calls, early)...), None)
	require.EqualValues(t, 1, sum.Units)

	// A long call met a full bucket, but was decided after the call for all units that followed it.
	long, all := call(0, 2000, history.Admitted, 0), call(20, 120, history.Admitted, 0)
	all.Cost = 10
	require.True(t, budgets(one(key, long, all)).OK)
	long.End = 900 * ms
	require.False(t, budgets(one(key, long, all)).OK)
}

// A bucket that decides at random times within the calls is never accused.
func TestTokenBucketProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		limit := rapid.Int32Range(1, 20).Draw(rt, "limit")
		period := rapid.Int64Range(1, 5000).Draw(rt, "period") * ms
		interval := period / int64(limit)
		key := history.Key{Name: "k", Algorithm: history.Token, Limit: limit, Period: time.Duration(period)}
		var calls []history.Call
		tat, now := int64(0), int64(0)
		for range 300 {
			now += rnd.Int64N(2 * interval)
			cost := 1 + rnd.Int64N(2)
			if next := max(tat, now) + cost*interval; next-now <= interval*int64(limit) {
				tat = next
				calls = append(calls, history.Call{
					Start: now - rnd.Int64N(5*interval+1), End: now + rnd.Int64N(5*interval+1),
					Cost: int32(cost), Limit: limit, Outcome: history.Admitted,
				})
			}
		}
		r := &history.Recorder{}
		for _, c := range calls {
			c.Start += 10 * period // none is negative
			c.End += 10 * period
			r.Add(c)
		}
		h := one(key)
		h.Merge(r)
		require.True(rt, budgets(h).OK, budgets(h))
	})
}

func TestTrailingWindow(t *testing.T) {
	key := history.Key{Name: "k", Algorithm: history.Log, Limit: 2, Period: time.Second}
	a := history.Admitted
	require.True(t, budgets(one(key, call(0, 1, a, 1), call(900, 901, a, 0), call(1002, 1003, a, 0))).OK)
	require.False(t, budgets(one(key, call(0, 1, a, 1), call(900, 901, a, 0), call(990, 991, a, 0))).OK)
	require.True(t, budgets(one(key, call(0, 1, a, 1), call(900, 901, a, 0), call(990, 1200, a, 0))).OK)
	// Windows of the fixed kind may touch.
	key.Algorithm = history.Fixed
	require.True(t, budgets(one(key, call(0, 1, a, 1), call(900, 901, a, 0), call(990, 991, a, 1), call(992, 993, a, 0))).OK)
	require.False(t, budgets(one(key, call(0, 1, a, 1), call(1, 2, a, 0), call(2, 3, a, 1), call(3, 4, a, 0), call(5, 6, a, 1))).OK)
}

func TestAsyncBound(t *testing.T) {
	a := history.Admitted
	// Five units a second are offered; the leader dies at 1 s, and its last 250 ms are lost.
	var calls []history.Call
	for i := range int64(10) {
		calls = append(calls, call(200*i, 200*i+1, a, 0))
	}
	h := one(fixedKey(8), calls...)
	loss := func(ls ...Loss) bool {
		f, _ := Budgets(h, AsyncBound(ls, 250*time.Millisecond, func(uint32) int { return 0 }))
		return f.OK
	}
	require.False(t, loss(), "10 admitted of 8")
	require.False(t, loss(Loss{From: 950 * ms, To: 990 * ms}), "nothing was under way")
	require.True(t, loss(Loss{From: 750 * ms, To: 1000 * ms}))
	h.Calls = append(h.Calls, call(1900, 1901, a, 0))
	require.False(t, loss(Loss{From: 750 * ms, To: 1000 * ms}), "one more than was offered")
	require.True(t, loss(Loss{From: 750 * ms, To: 1000 * ms}, Loss{From: 1750 * ms, To: 2000 * ms}), "two leaders lost")
	require.True(t, loss(Loss{From: 750 * ms, To: 1000 * ms}, Loss{From: 1750 * ms, To: 2000 * ms, Group: AnyGroup}))
	require.False(t, loss(Loss{From: 750 * ms, To: 1000 * ms}, Loss{From: 1750 * ms, To: 2000 * ms, Group: 3}), "not the key's leader")
}

// A leader that goes on after a pause may not decide what has waited meanwhile.
func TestAsyncBoundOfAPause(t *testing.T) {
	var calls []history.Call
	for i := range int64(10) {
		calls = append(calls, call(1000+200*i, 4000, history.Admitted, 0))
	}
	h := one(fixedKey(8), calls...)
	f, extra := Budgets(h, AsyncBound([]Loss{{From: 750 * ms, To: 1000 * ms}, {From: 4000 * ms, To: 4250 * ms, Resumed: true}}, 250*time.Millisecond, func(uint32) int { return 0 }))
	require.False(t, f.OK, f)
	require.EqualValues(t, 2, extra.Units)
	require.EqualValues(t, 1, extra.Bound)
}

// A node that has had no time for its clients passes on all that has waited, and the leader decides it within an interval.
func TestAsyncBoundOfWhatHasWaited(t *testing.T) {
	var calls []history.Call
	for i := range int64(10) {
		calls = append(calls, call(1000+10*i, 1900, history.Admitted, 0))
	}
	for i := range int64(10) {
		calls = append(calls, call(3000+10*i, 3001+10*i, history.Admitted, 0))
	}
	h := one(fixedKey(11), calls...)
	extra := func(l Loss) int64 {
		f, extra := Budgets(h, AsyncBound([]Loss{l}, 250*time.Millisecond, func(uint32) int { return 0 }))
		require.Equal(t, extra.Bound >= extra.Units, f.OK, f)
		require.EqualValues(t, 9, extra.Units)
		return extra.Bound
	}
	require.EqualValues(t, 10, extra(Loss{From: 1750 * ms, To: 2000 * ms}))
	require.Zero(t, extra(Loss{From: 1950 * ms, To: 2200 * ms}), "they had been answered")
	require.Zero(t, extra(Loss{From: 1750 * ms, To: 2000 * ms, Resumed: true}))
}

func TestSlots(t *testing.T) {
	key := history.Key{Name: "k", Algorithm: history.Slots, Limit: 1, Period: 10 * time.Second}
	get := func(start, end int64, id uint32) history.Call {
		c := call(start, end, history.Admitted, 0)
		c.Kind, c.Other = history.Acquire, id
		return c
	}
	give := func(start, end int64, id uint32) history.Call {
		c := get(start, end, id)
		c.Kind = history.Release
		return c
	}
	f := func(ok bool, calls ...history.Call) {
		t.Helper()
		require.Equal(t, ok, Slots(one(key, calls...), None).OK)
	}
	f(true, get(0, 1, 1), give(5, 6, 1), get(5, 7, 2))
	f(false, get(0, 1, 1), get(2, 3, 2), give(5, 6, 1))
	f(true, get(0, 1, 1), get(10_001, 10_002, 2))
	f(false, get(0, 1, 1), get(9_000, 9_001, 2))
}

func TestPromptness(t *testing.T) {
	h := one(fixedKey(9), call(0, 1, history.Admitted, 8), call(2, 30, history.Admitted, 7), call(40, 41, history.Refused, 0), call(50, 51, history.Denied, 0))
	f, share := Promptness(h, nil, 20*time.Millisecond, .9)
	require.False(t, f.OK)
	require.InDelta(t, .5, share, 1e-9)
	f, share = Promptness(h, []Outage{{Node: 0, From: 20 * ms, To: 45 * ms}}, 20*time.Millisecond, .9)
	require.True(t, f.OK)
	require.InDelta(t, 1, share, 1e-9)
	h.Calls[1].Late = 9 * ms
	_, share = Promptness(h, nil, 20*time.Millisecond, .9)
	require.InDelta(t, .75, share, 1e-9, "the load was late, not the node")
}

// What a node decided by its failure policy, its leader may have got as well: that explains a denial.
func TestLateLeaderExplainsDenials(t *testing.T) {
	decided := call(0, 1, history.Admitted, 1)
	denied := call(2, 3, history.Denied, 0)
	require.False(t, budgets(one(fixedKey(2), decided, denied)).OK)
	decided.Local = true
	require.True(t, budgets(one(fixedKey(2), decided, denied)).OK)
}

// DEBT and WAIT let a limit be exceeded by what they say, and by no more.
func TestOptionsThatExceedTheLimit(t *testing.T) {
	a := history.Admitted
	key := fixedKey(2)
	key.Option, key.Extra = history.Debt, 1
	within := []history.Call{call(0, 1, a, 1), call(2, 3, a, 0), call(4, 5, a, 0)}
	require.True(t, budgets(one(key, within...)).OK)
	require.True(t, linear(one(key, within...)).OK)
	beyond := append(within, call(6, 7, a, 0))
	require.False(t, budgets(one(key, beyond...)).OK)
	require.False(t, linear(one(key, beyond...)).OK)
	require.False(t, budgets(one(key, call(0, 1, a, 1), call(2, 3, a, 0), call(4, 5, history.Denied, 0))).OK, "debt was left")

	for _, algorithm := range []history.Algorithm{history.Token, history.Leaky} {
		key = history.Key{Name: "k", Algorithm: algorithm, Limit: 2, Period: 2 * time.Second, Option: history.Wait, Extra: 1}
		require.True(t, budgets(one(key, within...)).OK)
		require.False(t, budgets(one(key, beyond...)).OK)
	}
}

// Two windows that touch may both be used up, of sliding ones less; within one the limit holds.
func TestSliding(t *testing.T) {
	a := history.Admitted
	key := history.Key{Name: "k", Algorithm: history.Sliding, Limit: 2, Period: time.Second}
	calls := []history.Call{call(0, 1, a, 1), call(1, 2, a, 0), call(2, 3, a, 1), call(3, 4, a, 0), call(5, 6, a, 1)}
	require.True(t, budgets(one(key, calls[:4]...)).OK)
	require.False(t, budgets(one(key, calls...)).OK)
	key.Period = 24 * time.Hour
	require.False(t, budgets(one(key, calls[:3]...)).OK)
	key.Unjudged = true
	require.True(t, budgets(one(key, calls...)).OK)
	require.True(t, linear(one(key, calls...)).OK)
}

// The search of Linear finds what porcupine finds.
func TestLinearIsPorcupine(t *testing.T) {
	verdicts := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		key := fixedKey(5)
		now, calls := int64(0), []history.Call(nil)
		used := int32(0)
		for range rapid.IntRange(1, 14).Draw(t, "calls") {
			now += rapid.Int64Range(0, 4).Draw(t, "pause")
			c := call(now, now+rapid.Int64Range(0, 12).Draw(t, "takes"), history.Admitted, 0)
			c.Limit = key.Limit
			c.Cost = rapid.Int32Range(-1, 3).Draw(t, "cost")
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				c.Kind, c.Cost, c.Limit = history.Reset, 0, 0
			}
			switch {
			case c.Kind == history.Reset:
				used = 0
			case c.Cost <= 0:
				used = max(0, used+c.Cost)
			case used+c.Cost <= key.Limit:
				used += c.Cost
			default:
				c.Outcome = history.Denied
			}
			c.Remaining = max(0, key.Limit-used+rapid.SampledFrom([]int32{0, 0, 0, 0, 0, 0, 0, 1, -1}).Draw(t, "wrong"))
			if rapid.IntRange(0, 4).Draw(t, "answered") == 0 {
				c.Outcome = history.Unknown
				if rapid.Bool().Draw(t, "lost") && c.Kind != history.Reset && c.Cost > 0 {
					used = max(0, used-c.Cost)
				}
			}
			calls = append(calls, c)
		}
		ops := operations(&key, calls)
		ordered, checked := explain(ops, maxOrders)
		if !checked {
			t.Fatal("not checked")
		}
		if porcupine.CheckOperations(counterModel, ops) != ordered {
			t.Fatalf("porcupine does not find that it is %v", ordered)
		}
		verdicts[ordered]++
	})
	least := 10
	if testing.Short() { // a fifth of the histories
		least = 1
	}
	require.GreaterOrEqual(t, verdicts[true], least)
	require.GreaterOrEqual(t, verdicts[false], least)
}

// What takes too many orders is said, and fails the check if it is much.
func TestLinearIsBounded(t *testing.T) {
	var calls []history.Call
	for i := range 200 { // all open at once, of different costs
		c := call(0, 1000, history.Unknown, 0)
		c.Cost = int32(1 + i%4)
		calls = append(calls, c)
	}
	calls = append(calls, call(2000, 2001, history.Admitted, 1))
	h := one(fixedKey(100_000), calls...)
	f := linearWithin(h, "", 1000)
	require.False(t, f.OK)
	require.Contains(t, f.Text, "NOT CHECKED: 201 calls on 1 keys")
	h.Keys = append(h.Keys, fixedKey(1<<30))
	for i := range 30_000 {
		c := call(int64(i), int64(i), history.Admitted, int32(1<<30-i-1))
		c.Key, c.Limit = 1, 1<<30
		h.Calls = append(h.Calls, c)
	}
	f = linearWithin(h, "", 1000)
	require.True(t, f.OK, f.Details)
	require.Contains(t, f.Text, "NOT CHECKED: 201 calls on 1 keys")
}

// Denials that are open together have one order, however many calls have no answer.
func TestLinearWithManyDenials(t *testing.T) {
	var calls []history.Call
	for i := range 40 {
		calls = append(calls, call(int64(i), 0, history.Unknown, 0))
	}
	for i := range 20 {
		calls = append(calls, call(int64(100+i), int64(101+i), history.Admitted, int32(19-i)))
	}
	for i := range 2000 {
		at := int64(1000 + i)
		calls = append(calls, call(at, at+30, history.Denied, 0))
	}
	f := linear(one(fixedKey(60), calls...))
	require.True(t, f.OK, f.Details)
	require.NotContains(t, f.Text, "NOT CHECKED")
}
