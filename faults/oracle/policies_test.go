package oracle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
)

// edited is a history of two policies: solo, of one limit, whose answers are durable,
// and duo, whose second limit all callers share. Their versions are made by edits.
func edited(es ...history.Edit) *history.History {
	user := history.PolicyLimit{Name: "user", By: "user", Algorithm: history.Fixed, Period: 24 * time.Hour}
	return &history.History{
		Policies: []history.Policy{
			{Name: "solo", Sync: true, Limits: []history.PolicyLimit{user}},
			{Name: "duo", Limits: []history.PolicyLimit{user, {Name: "all", Algorithm: history.Log, Period: time.Second}}},
		},
		Keys: []history.Key{
			{Name: "solo/eve", Unjudged: true, Caller: &history.Caller{Policy: "solo", User: "eve"}},
			{Name: "duo/eve", Unjudged: true, Caller: &history.Caller{Policy: "duo", User: "eve"}},
			{Name: "duo/bob", Unjudged: true, Caller: &history.Caller{Policy: "duo", User: "bob", Option: "SYNC"}},
		},
		Edits: es, Length: time.Minute,
	}
}

const solo, duo, duoSync = 0, 1, 2 // keys of edited

// version is an acknowledged edit that made a version, within the given ms.
func version(start, end int64, policy string, v uint64, amounts ...int32) history.Edit {
	return history.Edit{
		Policy: policy, Start: start * ms, End: end * ms, Outcome: history.Admitted, Acknowledged: true,
		Base: v - 1, Version: v, Text: fmt.Sprint("text ", v), Amounts: amounts,
	}
}

func override(start, end int64, policy, user string, amount int32) history.Edit {
	return history.Edit{
		Kind: history.SetOverride, Policy: policy, User: user, Start: start * ms, End: end * ms, Outcome: history.Admitted, Acknowledged: true,
		Amounts: []int32{amount},
	}
}

// check is a check that costs 1.
func check(start, end int64, key uint32, o history.Outcome, v uint32, binding uint8, limit, remaining int32) history.Call {
	return history.Call{
		Kind: history.Check, Key: key, Due: start * ms, Start: start * ms, End: end * ms, Cost: 1, Outcome: o,
		Version: v, Binding: binding, Limit: limit, Remaining: remaining,
	}
}

func unanswered(start, end int64, key uint32) history.Call {
	return check(start, end, key, history.Unknown, 0, 0, 1000, 0)
}

func sight(v uint64, text string) history.Sight {
	return history.Sight{Policy: "solo", Version: v, Text: text}
}

