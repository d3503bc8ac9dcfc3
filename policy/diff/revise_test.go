package diff_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// An edit leaves slots where they are; another way to count does not.
func TestEditsOfConcurrentCalls(t *testing.T) {
	four, five, rate := policytest.Record(t, "p", "{limits: {l: {concurrent: 4}}}"), policytest.Record(t, "p", "{limits: {l: {concurrent: 5}}}"), policytest.Record(t, "p", "{limits: {l: {rate: 5/s}}}")
	for _, change := range []diff.Change{diff.ChangeKeep, diff.ChangeProportional, diff.ChangeReset} {
		epochs, err := diff.Revise(four, nil, five, change)
		require.NoError(t, err)
		require.Empty(t, epochs, change)
	}
	_, err := diff.Revise(four, nil, rate, diff.ChangeKeep)
	require.ErrorContains(t, err, "limit 'l' counts by concurrent, not token")
	epochs, err := diff.Revise(four, nil, rate, diff.ChangeReset)
	require.NoError(t, err)
	require.EqualValues(t, 1, epochs["l"].Reset)
	require.EqualValues(t, 1, diff.ResetAll(four, nil)["l"].Reset)
	require.Equal(t, "limits.l.concurrent: 4 -> 5 (numbers)", diffs(diff.Compare(four, five))[0])
	require.Contains(t, diffs(diff.Compare(four, rate)), "limits.l.concurrent: 4 -> nothing (another kind of counters)")
}

func diffs(all []diff.Difference) (lines []string) {
	for i := range all {
		lines = append(lines, all[i].String())
	}
	return lines
}

// An edit that forgives all callers gives a penalty another epoch, and no other
// edit does.
func TestPenaltyEpochs(t *testing.T) {
	text := func(limit string) *policy.Record {
		return policytest.Record(t, "p", "limits: {l: {by: user, rate: "+limit+"}}")
	}
	r, epochs := text("5/m, penalty: {after: 1, block: 1m}"), map[string]policy.LimitEpoch(nil)
	epoch := func() uint16 {
		e := policytest.Empty().Edit()
		e.Set(r, policy.Meta{Version: 1, Epochs: epochs})
		set, err := e.Finish(1)
		require.NoError(t, err)
		return set.Policy([]byte("p")).Limits[0].Penalty.Epoch
	}
	edit := func(limit string, change diff.Change) {
		t.Helper()
		next := text(limit)
		var err error
		epochs, err = diff.Revise(r, epochs, next, change)
		require.NoError(t, err)
		r = next
	}
	edit("5/m, penalty: {after: 2, block: 1s, max: 1h}", diff.ChangeReset)
	edit("9/m, penalty: {after: 2, block: 1s}, mode: soft", diff.ChangeKeep)
	require.Zero(t, epoch())
	edit("9/m", diff.ChangeKeep)
	edit("9/m, penalty: {after: 2, block: 1s}", diff.ChangeKeep)
	require.EqualValues(t, 1, epoch())
	edit("8/m, penalty: {after: 2, block: 1s}", diff.ChangeReset)
	require.EqualValues(t, 2, epoch())
	epochs = diff.ResetAll(r, epochs)
	require.EqualValues(t, 3, epoch())
	was := r
	r = policytest.Record(t, "p", "limits: {other: {rate: 1/s}}")
	var err error
	epochs, err = diff.Revise(was, epochs, r, diff.ChangeKeep)
	require.NoError(t, err)
	edit("8/m, penalty: {after: 2, block: 1s}", diff.ChangeKeep)
	require.EqualValues(t, 3, epoch(), "a limit that comes back goes on")

	d := diff.Compare(r, text("8/m, penalty: {after: 3, block: 1s}"))
	require.Len(t, d, 1)
	require.Equal(t, "limits.l.penalty: {after: 2, block: 1s} -> {after: 3, block: 1s}", d[0].String())
}

