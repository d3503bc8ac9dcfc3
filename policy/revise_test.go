package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An edit leaves slots where they are; another way to count does not.
func TestEditsOfConcurrentCalls(t *testing.T) {
	four, five, rate := record(t, "p", "{limits: {l: {concurrent: 4}}}"), record(t, "p", "{limits: {l: {concurrent: 5}}}"), record(t, "p", "{limits: {l: {rate: 5/s}}}")
	for _, change := range []Change{ChangeKeep, ChangeProportional, ChangeReset} {
		epochs, err := Revise(four, nil, five, change)
		require.NoError(t, err)
		require.Empty(t, epochs, change)
	}
	_, err := Revise(four, nil, rate, ChangeKeep)
	require.ErrorContains(t, err, "limit 'l' counts by concurrent, not token")
	epochs, err := Revise(four, nil, rate, ChangeReset)
	require.NoError(t, err)
	require.EqualValues(t, 1, epochs["l"].Reset)
	require.EqualValues(t, 1, ResetAll(four, nil)["l"].Reset)
	require.Equal(t, "limits.l.concurrent: 4 -> 5 (numbers)", diffs(Compare(four, five))[0])
	require.Contains(t, diffs(Compare(four, rate)), "limits.l.concurrent: 4 -> nothing (another kind of counters)")
}

func diffs(all []Difference) (lines []string) {
	for i := range all {
		lines = append(lines, all[i].String())
	}
	return lines
}

// What forgives all callers gives a penalty another epoch, and nothing else does.
func TestPenaltyEpochs(t *testing.T) {
	text := func(limit string) *Record { return record(t, "p", "limits: {l: {by: user, rate: "+limit+"}}") }
	r, epochs := text("5/m, penalty: {after: 1, block: 1m}"), map[string]LimitEpoch(nil)
	epoch := func() uint16 {
		e := emptySet().Edit()
		e.Set(r, Meta{Version: 1, Epochs: epochs})
		set, err := e.Finish(1)
		require.NoError(t, err)
		return set.Policy([]byte("p")).Limits[0].Penalty.Epoch
	}
	edit := func(limit string, change Change) {
		t.Helper()
		next := text(limit)
		var err error
		epochs, err = Revise(r, epochs, next, change)
		require.NoError(t, err)
		r = next
	}
	edit("5/m, penalty: {after: 2, block: 1s, max: 1h}", ChangeReset)
	edit("9/m, penalty: {after: 2, block: 1s}, mode: soft", ChangeKeep)
	require.Zero(t, epoch())
	edit("9/m", ChangeKeep)
	edit("9/m, penalty: {after: 2, block: 1s}", ChangeKeep)
	require.EqualValues(t, 1, epoch())
	edit("8/m, penalty: {after: 2, block: 1s}", ChangeReset)
	require.EqualValues(t, 2, epoch())
	epochs = ResetAll(r, epochs)
	require.EqualValues(t, 3, epoch())
	was := r
	r = record(t, "p", "limits: {other: {rate: 1/s}}")
	var err error
	epochs, err = Revise(was, epochs, r, ChangeKeep)
	require.NoError(t, err)
	edit("8/m, penalty: {after: 2, block: 1s}", ChangeKeep)
	require.EqualValues(t, 3, epoch(), "a limit that comes back goes on")

	d := Compare(r, text("8/m, penalty: {after: 3, block: 1s}"))
	require.Len(t, d, 1)
	require.Equal(t, "limits.l.penalty: {after: 2, block: 1s} -> {after: 3, block: 1s}", d[0].String())
}

// Another calendar under one id takes CHANGE reset, as another algorithm does.
func TestEditsOfCalendars(t *testing.T) {
	const month = "rate: 5/month, calendar: {zone: Europe/Paris, anchor: 17, at: 06:00}"
	f := func(old, new, want string) {
		t.Helper()
		was, is := record(t, "p", "limits: {l: {"+old+"}}"), record(t, "p", "limits: {l: {"+new+"}}")
		for _, c := range []Change{ChangeKeep, ChangeProportional} {
			_, err := Revise(was, nil, is, c)
			if want == "" {
				require.NoError(t, err)
				continue
			}
			require.EqualError(t, err, "limit 'l' counts by "+want+": that takes CHANGE reset, or another id")
			kinds := 0
			for _, d := range Compare(was, is) {
				if d.Effect == NewKind {
					kinds++
				}
			}
			require.NotZero(t, kinds, "%v", Compare(was, is))
		}
		out, err := Revise(was, nil, is, ChangeReset)
		require.NoError(t, err)
		require.Equal(t, map[string]LimitEpoch{"l": {Reset: 1}}, out)
	}
	const paris = "the month of Europe/Paris from 17 at 06:00"
	f(month, "rate: 6/month, calendar: {zone: Europe/Paris, anchor: 17, at: 06:00}", "")
	f(month, "rate: 5/month, calendar: {zone: UTC, anchor: 17, at: 06:00}", paris+", not the month of UTC from 17 at 06:00")
	f(month, "rate: 5/month, calendar: {zone: Europe/Paris, at: 06:00}", paris+", not the month of Europe/Paris at 06:00")
	f(month, "rate: 5/quarter, calendar: {zone: Europe/Paris, anchor: 17, at: 06:00}", paris+", not the quarter of Europe/Paris from 17 at 06:00")
	f("rate: 5/d, algorithm: fixed", "rate: 5/day, calendar: UTC", "fixed, not the day of UTC")
	f("rate: 5/day, calendar: UTC", "rate: 5/d", "the day of UTC, not token")

	// A limit that comes back counts on under its calendar alone.
	gone, err := Revise(record(t, "p", "limits: {l: {"+month+"}, m: {rate: 1/s}}"), nil, record(t, "p", "limits: {m: {rate: 1/s}}"), ChangeKeep)
	require.NoError(t, err)
	require.Equal(t, map[string]LimitEpoch{"l": {Was: paris}}, gone)
	for text, fails := range map[string]bool{month: false, "rate: 5/month, calendar: UTC": true} {
		_, err := Revise(record(t, "p", "limits: {m: {rate: 1/s}}"), gone, record(t, "p", "limits: {l: {"+text+"}, m: {rate: 1/s}}"), ChangeKeep)
		require.Equal(t, fails, err != nil, text)
	}
}

