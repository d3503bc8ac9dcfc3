package grammar_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/calendar"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// calendarOf returns the calendar of the limit l of a policy, and what the limit
// says in canonical form.
func calendarOf(t *testing.T, limit string) (calendar.Rules, string) {
	t.Helper()
	rec := policytest.Record(t, "p", "limits: {l: {"+limit+"}}")
	again := policytest.Record(t, "p", grammar.Format(rec))
	require.Empty(t, diff.Compare(rec, again), grammar.Format(rec))
	l := policytest.With(t, policytest.Empty(), again).Policy([]byte("p")).Limits[0]
	require.Equal(t, policy.Calendar, l.Algorithm)
	return l.Calendar.Rules(), grammar.Inline(grammar.LimitFields(again.Definition.Limits[0]))
}

func TestReadCalendar(t *testing.T) {
	f := func(limit string, want calendar.Rules, text string) {
		t.Helper()
		r, s := calendarOf(t, limit)
		require.Equal(t, want, r)
		require.Equal(t, "{"+text+"}", s)
	}
	const day, month, year = calendar.Day, calendar.Month, calendar.Year
	f("rate: 1_000/day, calendar: UTC", calendar.Rules{Zone: "UTC", Period: day}, "rate: 1000/day, calendar: UTC")
	f("rate: 5/week, calendar: {zone: Etc/GMT+5}", calendar.Rules{Zone: "Etc/GMT+5", Period: calendar.Week}, `rate: 5/week, calendar: "Etc/GMT+5"`)
	f("rate: 5/month, calendar: {zone: Europe/Paris, anchor: 17}", calendar.Rules{Zone: "Europe/Paris", Period: month, Day: 17}, "rate: 5/month, calendar: {zone: Europe/Paris, anchor: 17}")
	f("rate: 5/month, calendar: {zone: Europe/Paris, anchor: 01, at: 00:00}", calendar.Rules{Zone: "Europe/Paris", Period: month}, "rate: 5/month, calendar: Europe/Paris")
	f("rate: 5/quarter, calendar: {at: \"06:30\", anchor: 31, zone: UTC}", calendar.Rules{Zone: "UTC", Period: calendar.Quarter, Day: 31, At: 390}, `rate: 5/quarter, calendar: {zone: UTC, anchor: 31, at: "06:30"}`)
	f("rate: 5/year, calendar: {zone: UTC, anchor: 04-06}", calendar.Rules{Zone: "UTC", Period: year, Month: 4, Day: 6}, "rate: 5/year, calendar: {zone: UTC, anchor: 04-06}")
	f("rate: 5/year, calendar: {zone: UTC, anchor: 01-01, at: 23:59}", calendar.Rules{Zone: "UTC", Period: year, At: 1439}, `rate: 5/year, calendar: {zone: UTC, at: "23:59"}`)
	f("rate: 5/year, calendar: {zone: UTC, anchor: 02-29}, count: all", calendar.Rules{Zone: "UTC", Period: year, Month: 2, Day: 29}, "rate: 5/year, calendar: {zone: UTC, anchor: 02-29}, count: all")
	f("tiers: {attribute: a, vip: unlimited, pro: 9/day, default: blocked}, calendar: UTC", calendar.Rules{Zone: "UTC", Period: day},
		"tiers: {attribute: a, vip: unlimited, pro: 9/day, default: blocked}, calendar: UTC")

	// An override says the period, where the limit has no numbers.
	s := policytest.Load(t, "policies: {p: {limits: {l: {by: u, rate: blocked, calendar: UTC}}, overrides: [{when: {u: a}, limits: {l: {mode: soft}}}, {when: {u: b}, limits: {l: 7/quarter}}]}}")
	require.Equal(t, calendar.Quarter, s.Policy([]byte("p")).Limits[0].Calendar.Rules().Period)
	require.True(t, s.Policy([]byte("p")).Calendars)
	require.Equal(t, []string{"@p:l;u=b 7/quarter"}, policytest.Applied(t, policytest.Call(t, s, "p", "u", "b"), 0))
	require.False(t, policytest.Load(t, policytest.Preceding).Policy([]byte("p")).Calendars)
}

