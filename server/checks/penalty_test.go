package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/checks"
)

// penalized expects a denial by a block, with its retry in ms.
func (r *rig) penalized(line, name string, retry int64, left string) checked {
	r.t.Helper()
	c := r.denies(line, name, retry, left)
	require.Equal(r.t, "penalty", c.reason, line)
	return c
}

// signIn is a policy of a limit that one call uses up, whose second denial blocks
// for a minute, with what a test adds to that.
func (r *rig) signIn(more string) {
	r.t.Helper()
	r.setPolicy("p", `{limits: {a: {by: user, rate: 1/10s, algorithm: fixed, align: first, penalty: {after: 2, within: 5m, block: 1m}}`+more+`}}`)
}

// blocks has a user blocked from now on.
func (r *rig) blocks(user string) {
	r.t.Helper()
	r.allows("p user "+user, "a", "")
	r.denies("p user "+user, "a", 10_000, "")
	r.penalized("p user "+user, "a", 60_000, "a=0")
}

// The login of the reference.
func TestPenaltyOfALogin(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("login", `{on_failure: closed, limits: {ip: {by: ip, rate: 10/m}, user: {by: user, rate: 5/m, algorithm: log,
		penalty: {after: 3, within: 10m, block: 15m}}}}`)
	const bob = "login user bob ip 198.51.100.7"
	at := func(s float64) { r.at(time.Duration(s * float64(time.Second))) }
	for i := range 5 {
		at(float64(i) / 10)
		r.allows(bob, "user", fmt.Sprintf("user=%d ip=%d", 4-i, 9-i))
	}
	at(1)
	require.Equal(t, "limit", r.denies(bob, "user", 59_000, "ip=5").reason)
	at(2)
	require.Equal(t, "limit", r.denies(bob, "user", 58_000, "ip=5").reason)
	at(3)
	require.EqualValues(t, 429, r.penalized(bob, "user", 900_000, "user=0 ip=5").limits["user"].status)
	at(4)
	r.allows("login user eve ip 198.51.100.7", "ip", "ip=4 user=4")
	at(61)
	r.penalized(bob, "user", 842_000, "user=0")
	at(903)
	r.allows(bob, "user", "user=4 ip=9")
}

// Who is blocked, since when and for how long, is told; asking changes nothing.
func TestPenaltiesAreShown(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.signIn("")
	r.allows("p user eve", "a", "")
	explained := func(line string) string {
		t.Helper()
		limit := pair(t, r.words("RL.EXPLAIN POLICY p "+line), "limits").([]any)[0]
		return format([]any{pair(t, limit, "strikes"), pair(t, limit, "strikes_end_ms"), pair(t, limit, "blocked_ms")})
	}
	require.Equal(t, "[0 0 0]", explained("user eve"))
	r.denies("p user eve", "a", 10_000, "")
	r.at(time.Second)
	for range 5 {
		r.denies("p user eve PEEK", "a", 9000, "")
		require.Equal(t, "[1 299000 0]", explained("user eve"))
	}
	r.penalized("p user eve", "a", 60_000, "a=0")
	r.is("DBSIZE", "1")
	r.is("KEYS *", "[@p:a;user=eve]") // the counter; the block is no key
	r.at(11 * time.Second)
	r.penalized("p user eve PEEK", "a", 50_000, "a=0")
	r.penalized("p user eve COST 0", "a", 50_000, "a=0")
	require.Equal(t, "[0 0 50000]", explained("user eve"))
	require.Equal(t, "penalty", pair(t, r.words("RL.EXPLAIN POLICY p user eve"), "reason"))
	require.Equal(t, "[0 0 0]", explained("user bob"))
	top := r.words("RL.TOP POLICY p").([]any)[0].([]any)
	require.Equal(t, []any{"@p:a;user=eve", int64(50_000)}, []any{top[0], top[3]})
	require.Len(t, r.words("RL.TOP DENIED").([]any)[0], 3)
	require.Equal(t, checks.LimitCount{Policy: "p", Limit: "a", Allowed: 1, Denied: 1, Penalty: 2, Cost: 1}, r.s.PolicyCounts()[1])

	r.at(2 * time.Minute)
	r.allows("p user eve", "a", "")
	r.denies("p user eve", "a", 10_000, "")
	x := r.words("RL.EXPLAIN @p:a;user=eve")
	require.EqualValues(t, 1, pair(t, x, "strikes"))
	require.EqualValues(t, 0, pair(t, x, "blocked_ms"))
}