// A limit that an edit stops, or lets everybody by, goes on with its counters when
// it has an amount again, and not with those of another calendar.
func TestEditsThatLeaveACalendarWithoutAPeriod(t *testing.T) {
	const zone = ", calendar: {zone: UTC, anchor: 17}"
	text := func(limit string) *Record { return record(t, "p", "limits: {l: {"+limit+"}, m: {rate: 1/s}}") }
	for _, rate := range []string{"rate: blocked", "rate: unlimited", "tiers: {attribute: a, vip: unlimited, default: blocked}"} {
		monthly, none := text("rate: 5/month"+zone), text(rate+zone)
		require.Empty(t, Compare(none, record(t, "p", Format(none))), Format(none))
		for _, d := range Compare(monthly, none) {
			require.NotEqual(t, NewKind, d.Effect, d)
		}
		set := with(t, emptySet(), none)
		require.Equal(t, Calendar, set.Policy([]byte("p")).Limits[0].Algorithm)
		require.Nil(t, set.Policy([]byte("p")).Limits[0].Calendar)
		require.True(t, set.Policy([]byte("p")).Calendars)

		const month = "the month of UTC from 17"
		revise := func(old *Record, epochs map[string]LimitEpoch, is *Record, want string) map[string]LimitEpoch {
			t.Helper()
			out, err := Revise(old, epochs, is, ChangeKeep)
			if want != "" {
				require.EqualError(t, err, "limit 'l' counts by "+month+", not "+want+": that takes CHANGE reset, or another id")
			} else {
				require.NoError(t, err)
			}
			return out
		}
		epochs := revise(monthly, nil, none, "")
		kept := map[string]LimitEpoch{"l": {Was: month}}
		require.Equal(t, kept, epochs)
		require.Equal(t, kept, revise(none, epochs, none, ""), "an edit of something else")
		require.Empty(t, revise(none, epochs, text("rate: 7/month"+zone), ""))
		revise(none, epochs, text("rate: 5/quarter"+zone), "the quarter of UTC from 17")
		revise(none, epochs, text("rate: 5/d"), "token")
		revise(none, epochs, text(rate+", calendar: UTC"), "the period of UTC")
		gone := revise(none, epochs, record(t, "p", "limits: {m: {rate: 1/s}}"), "")
		require.Equal(t, kept, gone)
		require.Equal(t, kept, revise(record(t, "p", "limits: {m: {rate: 1/s}}"), gone, none, ""))

		out, err := Revise(none, epochs, text("rate: 5/quarter"+zone), ChangeReset)
		require.NoError(t, err)
		require.Equal(t, map[string]LimitEpoch{"l": {Reset: 1}}, out)
		out, err = Revise(none, epochs, text(rate+", calendar: UTC"), ChangeReset)
		require.NoError(t, err)
		require.Equal(t, map[string]LimitEpoch{"l": {Reset: 1}}, out)
		// Nothing was ever counted.
		require.Empty(t, revise(none, nil, text("rate: 5/day, calendar: UTC"), ""))
	}
}