func TestVersions(t *testing.T) {
	a := history.Admitted
	v1, v2, v3 := version(0, 1, "solo", 1, 5), version(10, 20, "solo", 2, 9), version(30, 40, "solo", 3, 7)
	with := func(e history.Edit, change func(*history.Edit)) history.Edit {
		change(&e)
		return e
	}
	resolved := with(v2, func(e *history.Edit) { e.Acknowledged = false })
	refused := history.Edit{Policy: "solo", Start: 21 * ms, End: 22 * ms, Outcome: history.Refused, Base: 2, Text: "refused", Amounts: []int32{8}}
	all := []history.Sight{sight(3, "text 3"), sight(2, "text 2"), sight(1, "text 1")}
	until := with(override(2, 3, "solo", "eve", 2), func(e *history.Edit) { e.Until = 1000 * ms })
	ended := with(override(4, 5, "solo", "eve", 2), func(e *history.Edit) { e.Kind = history.DeleteOverride })
	open := with(override(4, 5, "solo", "eve", 3), func(e *history.Edit) { e.Outcome = history.Unknown })
	for name, c := range map[string]struct {
		ok    bool
		edits []history.Edit
		calls []history.Call
		kept  []history.Sight
		seen  []history.Sight
	}{
		"in order":                          {true, []history.Edit{v1, v2, refused, v3}, nil, all, all[1:]},
		"found out later":                   {true, []history.Edit{v1, resolved, v3}, nil, all, nil},
		"a version is made twice":           {false, []history.Edit{v1, v2, with(v3, func(e *history.Edit) { e.Base, e.Version = 1, 2 })}, nil, nil, nil},
		"an acknowledged one is not known":  {false, []history.Edit{v1, v3}, nil, nil, nil},
		"a version for another":             {false, []history.Edit{v1, v2, with(v3, func(e *history.Edit) { e.Base = 1 })}, nil, nil, nil},
		"numbers go back":                   {false, []history.Edit{v1, with(v3, func(e *history.Edit) { e.Start, e.End = 2*ms, 3*ms }), v2}, nil, nil, nil},
		"HISTORY lacks one":                 {false, []history.Edit{v1, v2, v3}, nil, all[:2], nil},
		"HISTORY has one twice":             {false, []history.Edit{v1, v2, v3}, nil, []history.Sight{all[0], all[1], all[1]}, nil},
		"HISTORY has one that was refused":  {false, []history.Edit{v1, v2, refused, v3}, nil, []history.Sight{sight(3, "refused"), all[1], all[2]}, nil},
		"HISTORY has one too many":          {false, []history.Edit{v1, v2}, nil, all, nil},
		"a refused text was read":           {false, []history.Edit{v1, v2, refused}, nil, nil, []history.Sight{sight(3, "refused")}},
		"a version has another text":        {false, []history.Edit{v1, v2}, nil, nil, []history.Sight{sight(1, "text 2")}},
		"an answer by either, meanwhile":    {true, []history.Edit{v1, v2}, []history.Call{check(12, 14, solo, a, 1, 1, 5, 4), check(13, 15, solo, a, 2, 1, 9, 7)}, nil, nil},
		"an answer by one that is replaced": {false, []history.Edit{v1, v2}, []history.Call{check(21, 22, solo, a, 1, 1, 5, 4)}, nil, nil},
		"an answer by one to come":          {false, []history.Edit{v1, v2}, []history.Call{check(8, 9, solo, a, 2, 1, 9, 8)}, nil, nil},
		"an answer by none":                 {false, []history.Edit{v1, v2}, []history.Call{check(25, 26, solo, a, 3, 1, 7, 6)}, nil, nil},
		"an answer with another's amount":   {false, []history.Edit{v1, v2}, []history.Call{check(25, 26, solo, a, 2, 1, 5, 4)}, nil, nil},
		"an override":                       {true, []history.Edit{v1, override(2, 3, "solo", "eve", 2)}, []history.Call{check(4, 5, solo, a, 1, 1, 2, 1)}, nil, nil},
		"an override, meanwhile":            {true, []history.Edit{v1, override(2, 9, "solo", "eve", 2)}, []history.Call{check(4, 5, solo, a, 1, 1, 5, 4), check(6, 7, solo, a, 1, 1, 2, 0)}, nil, nil},
		"an override is lost":               {false, []history.Edit{v1, override(2, 3, "solo", "eve", 2)}, []history.Call{check(4, 5, solo, a, 1, 1, 5, 4)}, nil, nil},
		"an override of another":            {false, []history.Edit{v1, override(2, 3, "solo", "bob", 2)}, []history.Call{check(4, 5, solo, a, 1, 1, 2, 1)}, nil, nil},
		"an override ends":                  {true, []history.Edit{v1, until}, []history.Call{check(4, 5, solo, a, 1, 1, 2, 1), check(2000, 2001, solo, a, 1, 1, 5, 3)}, nil, nil},
		"an override ends early":            {false, []history.Edit{v1, until}, []history.Call{check(4, 5, solo, a, 1, 1, 5, 4)}, nil, nil},
		"an override ends late":             {false, []history.Edit{v1, until}, []history.Call{check(2000, 2001, solo, a, 1, 1, 2, 0)}, nil, nil},
		"an override is ended":              {true, []history.Edit{v1, override(2, 3, "solo", "eve", 2), ended}, []history.Call{check(6, 7, solo, a, 1, 1, 5, 4)}, nil, nil},
		"an override comes back":            {false, []history.Edit{v1, override(2, 3, "solo", "eve", 2), ended}, []history.Call{check(6, 7, solo, a, 1, 1, 2, 1)}, nil, nil},
		"an override that may be there":     {true, []history.Edit{v1, open}, []history.Call{check(6, 7, solo, a, 1, 1, 5, 4), check(9, 10, solo, a, 1, 1, 3, 1)}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := edited(c.edits...)
			h.Calls, h.Kept, h.Seen = c.calls, c.kept, c.seen
			require.Equal(t, c.ok, Versions(h, 0).OK, Versions(h, 0))
		})
	}
}