func TestRefusalsOfCalendars(t *testing.T) {
	f := func(limit string, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = "f:1:" + want[i]
		}
		require.Equal(t, want, refused(t, "policies: {p: {limits: {l: {"+limit+"}}}}"), limit)
	}
	const at = ": policies.p.limits.l"
	f("rate: 1/day, calendar: Utc", `52`+at+`.calendar: there is no zone "Utc", did you mean "UTC"?`)
	for zone, want := range map[string]string{"utc": "UTC", "EUROPE/PARIS": "Europe/Paris", "AMERICA/NEW_YORK": "America/New_York"} {
		f("rate: 1/day, calendar: "+zone, `52`+at+`.calendar: there is no zone "`+zone+`", did you mean "`+want+`"?`)
	}
	f("rate: 1/day, calendar: {zone: Europe/Pariss}", `59`+at+`.calendar.zone: there is no zone "Europe/Pariss", did you mean "Europe/Paris"?`)
	f("rate: 1/day, calendar: [UTC]", "52"+at+".calendar: want a zone such as UTC or Europe/Paris, not a list")
	f("rate: 1/day, calendar: {at: 06:00}", "52"+at+".calendar: zone is missing: UTC, Europe/Paris")
	f("rate: 1/day, calendar: {zone: UTC, anchr: 1}", "64"+at+`.calendar: unknown key "anchr", did you mean "anchor"?`)
	for _, text := range []string{"6:00", "24:00", "06:60", "0600", "-1:00"} {
		f("rate: 1/day, calendar: {zone: UTC, at: "+text+"}", `68`+at+`.calendar.at: "`+text+`" is no wall time from 00:00 to 23:59`)
	}
	for _, text := range []string{"0", "017", "-1", "x", "4-6", "04-06-01", "00-05"} {
		f("rate: 1/year, calendar: {zone: UTC, anchor: "+text+"}",
			`73`+at+`.calendar.anchor: "`+text+`" is not an anchor: for months and quarters write a day such as 17, for years month and day such as 04-06`)
	}
	f("rate: 1/day, calendar: {zone: UTC, anchor: 1}", "72"+at+".calendar.anchor: a day and a week have no anchor: weeks begin on Monday")
	f("rate: 1/month, calendar: {zone: UTC, anchor: 32}", "74"+at+".calendar.anchor: the anchor of a month or a quarter is a day, 1 to 31")
	f("rate: 1/month, calendar: {zone: UTC, anchor: 04-06}", "74"+at+".calendar.anchor: the anchor of a month or a quarter is a day, 1 to 31")
	f("rate: 1/year, calendar: {zone: UTC, anchor: 17}", "73"+at+".calendar.anchor: the anchor of a year is a date such as 04-06, month and day")
	f("rate: 1/year, calendar: {zone: UTC, anchor: 04-31}", "73"+at+".calendar.anchor: April has no day 31")

	f("rate: 1/day, calendar: UTC, algorithm: fixed", "25"+at+": algorithm and align cannot stand beside calendar: a calendar is itself a kind of fixed window")
	f("rate: 1/day, calendar: UTC, align: first", "25"+at+": algorithm and align cannot stand beside calendar: a calendar is itself a kind of fixed window")
	f("rate: 1/day, calendar: UTC, wait: 1s", "25"+at+": wait goes with algorithm token and leaky")
	f("rate: 1/day burst 5, calendar: UTC", "35"+at+`.rate: "1/day burst 5": burst needs algorithm token or leaky`)
	for _, period := range []string{"d", "h", "30d", "hour"} {
		rate, err := policy.ParseRate("1/" + period)
		require.NoError(t, err)
		f("rate: 1/"+period+", calendar: UTC", "35"+at+`.rate: "`+rate.String()+`": with a calendar a rate is per day, week, month, quarter or year: 500_000/month`)
	}
	for _, rate := range []string{"rate: blocked", "tiers: {attribute: a, vip: unlimited, default: blocked}"} {
		f(rate+", calendar: {zone: UTC, anchor: 32}", fmt.Sprint(61+len(rate))+at+".calendar.anchor: the anchor of a month or a quarter is a day, 1 to 31")
	}
	f("rate: 1/mon, calendar: UTC", "35"+at+`.rate: "1/mon": unknown unit "mon", use ms s m h d w, or with a calendar day, week, month, quarter or year`)
	for _, period := range []string{"Month", "months", "fortnight"} {
		f("rate: 1/"+period+", calendar: UTC", "35"+at+`.rate: "1/`+period+`": unknown unit "`+period+`", use ms s m h d w, or with a calendar day, week, month, quarter or year`)
	}
	f("tiers: {attribute: a, free: 1/day, default: 2/month}, calendar: UTC",
		"73"+at+`.tiers.default: "2/month": all rates of a limit with a calendar must have the same period: this rate is per month, another rate is per day`)
	for _, period := range []string{"month", "quarter", "year"} {
		f("rate: 1/"+period, "35"+at+`.rate: "1/`+period+`": a `+period+" needs a calendar: write `calendar: UTC` in the limit, or days such as 30d")
	}
	override := func(limit, want string) {
		t.Helper()
		require.Equal(t, []string{want}, refused(t, "policies: {p: {limits: {l: {"+limit+"}}, overrides: [{when: {a: b}, limits: {l: 1/month}}]}}"))
	}
	override("rate: 1/day, calendar: UTC",
		`f:1:98: policies.p.overrides[0].limits.l: "1/month": all rates of a limit with a calendar must have the same period: this rate is per month, another rate is per day`)
	override("rate: 1/s", "f:1:81: policies.p.overrides[0].limits.l: \"1/month\": a month needs a calendar: write `calendar: UTC` in the limit, or days such as 30d")
}