// Another calendar under one id takes CHANGE reset, as another algorithm does.
func TestEditsOfCalendars(t *testing.T) {
	const month = "rate: 5/month, calendar: {zone: Europe/Paris, anchor: 17, at: 06:00}"
	f := func(old, new, want string) {
		t.Helper()
		was, is := policytest.Record(t, "p", "limits: {l: {"+old+"}}"), policytest.Record(t, "p", "limits: {l: {"+new+"}}")
		for _, c := range []diff.Change{diff.ChangeKeep, diff.ChangeProportional} {
			_, err := diff.Revise(was, nil, is, c)
			if want == "" {
				require.NoError(t, err)
				continue
			}
			require.EqualError(t, err, "limit 'l' counts by "+want+": use CHANGE reset, or another id")
			kinds := 0
			for _, d := range diff.Compare(was, is) {
				if d.Effect == grammar.NewKind {
					kinds++
				}
			}
			require.NotZero(t, kinds, "%v", diff.Compare(was, is))
		}
		out, err := diff.Revise(was, nil, is, diff.ChangeReset)
		require.NoError(t, err)
		require.Equal(t, map[string]policy.LimitEpoch{"l": {Reset: 1}}, out)
	}
	const paris = "the month of Europe/Paris from 17 at 06:00"
	f(month, "rate: 6/month, calendar: {zone: Europe/Paris, anchor: 17, at: 06:00}", "")
	f(month, "rate: 5/month, calendar: {zone: UTC, anchor: 17, at: 06:00}", paris+", not the month of UTC from 17 at 06:00")
	f(month, "rate: 5/month, calendar: {zone: Europe/Paris, at: 06:00}", paris+", not the month of Europe/Paris at 06:00")
	f(month, "rate: 5/quarter, calendar: {zone: Europe/Paris, anchor: 17, at: 06:00}", paris+", not the quarter of Europe/Paris from 17 at 06:00")
	f("rate: 5/d, algorithm: fixed", "rate: 5/day, calendar: UTC", "fixed, not the day of UTC")
	f("rate: 5/day, calendar: UTC", "rate: 5/d", "the day of UTC, not token")

	// A limit that comes back counts on under its calendar alone.
	gone, err := diff.Revise(policytest.Record(t, "p", "limits: {l: {"+month+"}, m: {rate: 1/s}}"), nil, policytest.Record(t, "p", "limits: {m: {rate: 1/s}}"), diff.ChangeKeep)
	require.NoError(t, err)
	require.Equal(t, map[string]policy.LimitEpoch{"l": {Was: paris}}, gone)
	for text, fails := range map[string]bool{month: false, "rate: 5/month, calendar: UTC": true} {
		_, err := diff.Revise(policytest.Record(t, "p", "limits: {m: {rate: 1/s}}"), gone, policytest.Record(t, "p", "limits: {l: {"+text+"}, m: {rate: 1/s}}"), diff.ChangeKeep)
		require.Equal(t, fails, err != nil, text)
	}
}