// HISTORY has the last versions only.
func TestVersionsThatAreKept(t *testing.T) {
	var es []history.Edit
	var kept []history.Sight
	for v := range int64(30) {
		e := version(10*v, 10*v+1, "solo", uint64(v+1), 5)
		es, kept = append(es, e), append([]history.Sight{sight(e.Version, e.Text)}, kept...)
	}
	h := edited(es...)
	h.Kept = kept[:keptVersions]
	require.True(t, Versions(h, 0).OK, Versions(h, 0))
	h.Kept = kept
	require.False(t, Versions(h, 0).OK)
	h.Kept = kept[1 : keptVersions+1]
	require.False(t, Versions(h, 0).OK)
}

func TestCounters(t *testing.T) {
	a, d := history.Admitted, history.Denied
	v1, v2 := version(0, 1, "duo", 1, 2, 100), version(10, 20, "duo", 2, 3, 50)
	reset := v2
	reset.Resets, reset.Amounts = true, []int32{2, 50}
	lost := reset
	lost.Outcome, lost.Version = history.Unknown, 0
	two := []history.Call{check(2, 3, duo, a, 1, 1, 2, 1), check(4, 5, duo, a, 1, 1, 2, 0)}
	then := func(calls ...history.Call) []history.Call {
		return append(append([]history.Call(nil), two...), calls...)
	}
	holds := func(n int64) map[Counter]int64 { return map[Counter]int64{{"duo", 0, "eve"}: n} }
	for name, c := range map[string]struct {
		ok    bool
		edits []history.Edit
		calls []history.Call
		used  map[Counter]int64
	}{
		"used up":                          {true, []history.Edit{v1}, then(check(6, 7, duo, d, 1, 1, 2, 0)), holds(2)},
		"one too many":                     {false, []history.Edit{v1}, then(check(6, 7, duo, a, 1, 1, 2, 0)), nil},
		"a version has more":               {true, []history.Edit{v1, v2}, then(check(21, 22, duo, a, 2, 1, 3, 0)), holds(3)},
		"too many for the larger":          {false, []history.Edit{v1, v2}, then(check(21, 22, duo, a, 2, 1, 3, 0), check(23, 24, duo, a, 2, 1, 3, 0)), nil},
		"too many before the larger":       {false, []history.Edit{v1, v2}, then(check(6, 7, duo, a, 1, 1, 2, 0), check(21, 22, duo, d, 2, 1, 3, 0)), nil},
		"a reset":                          {true, []history.Edit{v1, reset}, then(check(21, 22, duo, a, 2, 1, 2, 1), check(23, 24, duo, a, 2, 1, 2, 0)), holds(2)},
		"a reset counts once":              {false, []history.Edit{v1, reset}, then(check(21, 22, duo, a, 2, 1, 2, 1), check(23, 24, duo, a, 2, 1, 2, 0), check(25, 26, duo, a, 2, 1, 2, 1)), nil},
		"a reset that did nothing":         {false, []history.Edit{v1, reset}, then(check(21, 22, duo, d, 2, 1, 2, 0)), nil},
		"what was reset is there":          {false, []history.Edit{v1, reset}, two, holds(2)},
		"a reset that may have been":       {true, []history.Edit{v1, lost}, two, holds(0)},
		"denied without reason":            {false, []history.Edit{v1}, []history.Call{two[0], check(6, 7, duo, d, 1, 1, 2, 1)}, nil},
		"an unanswered one explains it":    {true, []history.Edit{v1}, []history.Call{two[0], unanswered(4, 5, duo), check(6, 7, duo, d, 1, 1, 2, 0)}, holds(2)},
		"a denied one was charged, seen":   {false, []history.Edit{v1}, []history.Call{check(2, 3, duo, d, 1, 2, 100, 0), check(4, 5, duo, d, 1, 2, 100, 0), check(6, 7, duo, d, 1, 1, 2, 0)}, nil},
		"a denied one was charged, left":   {false, []history.Edit{version(0, 1, "duo", 1, 9, 100)}, []history.Call{check(2, 3, duo, a, 1, 1, 9, 8), check(6, 7, duo, a, 1, 1, 9, 6)}, nil},
		"a denied one was charged, at end": {false, []history.Edit{v1}, two[:1], holds(2)},
		"charged twice":                    {false, []history.Edit{v1}, two, holds(3)},
		"async, lost in the end":           {true, []history.Edit{v1}, two, holds(1)},
		"the shared one used up":           {true, []history.Edit{version(0, 1, "duo", 1, 9, 1)}, []history.Call{check(2, 3, duoSync, a, 1, 2, 1, 0), check(4, 5, duo, d, 1, 2, 1, 0)}, nil},
		"the shared one, in a window":      {false, []history.Edit{version(0, 1, "duo", 1, 9, 1)}, []history.Call{check(2, 3, duoSync, a, 1, 2, 1, 0), check(500, 501, duo, a, 1, 1, 9, 8)}, nil},
		"the shared one, a window later":   {true, []history.Edit{version(0, 1, "duo", 1, 9, 1)}, []history.Call{check(2, 3, duoSync, a, 1, 2, 1, 0), check(1500, 1501, duo, a, 1, 1, 9, 8)}, nil},
		"the shared one denies too long":   {false, []history.Edit{version(0, 1, "duo", 1, 9, 1)}, []history.Call{check(2, 3, duoSync, a, 1, 2, 1, 0), check(1500, 1501, duo, d, 1, 2, 1, 0)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := edited(c.edits...)
			h.Calls = c.calls
			f := Counters(h, CheckRules{func(who *history.Caller) bool { return who.Option == "SYNC" }, None, 50 * ms}, c.used)
			require.Equal(t, c.ok, f.OK, f)
		})
	}
}

