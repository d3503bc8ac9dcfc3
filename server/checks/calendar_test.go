package checks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// on moves the clock to a time such as 2026-03-16T12:00:00+01:00.
func on(r *rig.Rig, when string) {
	r.T.Helper()
	at, err := time.Parse(time.RFC3339, when)
	require.NoError(r.T, err)
	r.Set(at.UnixNano())
}

// The reference's case of a monthly quota, which is one of 743 hours where the
// clocks go forward.
func TestPolicyOfAMonth(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("plan", `{durability: sync, on_failure: closed, limits: {month: {by: t, rate: 1000/month, calendar: {zone: Europe/Paris, anchor: 17}}}}`)
	on(r, "2026-03-16T12:00:00+01:00")
	r.Allows("plan t a COST 980", "month", "month=20")
	r.Allows("plan t a COST 20", "month", "month=0")
	r.Denies("plan t a", "month", 43_200_000, "month=0")
	r.Denies("plan t a COST 1001", "month", -1, "month=0")
	on(r, "2026-03-16T23:59:59+01:00")
	r.Denies("plan t a", "month", 1000, "")
	on(r, "2026-03-17T00:00:00+01:00")
	c := r.Allows("plan t a COST 1000", "month", "month=0")
	require.EqualValues(t, 2_674_800_000, c.Reset)
	r.Denies("plan t a", "month", 2_674_800_000, "")
	on(r, "2026-04-17T00:00:00+02:00")
	r.Allows("plan t a", "month", "month=999")
}

// The reference's case of tiers with a day of UTC.
func TestPolicyOfTiersAndDays(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("api", `{limits: {
		key: {by: key, tiers: {attribute: tier, free: 60/m burst 10, pro: 600/m burst 100, default: 60/m burst 10}},
		day: {by: key, calendar: UTC, tiers: {attribute: tier, free: 1000/day, pro: 100_000/day, default: 1000/day}}}}`)
	for i := range 10 {
		r.Allows("api key k1 tier free", "key", fmt.Sprintf("key=%d day=%d", 9-i, 999-i))
	}
	r.Denies("api key k1 tier free", "key", 1000, "day=990")
	r.At(999 * time.Millisecond)
	r.Denies("api key k1 tier free", "key", 1, "")
	r.At(time.Second)
	r.Allows("api key k1 tier free", "key", "key=0 day=989")
	r.Allows("api key k1 tier pro", "key", "key=89 day=99988")
	c := r.Allows("api key k2 tier gold", "key", "day=999")
	require.Equal(t, (24*time.Hour - time.Second).Milliseconds(), c.Limits["day"].Reset)
}

// The reference's case of password resets: a day of New York that has 25 hours.
func TestPolicyOfADayOf25Hours(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("reset", `{durability: sync, on_failure: closed, attributes: {email: {type: lower}}, limits: {
		account: {by: email, rate: 3/day, calendar: America/New_York}, ip: {by: ip, rate: 20/h, algorithm: sliding}}}`)
	on(r, "2026-10-31T23:50:00-04:00")
	for i, email := range []string{"Alice@x", "alice@x", "ALICE@x"} {
		r.Allows("reset email "+email+" ip 198.51.100.7", "account", fmt.Sprintf("account=%d", 2-i))
	}
	r.Denies("reset email aLICE@x ip 198.51.100.7", "account", 600_000, "account=0 ip=17")
	on(r, "2026-11-01T00:00:00-04:00")
	r.Allows("reset email alice@x", "account", "account=2")
	r.Allows("reset email alice@x", "account", "account=1")
	on(r, "2026-11-01T00:01:00-04:00")
	r.Allows("reset email alice@x", "account", "account=0")
	r.Denies("reset email alice@x", "account", 89_940_000, "account=0")
}