// A limit that an edit stops, or makes unlimited, goes on with its counters when
// it has an amount again. It does not go on with those of another calendar.
func TestEditsThatLeaveACalendarWithoutAPeriod(t *testing.T) {
	const zone = ", calendar: {zone: UTC, anchor: 17}"
	text := func(limit string) *policy.Record {
		return policytest.Record(t, "p", "limits: {l: {"+limit+"}, m: {rate: 1/s}}")
	}
	for _, rate := range []string{"rate: blocked", "rate: unlimited", "tiers: {attribute: a, vip: unlimited, default: blocked}"} {
		monthly, none := text("rate: 5/month"+zone), text(rate+zone)
		require.Empty(t, diff.Compare(none, policytest.Record(t, "p", grammar.Format(none))), grammar.Format(none))
		for _, d := range diff.Compare(monthly, none) {
			require.NotEqual(t, grammar.NewKind, d.Effect, d)
		}
		set := policytest.With(t, policytest.Empty(), none)
		require.Equal(t, policy.Calendar, set.Policy([]byte("p")).Limits[0].Algorithm)
		require.Nil(t, set.Policy([]byte("p")).Limits[0].Calendar)
		require.True(t, set.Policy([]byte("p")).Calendars)

		const month = "the month of UTC from 17"
		revise := func(old *policy.Record, epochs map[string]policy.LimitEpoch, is *policy.Record, want string) map[string]policy.LimitEpoch {
			t.Helper()
			out, err := diff.Revise(old, epochs, is, diff.ChangeKeep)
			if want != "" {
				require.EqualError(t, err, "limit 'l' counts by "+month+", not "+want+": use CHANGE reset, or another id")
			} else {
				require.NoError(t, err)
			}
			return out
		}
		epochs := revise(monthly, nil, none, "")
		kept := map[string]policy.LimitEpoch{"l": {Was: month}}
		require.Equal(t, kept, epochs)
		require.Equal(t, kept, revise(none, epochs, none, ""), "an edit of something else")
		require.Empty(t, revise(none, epochs, text("rate: 7/month"+zone), ""))
		revise(none, epochs, text("rate: 5/quarter"+zone), "the quarter of UTC from 17")
		revise(none, epochs, text("rate: 5/d"), "token")
		revise(none, epochs, text(rate+", calendar: UTC"), "the period of UTC")
		gone := revise(none, epochs, policytest.Record(t, "p", "limits: {m: {rate: 1/s}}"), "")
		require.Equal(t, kept, gone)
		require.Equal(t, kept, revise(policytest.Record(t, "p", "limits: {m: {rate: 1/s}}"), gone, none, ""))

		out, err := diff.Revise(none, epochs, text("rate: 5/quarter"+zone), diff.ChangeReset)
		require.NoError(t, err)
		require.Equal(t, map[string]policy.LimitEpoch{"l": {Reset: 1}}, out)
		out, err = diff.Revise(none, epochs, text(rate+", calendar: UTC"), diff.ChangeReset)
		require.NoError(t, err)
		require.Equal(t, map[string]policy.LimitEpoch{"l": {Reset: 1}}, out)
		// Nothing was ever counted.
		require.Empty(t, revise(none, nil, text("rate: 5/day, calendar: UTC"), ""))
	}
}

func TestRevise(t *testing.T) {
	const text = "limits: {a: {by: ip, rate: 1/s}, b: {rate: 5/m}, c: {rate: 1/h}}\noverrides: [{when: {user: x}, limits: {c: 2/s}}]"
	old := policytest.Record(t, "p", text)
	f := func(text string, c diff.Change, epochs, want map[string]policy.LimitEpoch) {
		t.Helper()
		out, err := diff.Revise(old, epochs, policytest.Record(t, "p", text), c)
		require.NoError(t, err)
		require.Equal(t, want, out)
	}
	type m = map[string]policy.LimitEpoch
	f(text, diff.ChangeReset, nil, m{})
	f("limits: {a: {by: ip, rate: 2/s}, b: {rate: 300/h, mode: soft}, c: {rate: 1/h}}", diff.ChangeKeep, m{"a": {Reset: 1, Proportion: 2}}, m{"a": {Reset: 1, Proportion: 2}})
	f("limits: {a: {by: ip, rate: 2/s}, b: {rate: 5/m, mode: soft}, c: {rate: 1/h}}", diff.ChangeReset, m{"a": {Reset: 1, Proportion: 2}}, m{"a": {Reset: 2, Proportion: 2}, "c": {Reset: 1}})
	f("limits: {a: {by: ip, rate: 2/s}, new: {rate: 5/m}}", diff.ChangeProportional, m{"b": {Reset: 1, Proportion: 2}},
		m{"a": {Proportion: 1}, "b": {Reset: 1, Proportion: 2, Was: "token"}, "c": {Was: "token"}})
	f("limits: {renamed: {by: ip, rate: 2/s, id: a}}", diff.ChangeReset, nil, m{"a": {Reset: 1}, "b": {Was: "token"}, "c": {Was: "token"}})

	log := policytest.Record(t, "p", "limits: {a: {by: ip, rate: 1/s, algorithm: log}}")
	for _, c := range []diff.Change{diff.ChangeKeep, diff.ChangeProportional} {
		_, err := diff.Revise(old, nil, log, c)
		require.EqualError(t, err, "limit 'a' counts by token, not log: use CHANGE reset, or another id")
	}
	f(grammar.Format(log), diff.ChangeReset, nil, m{"a": {Reset: 1}, "b": {Was: "token"}, "c": {Was: "token"}})
	require.Equal(t, m{"a": {Reset: 4}, "y": {Reset: 1}, "z": {Reset: 1}}, diff.ResetAll(log, m{"a": {Reset: 3}, "y": {Was: "log"}, "z": {Reset: 1}}),
		"those of limits that are gone, too")

	many := m{}
	for i := range 200 {
		many["l"+policy.FormatDuration(int64(i)+1)] = policy.LimitEpoch{Reset: 1}
	}
	many["a"] = policy.LimitEpoch{Reset: 9}
	require.Len(t, diff.ResetAll(log, many), 8*policy.MaxLimits)
	require.Equal(t, policy.LimitEpoch{Reset: 10}, diff.ResetAll(log, many)["a"])
	for i, word := range []string{"keep", "proportional", "reset"} {
		c, ok := diff.ParseChange(word)
		require.True(t, ok)
		require.Equal(t, diff.Change(i), c)
	}
	_, ok := diff.ParseChange("Keep")
	require.False(t, ok)
}