// What is durable is there afterwards, whatever is lost.
func TestDurableChecks(t *testing.T) {
	h := edited(version(0, 1, "duo", 1, 9, 100))
	h.Calls = []history.Call{check(2, 3, duoSync, history.Admitted, 1, 1, 9, 8), check(4, 5, duoSync, history.Admitted, 1, 1, 9, 7)}
	judge := func(durable bool, used int64) Finding {
		return Counters(h, CheckRules{func(*history.Caller) bool { return durable }, None, 0}, map[Counter]int64{{"duo", 0, "bob"}: used})
	}
	require.True(t, judge(true, 2).OK, judge(true, 2))
	require.False(t, judge(true, 1).OK)
	require.True(t, judge(false, 1).OK)
	h.Calls[1].Remaining = 8 // the first was lost
	require.False(t, judge(true, 1).OK)
	require.True(t, judge(false, 1).OK)

	// The bound of lost leaders covers only changes that are not durable.
	h.Calls = append(h.Calls, check(6, 7, duoSync, history.Admitted, 1, 1, 2, 0))
	h.Edits[0].Amounts[0] = 2
	for i := range h.Calls {
		h.Calls[i].Limit, h.Calls[i].Remaining = 2, 0
	}
	one := func(uint32, []history.Call) int64 { return 1 }
	f := Counters(h, CheckRules{func(*history.Caller) bool { return false }, one, 0}, nil)
	require.True(t, f.OK, f)
	f = Counters(h, CheckRules{func(*history.Caller) bool { return true }, one, 0}, nil)
	require.False(t, f.OK, f)
}

func TestLinearChecks(t *testing.T) {
	a, d := history.Admitted, history.Denied
	v1, v2 := version(0, 1, "solo", 1, 2), version(10, 20, "solo", 2, 3)
	reset := v2
	reset.Resets = true
	f := func(ok bool, e history.Edit, calls ...history.Call) {
		t.Helper()
		h := edited(v1, e)
		h.Calls = calls
		require.Equal(t, ok, LinearChecks(h, "").OK)
	}
	one, two := check(2, 3, solo, a, 1, 1, 2, 1), check(4, 5, solo, a, 1, 1, 2, 0)
	f(true, v2, one, two, check(6, 7, solo, d, 1, 1, 2, 0), check(21, 22, solo, a, 2, 1, 3, 0))
	f(false, v2, one, two, check(21, 22, solo, a, 2, 1, 3, 1))
	f(true, reset, one, two, check(15, 16, solo, d, 1, 1, 2, 0), check(21, 22, solo, a, 2, 1, 3, 2))
	f(false, reset, one, two, check(21, 22, solo, a, 2, 1, 3, 2), check(23, 24, solo, a, 2, 1, 3, 2))
	f(false, reset, one, two, check(21, 22, solo, a, 2, 1, 3, 0))
	f(true, v2, one, unanswered(4, 5, solo), check(21, 22, solo, a, 2, 1, 3, 1), check(23, 24, solo, d, 2, 1, 3, 0))
	f(false, v2, one, check(21, 22, solo, d, 2, 1, 3, 0))
}