// RL.EXPLAIN shows a window, and an override's rate in it.
func TestExplainOfACalendar(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {month: {by: t, rate: 10/month, calendar: {zone: UTC, at: 06:00}}, s: {rate: 5/s}}}`)
	r.Allows("p t a COST 4", "s", "month=6")
	begin, end := time.Date(2026, 2, 1, 6, 0, 0, 0, time.UTC).UnixMilli(), time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC).UnixMilli()
	limits := rig.Pair(t, r.Words("RL.EXPLAIN POLICY p t a"), "limits").([]any)
	require.EqualValues(t, begin, rig.Pair(t, limits[0], "window_begin_ms"))
	require.EqualValues(t, end, rig.Pair(t, limits[0], "window_end_ms"))
	require.EqualValues(t, end-rig.Start/1e6, rig.Pair(t, limits[0], "reset_after_ms"))
	require.NotContains(t, limits[1], "window_end_ms")

	x := r.Words("RL.EXPLAIN @p:month;t=a")
	require.Equal(t, "policy", rig.Pair(t, x, "type"))
	require.Equal(t, "calendar", rig.Pair(t, x, "algorithm"))
	require.EqualValues(t, 10, rig.Pair(t, x, "limit"))
	require.EqualValues(t, end, rig.Pair(t, x, "window_end_ms"))
	require.EqualValues(t, 6, rig.Pair(t, x, "remaining"))
	require.NotContains(t, x, "period")
	require.NotContains(t, x, "align")

	r.Is("RL.OVERRIDE SET p LIMIT month RATE 9/day t a", "-ERR all rates of a limit with a calendar must have the same period: this rate is per day, another rate is per month")
	r.Is("RL.OVERRIDE SET p LIMIT month RATE 20/month t a", "OK")
	r.Is("RL.OVERRIDE SET p SCALE 50%", "OK")
	r.At(2 * time.Second)
	r.Allows("p t a PEEK", "s", "month=15")
	r.Allows("p t b COST 2", "s", "month=8")
	require.Contains(t, rig.Format(r.Do("RL.POLICY", "SET", "p", "DRYRUN", `{limits: {month: {by: t, rate: 3/month, calendar: {zone: UTC, at: 06:00}}, s: {rate: 5/s}}}`)),
		"p: limits.month: live counters: 2, over: 0")
	require.Contains(t, rig.Format(r.Parse(r.Raw("RL.POLICY", "SET", "p", `{limits: {month: {by: t, rate: 10/month, calendar: UTC}, s: {rate: 5/s}}}`))),
		"policy 'p': limit 'month' counts by the month of UTC at 06:00, not the month of UTC: use CHANGE reset, or another id")
}

// A quota is stopped, or lifted, by an edit of its rate, and counts on afterwards.
func TestARateOfNoPeriodKeepsTheCount(t *testing.T) {
	r := rig.New(t, engine.Config{})
	day := func(rate string) {
		r.SetPolicy("p", `{limits: {day: {by: t, rate: `+rate+`, calendar: UTC, count: all}, s: {rate: 100/s}}}`)
	}
	day("10/day")
	r.Allows("p t a COST 4", "day", "day=6")
	r.Is("RL.OVERRIDE SET p LIMIT day RATE 20/day t b", "OK")
	dry := func(text string) string { return rig.Format(r.Parse(r.Raw("RL.POLICY", "SET", "p", "DRYRUN", text))) }
	require.NotContains(t, dry(`{limits: {day: {by: t, rate: 5/day, calendar: UTC}}}`), "sleep")
	require.Contains(t, dry(`{limits: {day: {by: t, rate: blocked, calendar: UTC}}}`), "p: overrides of RL.OVERRIDE that sleep then: 1")
	require.Contains(t, dry(`{limits: {other: {by: t, rate: 5/day}}}`), "p: overrides of RL.OVERRIDE that sleep then: 1")
	day("blocked")
	r.Denies("p t a", "day", -1, "day=0")
	r.Denies("p t b", "day", -1, "day=0") // its override sleeps
	r.Is("RL.OVERRIDE SET p LIMIT day RATE 9/day t a", "-ERR the calendar has no period, because all rates of the limit are unlimited or blocked")
	require.NotContains(t, dry(`{limits: {other: {by: t, rate: 5/day}}}`), "sleep", "it does already")
	day("unlimited")
	r.Allows("p t a COST 9", "s", "")
	day("10/day")
	r.Allows("p t a", "day", "day=5")
	r.Allows("p t b", "day", "day=19")
	day("blocked")
	require.Contains(t, rig.Format(r.Parse(r.Raw("RL.POLICY", "SET", "p", `{limits: {day: {by: t, rate: 10/month, calendar: UTC, count: all}, s: {rate: 100/s}}}`))),
		"policy 'p': limit 'day' counts by the day of UTC, not the month of UTC: use CHANGE reset, or another id")
}