// How the counters of deleted limits count stays known: a limit that comes back
// counts on, or takes a reset.
func TestReviseOfLimitsThatComeBack(t *testing.T) {
	type m = map[string]policy.LimitEpoch
	token := policytest.Record(t, "p", "limits: {a: {by: ip, rate: 1/s}}")
	log := policytest.Record(t, "p", "limits: {a: {by: ip, rate: 1/s, algorithm: log}}")
	other := policytest.Record(t, "p", "limits: {b: {by: ip, rate: 1/s}}")
	f := func(old *policy.Record, epochs m, new *policy.Record, c diff.Change) m {
		t.Helper()
		out, err := diff.Revise(old, epochs, new, c)
		require.NoError(t, err)
		return out
	}
	for name, gone := range map[string]m{"policy": f(log, m{"a": {Reset: 3}}, nil, diff.ChangeKeep), "limit": f(log, m{"a": {Reset: 3}}, other, diff.ChangeKeep)} {
		require.Equal(t, policy.LimitEpoch{Reset: 3, Was: "log"}, gone["a"], name)
		require.Equal(t, policy.LimitEpoch{Reset: 3}, f(nil, gone, log, diff.ChangeKeep)["a"], name)
		require.Equal(t, policy.LimitEpoch{Reset: 3, Proportion: 1}, f(nil, gone, log, diff.ChangeProportional)["a"], name)
		require.Equal(t, policy.LimitEpoch{Reset: 4}, f(nil, gone, log, diff.ChangeReset)["a"], name)
		for _, c := range []diff.Change{diff.ChangeKeep, diff.ChangeProportional} {
			_, err := diff.Revise(nil, gone, token, c)
			require.EqualError(t, err, "limit 'a' counts by log, not token: use CHANGE reset, or another id", name)
		}
		require.Equal(t, policy.LimitEpoch{Reset: 4}, f(nil, gone, token, diff.ChangeReset)["a"], name)
		require.Equal(t, policy.LimitEpoch{Reset: 4}, f(other, diff.ResetAll(other, gone), token, diff.ChangeKeep)["a"], name)
	}
	require.Equal(t, m{}, f(nil, f(token, nil, nil, diff.ChangeKeep), token, diff.ChangeKeep))

	// Of too many that are gone, those go first that nothing has changed.
	many := m{}
	for i := range 200 {
		many["l"+policy.FormatDuration(int64(i)+1)] = policy.LimitEpoch{Reset: uint32(i % 2), Was: "log"}
	}
	left := f(other, many, other, diff.ChangeKeep)
	require.Len(t, left, 8*policy.MaxLimits)
	resets := 0
	for _, e := range left {
		resets += int(e.Reset)
	}
	require.Equal(t, 100, resets)
}