// Rates of RL.OVERRIDE for a limit with a calendar are of its period. A limit that
// an edit leaves without its calendar sleeps.
func TestOverridesOfCalendars(t *testing.T) {
	const monthly = "policies: {p: {limits: {l: {by: u, rate: 5/month, calendar: UTC}, d: {by: u, rate: 5/day}}}}"
	s := policytest.Load(t, monthly)
	rate := func(text string) policy.Rate {
		r, err := policy.ParseRate(text)
		require.NoError(t, err)
		return r
	}
	for text, want := range map[string]string{
		"9/day":   "all rates of a limit with a calendar must have the same period: this rate is per day, another rate is per month",
		"9/30d":   "with a calendar a rate is per day, week, month, quarter or year: 500_000/month",
		"9/month": "",
		"blocked": "",
	} {
		_, err := policytest.Call(t, s, "p", "u", "a").LimitOverride("l", rate(text), 0)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
	_, err := policytest.Call(t, s, "p", "u", "a").LimitOverride("d", rate("9/month"), 0)
	require.ErrorContains(t, err, "a month needs a calendar")

	l, err := policytest.Call(t, s, "p", "u", "a").LimitOverride("l", rate("9/month"), 0)
	require.NoError(t, err)
	d, err := policytest.Call(t, s, "p", "u", "a").LimitOverride("d", rate("9/day"), 0)
	require.NoError(t, err)
	for _, o := range []policy.Override{l, d} {
		b := o.Append(nil)
		again, err := policy.DecodeOverride(b)
		require.NoError(t, err)
		require.Equal(t, o, again)
		for i := range b {
			_, err := policy.DecodeOverride(b[:i])
			require.EqualError(t, err, "the record of an override is damaged")
		}
	}
	for _, per := range []byte{0, byte(calendar.Year) + 1} {
		b := l.Append(nil)
		b[len(b)-1] = per
		_, err := policy.DecodeOverride(b)
		require.EqualError(t, err, "the record of an override is damaged")
	}
	s = policytest.Override(t, policytest.Override(t, s, l), d)
	scale, err := s.Policy([]byte("p")).ScaleOverride(50, 0)
	require.NoError(t, err)
	s = policytest.Override(t, s, scale)
	require.Equal(t, []string{"@p:l;u=a 9/month", "@p:d;u=a 9/d"}, policytest.Applied(t, policytest.Call(t, s, "p", "u", "a"), 0), "a scale spares both")
	require.False(t, s.Sleeps(&l))
	s = policytest.With(t, s, policytest.Record(t, "p", "limits: {l: {by: u, rate: 5/d}, d: {by: u, rate: 5/day, calendar: UTC}}"))
	require.True(t, s.Sleeps(&l))
	require.True(t, s.Sleeps(&d))
	require.Equal(t, []string{"@p:l;u=a 5/d", "@p:d;u=a 5/day"}, policytest.Applied(t, policytest.Call(t, s, "p", "u", "a"), 0))
}