// Lists come before penalties, and these before limits.
func TestPenaltiesBetweenListsAndLimits(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{deny: [{ip: 192.0.2.1}], allow: [{ip: 10.0.0.0/8}], hold: {share: 50%}, limits: {
		m: {by: tenant, rate: 5/h, missing: deny},
		a: {by: user, rate: 1/10s, algorithm: fixed, align: first, status: 503, penalty: {after: 2, within: 5m, block: 1m}}}}`)
	held := r.words("RL.CHECK p user eve tenant x ID first")
	r.denies("p user eve tenant x", "a", 10_000, "m=4")
	c := r.penalized("p user eve tenant x", "a", 60_000, "a=0 m=4")
	require.EqualValues(t, 503, c.limits["a"].status)
	require.EqualValues(t, 200, c.limits["m"].status)
	require.Equal(t, "deny", r.check("p user eve tenant x ip 192.0.2.1").reason)
	require.Equal(t, "allow", r.check("p user eve tenant x ip 10.1.1.1").reason)
	r.penalized("p user eve", "a", -1, "a=0") // no wait brings the tenant
	r.penalized("p user eve tenant x COST 9", "a", -1, "a=0")
	again := r.words("RL.CHECK p user eve tenant x ID first").([]any)
	require.Equal(t, held.([]any)[:9], again[:9], "a call that was made is answered the same")
	require.Equal(t, "penalty", r.reserve("p user eve tenant x").reason)
	require.EqualValues(t, -1, r.reserve("p user eve tenant x COST 2").retry, "more than a hold may take")
	r.allows("p user bob tenant x", "a", "m=3")

	// To ask for more than a hold may take is no strike, whether there is room or not.
	r.setPolicy("s", `{hold: {share: 50%}, limits: {u: {by: u, rate: 10/m, penalty: {after: 2, block: 15m}}, v: {by: u, rate: 10/m}}}`)
	r.allows("s u x COST 5", "u", "u=5 v=5")
	for range 3 {
		c := r.reserve("s u x COST 6")
		require.Equal(t, []any{"limit", "u", int64(-1)}, []any{c.reason, c.name, c.retry})
		require.EqualValues(t, -1, c.limits["v"].retry, "of each limit")
		require.EqualValues(t, 5, c.limits["v"].remaining)
	}
	r.allows("s u x", "u", "u=4")
}

// What an edit says of blocks holds for those that there are.
func TestEditsOfPenaltiesAtOnce(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.signIn("")
	edit := func(penalty string) {
		t.Helper()
		r.setPolicy("p", `{limits: {a: {by: user, rate: 1/10s, algorithm: fixed, align: first`+penalty+`}}}`)
	}
	r.blocks("eve")
	r.at(20 * time.Second)
	edit(", penalty: {after: 2, within: 5m, block: 10m}")
	r.penalized("p user eve", "a", 40_000, "")
	edit(", penalty: {after: 2, within: 5m, block: 30s}")
	r.penalized("p user eve", "a", 10_000, "")
	edit(", penalty: {after: 2, within: 5m, block: 15s}")
	r.allows("p user eve", "a", "a=0")
	edit(", penalty: {after: 2, within: 5m, block: 1m}, mode: shadow")
	r.allows("p user eve", "", "")
	edit(", penalty: {after: 2, within: 5m, block: 1m}")
	r.penalized("p user eve", "a", 40_000, "")
	edit("")
	r.denies("p user eve", "a", 10_000, "")
	edit(", penalty: {after: 2, within: 5m, block: 1m}") // who was let go is not taken back
	r.denies("p user eve", "a", 10_000, "")
	r.penalized("p user eve", "a", 60_000, "")

	r.words("RL.POLICY DEL p")
	r.signIn("") // as counters do, blocks go on
	r.penalized("p user eve", "a", 60_000, "")
	r.is("RL.POLICY RESET p user eve", "1")
	r.blocks("eve")
	r.blocks("bob")
	r.is("RL.POLICY RESET p user bob", "1")
	r.penalized("p user eve", "a", 60_000, "")
	r.blocks("bob")
	r.words("RL.POLICY RESET p")
	r.is("RL.POLICY RESET p user eve", "0") // it was forgiven with all
	r.blocks("eve")
	r.is("FLUSHALL", "OK")
	r.blocks("eve")
	r.raw("RL.POLICY", "SET", "p", "CHANGE", "RESET", `{limits: {a: {by: user, rate: 2/10s, algorithm: fixed, align: first, penalty: {after: 2, block: 1m}}}}`)
	r.allows("p user eve", "a", "a=1")
}

// Strikes count within the period of the rate unless the penalty says so, of a day
// of a calendar within 24 hours.
func TestStrikesCountWithinThePeriod(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {a: {by: user, rate: 1/10s, algorithm: fixed, penalty: {after: 2, block: 1m}}}}`)
	r.setPolicy("q", `{limits: {a: {by: user, rate: 1/day, calendar: UTC, penalty: {after: 2, block: 1m}}}}`)
	for i, wait := range []time.Duration{0, 10 * time.Second} {
		r.at(wait)
		r.allows("p user eve", "a", "")
		require.Equal(t, "limit", r.check("p user eve").reason, i)
	}
	r.penalized("p user eve", "a", 60_000, "")
	r.allows("q user eve", "a", "")
	require.Equal(t, "limit", r.check("q user eve").reason)
	r.at(24 * time.Hour)
	r.allows("q user eve", "a", "")
	r.penalized("q user eve", "a", 24*3600_000, "a=0") // until midnight, which is later
}

// A denial that is a strike waits until it is durable, as what is charged does.
func TestStrikesWaitForTheirCommit(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{durability: sync, limits: {a: {by: user, rate: 1/h, penalty: {after: 2, block: 1h}}}}`)
	leader.commit(t, follower)
	leader.s.Partition().Release(1, nil)
	leader.m.lane.runPosts()
	require.Equal(t, ":1\r\n", leader.m.take())
	for i, want := range []string{":1\r\n", ":0\r\n", ":0\r\n"} {
		leader.f.ticket.Store(uint64(2 + i))
		leader.m.feed(encode("RL.CHECK", "p", "user", "eve"))
		require.Empty(t, leader.m.take(), "not committed")
		leader.commit(t, follower)
		leader.s.Partition().Release(uint64(2+i), nil)
		leader.m.lane.runPosts()
		reply := leader.m.take()
		require.True(t, strings.HasPrefix(reply, "*13\r\n"+want), reply)
	}
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	follower.m.feed(encode("RL.CHECK", "p", "user", "eve"))
	follower.s.Partition().Release(9, nil)
	follower.m.lane.runPosts()
	require.Contains(t, follower.m.take(), "penalty")
}
