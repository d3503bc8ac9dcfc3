package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy/calendar"
)

// on moves the clock to a time such as 2026-03-16T12:00:00+01:00.
func (r *rig) on(when string) {
	r.t.Helper()
	at, err := time.Parse(time.RFC3339, when)
	require.NoError(r.t, err)
	r.set(at.UnixNano())
}

// The reference's case of a monthly quota, which is one of 743 hours where the
// clocks go forward.
func TestPolicyOfAMonth(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("plan", `{durability: sync, on_failure: closed, limits: {month: {by: t, rate: 1000/month, calendar: {zone: Europe/Paris, anchor: 17}}}}`)
	r.on("2026-03-16T12:00:00+01:00")
	r.allows("plan t a COST 980", "month", "month=20")
	r.allows("plan t a COST 20", "month", "month=0")
	r.denies("plan t a", "month", 43_200_000, "month=0")
	r.denies("plan t a COST 1001", "month", -1, "month=0")
	r.on("2026-03-16T23:59:59+01:00")
	r.denies("plan t a", "month", 1000, "")
	r.on("2026-03-17T00:00:00+01:00")
	c := r.allows("plan t a COST 1000", "month", "month=0")
	require.EqualValues(t, 2_674_800_000, c.reset)
	r.denies("plan t a", "month", 2_674_800_000, "")
	r.on("2026-04-17T00:00:00+02:00")
	r.allows("plan t a", "month", "month=999")
}

// The reference's case of tiers with a day of UTC.
func TestPolicyOfTiersAndDays(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("api", `{limits: {
		key: {by: key, tiers: {attribute: tier, free: 60/m burst 10, pro: 600/m burst 100, default: 60/m burst 10}},
		day: {by: key, calendar: UTC, tiers: {attribute: tier, free: 1000/day, pro: 100_000/day, default: 1000/day}}}}`)
	for i := range 10 {
		r.allows("api key k1 tier free", "key", fmt.Sprintf("key=%d day=%d", 9-i, 999-i))
	}
	r.denies("api key k1 tier free", "key", 1000, "day=990")
	r.at(999 * time.Millisecond)
	r.denies("api key k1 tier free", "key", 1, "")
	r.at(time.Second)
	r.allows("api key k1 tier free", "key", "key=0 day=989")
	r.allows("api key k1 tier pro", "key", "key=89 day=99988")
	c := r.allows("api key k2 tier gold", "key", "day=999")
	require.Equal(t, (24*time.Hour - time.Second).Milliseconds(), c.limits["day"].reset)
}

// The reference's case of password resets: a day of New York that has 25 hours.
func TestPolicyOfADayOf25Hours(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("reset", `{durability: sync, on_failure: closed, attributes: {email: {type: lower}}, limits: {
		account: {by: email, rate: 3/day, calendar: America/New_York}, ip: {by: ip, rate: 20/h, algorithm: sliding}}}`)
	r.on("2026-10-31T23:50:00-04:00")
	for i, email := range []string{"Alice@x", "alice@x", "ALICE@x"} {
		r.allows("reset email "+email+" ip 198.51.100.7", "account", fmt.Sprintf("account=%d", 2-i))
	}
	r.denies("reset email aLICE@x ip 198.51.100.7", "account", 600_000, "account=0 ip=17")
	r.on("2026-11-01T00:00:00-04:00")
	r.allows("reset email alice@x", "account", "account=2")
	r.allows("reset email alice@x", "account", "account=1")
	r.on("2026-11-01T00:01:00-04:00")
	r.allows("reset email alice@x", "account", "account=0")
	r.denies("reset email alice@x", "account", 89_940_000, "account=0")
}

