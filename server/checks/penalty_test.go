package checks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/server/checks"
)

// penalized expects a denial by a block, with its retry in ms.
func penalized(r *rig.Rig, line, name string, retry int64, left string) rig.Checked {
	r.T.Helper()
	c := r.Denies(line, name, retry, left)
	require.Equal(r.T, "penalty", c.Reason, line)
	return c
}

// signIn is a policy with a limit that one call uses up. Its second denial blocks for a minute.
// more is added to the policy.
func signIn(r *rig.Rig, more string) {
	r.T.Helper()
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 1/10s, algorithm: fixed, align: first, penalty: {after: 2, within: 5m, block: 1m}}`+more+`}}`)
}

// blocks has a user blocked from now on.
func blocks(r *rig.Rig, user string) {
	r.T.Helper()
	r.Allows("p user "+user, "a", "")
	r.Denies("p user "+user, "a", 10_000, "")
	penalized(r, "p user "+user, "a", 60_000, "a=0")
}

// The login of the reference.
func TestPenaltyOfALogin(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("login", `{on_failure: closed, limits: {ip: {by: ip, rate: 10/m}, user: {by: user, rate: 5/m, algorithm: log,
		penalty: {after: 3, within: 10m, block: 15m}}}}`)
	const bob = "login user bob ip 198.51.100.7"
	at := func(s float64) { r.At(time.Duration(s * float64(time.Second))) }
	for i := range 5 {
		at(float64(i) / 10)
		r.Allows(bob, "user", fmt.Sprintf("user=%d ip=%d", 4-i, 9-i))
	}
	at(1)
	require.Equal(t, "limit", r.Denies(bob, "user", 59_000, "ip=5").Reason)
	at(2)
	require.Equal(t, "limit", r.Denies(bob, "user", 58_000, "ip=5").Reason)
	at(3)
	require.EqualValues(t, 429, penalized(r, bob, "user", 900_000, "user=0 ip=5").Limits["user"].Status)
	at(4)
	r.Allows("login user eve ip 198.51.100.7", "ip", "ip=4 user=4")
	at(61)
	penalized(r, bob, "user", 842_000, "user=0")
	at(903)
	r.Allows(bob, "user", "user=4 ip=9")
}

// A blocked caller is shown, with how long the block lasts; looking changes nothing.
func TestPenaltiesAreShown(t *testing.T) {
	r := rig.New(t, engine.Config{})
	signIn(r, "")
	r.Allows("p user eve", "a", "")
	explained := func(line string) string {
		t.Helper()
		limit := rig.Pair(t, r.Words("RL.EXPLAIN POLICY p "+line), "limits").([]any)[0]
		return rig.Format([]any{rig.Pair(t, limit, "strikes"), rig.Pair(t, limit, "strikes_end_ms"), rig.Pair(t, limit, "blocked_ms")})
	}
	require.Equal(t, "[0 0 0]", explained("user eve"))
	r.Denies("p user eve", "a", 10_000, "")
	r.At(time.Second)
	for range 5 {
		r.Denies("p user eve PEEK", "a", 9000, "")
		require.Equal(t, "[1 299000 0]", explained("user eve"))
	}
	penalized(r, "p user eve", "a", 60_000, "a=0")
	r.Is("DBSIZE", "1")
	r.Is("KEYS *", "[@p:a;user=eve]") // the counter; the block is no key
	r.At(11 * time.Second)
	penalized(r, "p user eve PEEK", "a", 50_000, "a=0")
	penalized(r, "p user eve COST 0", "a", 50_000, "a=0")
	require.Equal(t, "[0 0 50000]", explained("user eve"))
	require.Equal(t, "penalty", rig.Pair(t, r.Words("RL.EXPLAIN POLICY p user eve"), "reason"))
	require.Equal(t, "[0 0 0]", explained("user bob"))
	top := r.Words("RL.TOP POLICY p").([]any)[0].([]any)
	require.Equal(t, []any{"@p:a;user=eve", int64(50_000)}, []any{top[0], top[3]})
	require.Len(t, r.Words("RL.TOP DENIED").([]any)[0], 3)
	require.Equal(t, checks.LimitCount{Policy: "p", Limit: "a", Allowed: 1, Denied: 1, Penalty: 2, Cost: 1}, r.Server.PolicyCounts()[1])

	// The block lasts longer than the counter.
	r.At(30 * time.Second)
	r.Is("KEYS *", "[]")
	x := r.Words("RL.EXPLAIN @p:a;user=eve")
	require.EqualValues(t, 31_000, rig.Pair(t, x, "blocked_ms"))
	require.Equal(t, "a", rig.Pair(t, x, "name"))
	require.EqualValues(t, 1, rig.Pair(t, x, "remaining"))
	require.EqualValues(t, 0, rig.Pair(t, x, "expires_ms"))
	r.Is("RL.EXPLAIN @p:a;user=bob", "nil")
	r.Is("RL.EXPLAIN @p:none;user=eve", "nil")

	r.At(2 * time.Minute)
	r.Is("RL.EXPLAIN @p:a;user=eve", "nil")
	r.Allows("p user eve", "a", "")
	r.Denies("p user eve", "a", 10_000, "")
	x = r.Words("RL.EXPLAIN @p:a;user=eve")
	require.EqualValues(t, 1, rig.Pair(t, x, "strikes"))
	require.EqualValues(t, 0, rig.Pair(t, x, "blocked_ms"))
}

// Lists come before penalties, and these before limits.
func TestPenaltiesBetweenListsAndLimits(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{deny: [{ip: 192.0.2.1}], allow: [{ip: 10.0.0.0/8}], hold: {share: 50%}, limits: {
		m: {by: tenant, rate: 5/h, missing: deny},
		a: {by: user, rate: 1/10s, algorithm: fixed, align: first, status: 503, penalty: {after: 2, within: 5m, block: 1m}}}}`)
	held := r.Words("RL.CHECK p user eve tenant x ID first")
	r.Denies("p user eve tenant x", "a", 10_000, "m=4")
	c := penalized(r, "p user eve tenant x", "a", 60_000, "a=0 m=4")
	require.EqualValues(t, 503, c.Limits["a"].Status)
	require.EqualValues(t, 200, c.Limits["m"].Status)
	require.Equal(t, "deny", r.Check("p user eve tenant x ip 192.0.2.1").Reason)
	require.Equal(t, "allow", r.Check("p user eve tenant x ip 10.1.1.1").Reason)
	penalized(r, "p user eve", "a", -1, "a=0") // no wait brings the tenant
	penalized(r, "p user eve tenant x COST 9", "a", -1, "a=0")
	again := r.Words("RL.CHECK p user eve tenant x ID first").([]any)
	require.Equal(t, held.([]any)[:9], again[:9], "a call that was made is answered the same")
	require.Equal(t, "penalty", r.Reserve("p user eve tenant x").Reason)
	require.EqualValues(t, -1, r.Reserve("p user eve tenant x COST 2").Retry, "more than a hold may take")
	r.Allows("p user bob tenant x", "a", "m=3")

	// To ask for more than a hold may take is no strike, whether there is room or not.
	r.SetPolicy("s", `{hold: {share: 50%}, limits: {u: {by: u, rate: 10/m, penalty: {after: 2, block: 15m}}, v: {by: u, rate: 10/m}}}`)
	r.Allows("s u x COST 5", "u", "u=5 v=5")
	for range 3 {
		c := r.Reserve("s u x COST 6")
		require.Equal(t, []any{"limit", "u", int64(-1)}, []any{c.Reason, c.Name, c.Retry})
		require.EqualValues(t, -1, c.Limits["v"].Retry, "of each limit")
		require.EqualValues(t, 5, c.Limits["v"].Remaining)
	}
	r.Allows("s u x", "u", "u=4")
}