func TestRevise(t *testing.T) {
	const text = "limits: {a: {by: ip, rate: 1/s}, b: {rate: 5/m}, c: {rate: 1/h}}\noverrides: [{when: {user: x}, limits: {c: 2/s}}]"
	old := record(t, "p", text)
	f := func(text string, c Change, epochs, want map[string]LimitEpoch) {
		t.Helper()
		out, err := Revise(old, epochs, record(t, "p", text), c)
		require.NoError(t, err)
		require.Equal(t, want, out)
	}
	type m = map[string]LimitEpoch
	f(text, ChangeReset, nil, m{})
	f("limits: {a: {by: ip, rate: 2/s}, b: {rate: 300/h, mode: soft}, c: {rate: 1/h}}", ChangeKeep, m{"a": {Reset: 1, Proportion: 2}}, m{"a": {Reset: 1, Proportion: 2}})
	f("limits: {a: {by: ip, rate: 2/s}, b: {rate: 5/m, mode: soft}, c: {rate: 1/h}}", ChangeReset, m{"a": {Reset: 1, Proportion: 2}}, m{"a": {Reset: 2, Proportion: 2}, "c": {Reset: 1}})
	f("limits: {a: {by: ip, rate: 2/s}, new: {rate: 5/m}}", ChangeProportional, m{"b": {Reset: 1, Proportion: 2}},
		m{"a": {Proportion: 1}, "b": {Reset: 1, Proportion: 2, Was: "token"}, "c": {Was: "token"}})
	f("limits: {renamed: {by: ip, rate: 2/s, id: a}}", ChangeReset, nil, m{"a": {Reset: 1}, "b": {Was: "token"}, "c": {Was: "token"}})

	log := record(t, "p", "limits: {a: {by: ip, rate: 1/s, algorithm: log}}")
	for _, c := range []Change{ChangeKeep, ChangeProportional} {
		_, err := Revise(old, nil, log, c)
		require.EqualError(t, err, "limit 'a' counts by token, not log: that takes CHANGE reset, or another id")
	}
	f(Format(log), ChangeReset, nil, m{"a": {Reset: 1}, "b": {Was: "token"}, "c": {Was: "token"}})
	require.Equal(t, m{"a": {Reset: 4}, "y": {Reset: 1}, "z": {Reset: 1}}, ResetAll(log, m{"a": {Reset: 3}, "y": {Was: "log"}, "z": {Reset: 1}}),
		"those of limits that are gone, too")

	many := m{}
	for i := range 200 {
		many["l"+FormatDuration(int64(i)+1)] = LimitEpoch{Reset: 1}
	}
	many["a"] = LimitEpoch{Reset: 9}
	require.Len(t, ResetAll(log, many), 8*MaxLimits)
	require.Equal(t, LimitEpoch{Reset: 10}, ResetAll(log, many)["a"])
	for i, word := range []string{"keep", "proportional", "reset"} {
		c, ok := ParseChange(word)
		require.True(t, ok)
		require.Equal(t, Change(i), c)
	}
	_, ok := ParseChange("Keep")
	require.False(t, ok)
}

// What counters of limits that are gone count by stays known: one that comes back
// counts on, or takes a reset.
func TestReviseOfLimitsThatComeBack(t *testing.T) {
	type m = map[string]LimitEpoch
	token := record(t, "p", "limits: {a: {by: ip, rate: 1/s}}")
	log := record(t, "p", "limits: {a: {by: ip, rate: 1/s, algorithm: log}}")
	other := record(t, "p", "limits: {b: {by: ip, rate: 1/s}}")
	f := func(old *Record, epochs m, new *Record, c Change) m {
		t.Helper()
		out, err := Revise(old, epochs, new, c)
		require.NoError(t, err)
		return out
	}
	for name, gone := range map[string]m{"policy": f(log, m{"a": {Reset: 3}}, nil, ChangeKeep), "limit": f(log, m{"a": {Reset: 3}}, other, ChangeKeep)} {
		require.Equal(t, LimitEpoch{Reset: 3, Was: "log"}, gone["a"], name)
		require.Equal(t, LimitEpoch{Reset: 3}, f(nil, gone, log, ChangeKeep)["a"], name)
		require.Equal(t, LimitEpoch{Reset: 3, Proportion: 1}, f(nil, gone, log, ChangeProportional)["a"], name)
		require.Equal(t, LimitEpoch{Reset: 4}, f(nil, gone, log, ChangeReset)["a"], name)
		for _, c := range []Change{ChangeKeep, ChangeProportional} {
			_, err := Revise(nil, gone, token, c)
			require.EqualError(t, err, "limit 'a' counts by log, not token: that takes CHANGE reset, or another id", name)
		}
		require.Equal(t, LimitEpoch{Reset: 4}, f(nil, gone, token, ChangeReset)["a"], name)
		require.Equal(t, LimitEpoch{Reset: 4}, f(other, ResetAll(other, gone), token, ChangeKeep)["a"], name)
	}
	require.Equal(t, m{}, f(nil, f(token, nil, nil, ChangeKeep), token, ChangeKeep))

	// Of too many that are gone, those go first that nothing has changed.
	many := m{}
	for i := range 200 {
		many["l"+FormatDuration(int64(i)+1)] = LimitEpoch{Reset: uint32(i % 2), Was: "log"}
	}
	left := f(other, many, other, ChangeKeep)
	require.Len(t, left, 8*MaxLimits)
	resets := 0
	for _, e := range left {
		resets += int(e.Reset)
	}
	require.Equal(t, 100, resets)
}