// What RL.EXPLAIN tells of a window, and an override's rate in it.
func TestExplainOfACalendar(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {month: {by: t, rate: 10/month, calendar: {zone: UTC, at: 06:00}}, s: {rate: 5/s}}}`)
	r.allows("p t a COST 4", "s", "month=6")
	begin, end := time.Date(2026, 2, 1, 6, 0, 0, 0, time.UTC).UnixMilli(), time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC).UnixMilli()
	limits := pair(t, r.words("RL.EXPLAIN POLICY p t a"), "limits").([]any)
	require.EqualValues(t, begin, pair(t, limits[0], "window_begin_ms"))
	require.EqualValues(t, end, pair(t, limits[0], "window_end_ms"))
	require.EqualValues(t, end-rigStart/1e6, pair(t, limits[0], "reset_after_ms"))
	require.NotContains(t, limits[1], "window_end_ms")

	x := r.words("RL.EXPLAIN @p:month;t=a")
	require.Equal(t, "policy", pair(t, x, "type"))
	require.Equal(t, "calendar", pair(t, x, "algorithm"))
	require.EqualValues(t, 10, pair(t, x, "limit"))
	require.EqualValues(t, end, pair(t, x, "window_end_ms"))
	require.EqualValues(t, 6, pair(t, x, "remaining"))
	require.NotContains(t, x, "period")
	require.NotContains(t, x, "align")

	r.is("RL.OVERRIDE SET p LIMIT month RATE 9/day t a", "-ERR all rates of a limit with a calendar have one period: this one is of a day, another of a month")
	r.is("RL.OVERRIDE SET p LIMIT month RATE 20/month t a", "OK")
	r.is("RL.OVERRIDE SET p SCALE 50%", "OK")
	r.at(2 * time.Second)
	r.allows("p t a PEEK", "s", "month=15")
	require.Equal(t, "2, over: 0", func() string {
		r.allows("p t b COST 2", "s", "month=8")
		return r.surveyLine("month", "DRYRUN", `{limits: {month: {by: t, rate: 3/month, calendar: {zone: UTC, at: 06:00}}, s: {rate: 5/s}}}`)
	}())
	require.Contains(t, format(r.parse(r.raw("RL.POLICY", "SET", "p", `{limits: {month: {by: t, rate: 10/month, calendar: UTC}, s: {rate: 5/s}}}`))),
		"policy 'p': limit 'month' counts by the month of UTC at 06:00, not the month of UTC: that takes CHANGE reset, or another id")
}

// A quota is stopped, or lifted, by an edit of its rate, and counts on afterwards.
func TestARateOfNoPeriodKeepsTheCount(t *testing.T) {
	r := newRig(t, engine.Config{})
	day := func(rate string) {
		r.setPolicy("p", `{limits: {day: {by: t, rate: `+rate+`, calendar: UTC, count: all}, s: {rate: 100/s}}}`)
	}
	day("10/day")
	r.allows("p t a COST 4", "day", "day=6")
	r.is("RL.OVERRIDE SET p LIMIT day RATE 20/day t b", "OK")
	dry := func(text string) string { return format(r.parse(r.raw("RL.POLICY", "SET", "p", "DRYRUN", text))) }
	require.NotContains(t, dry(`{limits: {day: {by: t, rate: 5/day, calendar: UTC}}}`), "sleep")
	require.Contains(t, dry(`{limits: {day: {by: t, rate: blocked, calendar: UTC}}}`), "p: overrides of RL.OVERRIDE that sleep then: 1")
	require.Contains(t, dry(`{limits: {other: {by: t, rate: 5/day}}}`), "p: overrides of RL.OVERRIDE that sleep then: 1")
	day("blocked")
	r.denies("p t a", "day", -1, "day=0")
	r.denies("p t b", "day", -1, "day=0") // its override sleeps
	r.is("RL.OVERRIDE SET p LIMIT day RATE 9/day t a", "-ERR no rate of the limit says of which period its calendar is: all are unlimited or blocked")
	require.NotContains(t, dry(`{limits: {other: {by: t, rate: 5/day}}}`), "sleep", "it does already")
	day("unlimited")
	r.allows("p t a COST 9", "s", "")
	day("10/day")
	r.allows("p t a", "day", "day=5")
	r.allows("p t b", "day", "day=19")
	day("blocked")
	require.Contains(t, format(r.parse(r.raw("RL.POLICY", "SET", "p", `{limits: {day: {by: t, rate: 10/month, calendar: UTC, count: all}, s: {rate: 100/s}}}`))),
		"policy 'p': limit 'day' counts by the day of UTC, not the month of UTC: that takes CHANGE reset, or another id")
}

// A zone whose rules change while a window is open: the counter's window stays,
// and the next one is of the new rules.
func TestOtherRulesMoveNoOpenWindow(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {day: {by: t, rate: 5/day, calendar: UTC}}}`)
	c := r.allows("p t a", "day", "day=4")
	require.Equal(t, (24 * time.Hour).Milliseconds(), c.reset)

	moved, err := calendar.New(calendar.Rules{Zone: "Asia/Kathmandu", Period: calendar.Day})
	require.NoError(t, err)
	r.s.policies.Set().Policy([]byte("p")).Limits[0].Calendar = moved
	r.at(20 * time.Hour) // beyond the midnight of Kathmandu
	c = r.allows("p t a", "day", "day=3")
	require.Equal(t, (4 * time.Hour).Milliseconds(), c.reset)
	c = r.allows("p t b", "day", "day=4")
	require.Equal(t, (22*time.Hour + 15*time.Minute).Milliseconds(), c.reset)
	r.at(24 * time.Hour)
	c = r.allows("p t a", "day", "day=4")
	require.Equal(t, (18*time.Hour + 15*time.Minute).Milliseconds(), c.reset)
}