// An edit of blocks applies to present blocks.
func TestEditsOfPenaltiesAtOnce(t *testing.T) {
	r := rig.New(t, engine.Config{})
	signIn(r, "")
	edit := func(penalty string) {
		t.Helper()
		r.SetPolicy("p", `{limits: {a: {by: user, rate: 1/10s, algorithm: fixed, align: first`+penalty+`}}}`)
	}
	blocks(r, "eve")
	r.At(20 * time.Second)
	edit(", penalty: {after: 2, within: 5m, block: 10m}")
	penalized(r, "p user eve", "a", 40_000, "")
	edit(", penalty: {after: 2, within: 5m, block: 30s}")
	penalized(r, "p user eve", "a", 10_000, "")
	edit(", penalty: {after: 2, within: 5m, block: 15s}")
	r.Allows("p user eve", "a", "a=0")
	edit(", penalty: {after: 2, within: 5m, block: 1m}, mode: shadow")
	r.Allows("p user eve", "", "")
	edit(", penalty: {after: 2, within: 5m, block: 1m}")
	penalized(r, "p user eve", "a", 40_000, "")
	edit("")
	r.Denies("p user eve", "a", 10_000, "")
	edit(", penalty: {after: 2, within: 5m, block: 1m}") // a released caller is not blocked again
	r.Denies("p user eve", "a", 10_000, "")
	penalized(r, "p user eve", "a", 60_000, "")

	r.Words("RL.POLICY DEL p")
	signIn(r, "") // as counters do, blocks go on
	penalized(r, "p user eve", "a", 60_000, "")
	r.Is("RL.POLICY RESET p user eve", "1")
	blocks(r, "eve")
	blocks(r, "bob")
	r.Is("RL.POLICY RESET p user bob", "1")
	penalized(r, "p user eve", "a", 60_000, "")
	blocks(r, "bob")
	r.Words("RL.POLICY RESET p")
	r.Is("RL.POLICY RESET p user eve", "0") // it was forgiven with all
	blocks(r, "eve")
	r.Is("FLUSHALL", "OK")
	blocks(r, "eve")
	r.Raw("RL.POLICY", "SET", "p", "CHANGE", "RESET", `{limits: {a: {by: user, rate: 2/10s, algorithm: fixed, align: first, penalty: {after: 2, block: 1m}}}}`)
	r.Allows("p user eve", "a", "a=1")
}

// Strikes count within the period of the rate unless the penalty says so, of a day
// of a calendar within 24 hours.
func TestStrikesCountWithinThePeriod(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 1/10s, algorithm: fixed, penalty: {after: 2, block: 1m}}}}`)
	r.SetPolicy("q", `{limits: {a: {by: user, rate: 1/day, calendar: UTC, penalty: {after: 2, block: 1m}}}}`)
	for i, wait := range []time.Duration{0, 10 * time.Second} {
		r.At(wait)
		r.Allows("p user eve", "a", "")
		require.Equal(t, "limit", r.Check("p user eve").Reason, i)
	}
	penalized(r, "p user eve", "a", 60_000, "")
	r.Allows("q user eve", "a", "")
	require.Equal(t, "limit", r.Check("q user eve").Reason)
	r.At(24 * time.Hour)
	r.Allows("q user eve", "a", "")
	penalized(r, "q user eve", "a", 24*3600_000, "a=0") // until midnight, which is later
}