// Windows outlast their leader, and are as long as they were.
func TestCalendarsOnThreeNodes(t *testing.T) {
	var nodes [3]*policyNode
	var set [3]func(int64)
	for i := range nodes {
		role := partition.Following
		if i == 0 {
			role = partition.Leading
		}
		var clock *engine.Clock
		clock, set[i] = engine.NewManualClock(rigStart)
		nodes[i] = newPolicyNodeOf(t, role, engine.Config{Clock: clock})
	}
	at := func(when string) {
		when += ":00+01:00"
		to, err := time.Parse(time.RFC3339, when)
		require.NoError(t, err)
		for i := range set {
			set[i](to.UnixNano())
		}
	}
	leader := nodes[0]
	asks := func(want string, args ...string) {
		t.Helper()
		require.Contains(t, leader.ask(t, append([]string{"RL.CHECK", "plan", "t", "a"}, args...)...), "*13\r\n"+want, args)
	}
	leads := func(next int) {
		leader.commit(t, nodes[(next+1)%3], nodes[next])
		leader.f.become(partition.Following)
		leader.replica.Depose()
		leader.l.Depose()
		leader = nodes[next]
		leader.replica.Lead(leader.e.Now())
		leader.f.become(partition.Leading)
	}
	leader.send("RL.POLICY", "SET", "plan", `{limits: {month: {by: t, rate: 1000/month, calendar: {zone: Europe/Paris, anchor: 17}}}}`)
	leader.commit(t, nodes[1:]...)
	at("2026-03-16T12:00")
	asks(":1\r\n:1000\r\n:20\r\n:0\r\n:43200000\r\n", "COST", "980")
	leads(1)
	asks(":1\r\n:1000\r\n:0\r\n", "COST", "20")
	asks(":0\r\n:1000\r\n:0\r\n:43200000\r\n")
	asks(":0\r\n:1000\r\n:0\r\n:-1\r\n", "COST", "1001")
	leads(2)
	asks(":0\r\n:1000\r\n:0\r\n:43200000\r\n")
	at("2026-03-17T00:00")
	asks(":1\r\n:1000\r\n:0\r\n:0\r\n:2674800000\r\n", "COST", "1000")
	leads(0)
	asks(":0\r\n:1000\r\n:0\r\n:2674800000\r\n")
}
