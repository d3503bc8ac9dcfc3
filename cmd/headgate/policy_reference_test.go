package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy/calendar"
	"github.com/headgate-io/headgate/resp"
)

// wire asks one node after another, over connections of its own.
type wire struct {
	t     *testing.T
	conns []*client
	next  int
}

// wireCases are the cases of the reference. Those have units of some
// milliseconds, which pass while a test sends its calls. Here a unit takes ten
// seconds and more; the amounts are the same.
var wireCases = map[string]func(w *wire){
	"logins": checkLogins, "tiers": checkTiers, "tenants": checkTenants, "webhooks": checkWebhooks,
	"scraping": checkScraping, "costs": checkCosts, "resets": checkResets, "quotas": checkQuotas,
	"holds": checkHolds, "tokens": checkTokens, "offenders": checkOffenders, "exports": checkExports,
}

func TestPoliciesOverTheWire(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, addrs ...string) {
		awayFromMidnight()
		var cases sync.WaitGroup // all at once: they mostly wait
		for name, check := range wireCases {
			cases.Go(func() {
				t.Run(name, func(t *testing.T) { check(newWire(t, addrs...)) })
			})
		}
		cases.Wait()
	}
	t.Run("one node", func(t *testing.T) {
		t.Parallel()
		run(t, start(t).redis)
	})
	t.Run("three nodes", func(t *testing.T) {
		t.Parallel()
		// Nothing is degraded on a machine that is busy with other tests.
		c := startCluster(t, 3, "--on-failure=closed", "--raft-profile=slow", "--max-unacked=10s", "--forward-timeout=10s")
		run(t, c.nodes[0].redis, c.nodes[1].redis, c.nodes[2].redis)
	})
}

func newWire(t *testing.T, addrs ...string) *wire {
	w := &wire{t: t}
	for _, addr := range addrs {
		c := dial(t, "tcp", addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
		w.conns = append(w.conns, c)
	}
	return w
}

// set makes a text a policy, as soon as each node can read it.
func (w *wire) set(name, text string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return w.send([]string{"RL.POLICY", "SET", name, text})[0].Type == ':'
	}, waitLimit, 20*time.Millisecond)
}

// send sends commands to the next node in one go, and returns their replies.
func (w *wire) send(commands ...[]string) []resp.Reply {
	w.t.Helper()
	c := w.conns[w.next%len(w.conns)]
	w.next++
	var out []byte
	for _, args := range commands {
		out = resp.AppendCommand(out, args)
	}
	_, err := c.Write(out)
	require.NoError(w.t, err)
	var replies []resp.Reply
	for range commands {
		r, err := resp.ReadReply(c.in, 1<<20)
		require.NoError(w.t, err)
		replies = append(replies, r)
	}
	return replies
}

// verdict is the reply of an RL.CHECK.
type verdict struct {
	t                              *testing.T
	line                           string
	allowed                        bool
	limit, remaining, retry, delay int64
	name, reason, hold             string
	applied                        int64
	left, status                   map[string]int64
	over                           int64 // of a settlement
}

// checks sends the words of a line to RL.CHECK n times in one go.
func (w *wire) checks(n int, line string) (out []verdict) {
	w.t.Helper()
	commands := make([][]string, n)
	for i := range commands {
		commands[i] = strings.Fields("RL.CHECK " + line)
	}
	for _, r := range w.send(commands...) {
		out = append(out, w.verdict(line, r, 13))
	}
	return out
}

func (w *wire) check(line string) verdict { w.t.Helper(); return w.checks(1, line)[0] }

func (w *wire) reserve(line string) verdict {
	w.t.Helper()
	return w.verdict(line, w.send(strings.Fields("RL.RESERVE " + line))[0], 13)
}

// settle sends the words of a line, which is of RL.COMMIT or RL.CANCEL.
func (w *wire) settle(line string) verdict {
	w.t.Helper()
	r := w.send(strings.Fields(line))[0]
	v := w.verdict(line, r, 14)
	v.over = r.Elems[13].Int
	return v
}

// verdict reads a reply of so many fields.
func (w *wire) verdict(line string, r resp.Reply, fields int) verdict {
	w.t.Helper()
	require.EqualValues(w.t, '*', r.Type, "%s: %+v", line, r)
	require.Len(w.t, r.Elems, fields)
	v := verdict{
		t: w.t, line: line, allowed: r.Elems[0].Int == 1, limit: r.Elems[1].Int, remaining: r.Elems[2].Int, retry: r.Elems[3].Int, delay: r.Elems[5].Int,
		name: r.Elems[6].Str, reason: r.Elems[7].Str, hold: r.Elems[8].Str, applied: r.Elems[10].Int, left: map[string]int64{}, status: map[string]int64{},
	}
	for _, l := range r.Elems[11].Elems {
		v.left[l.Elems[0].Str], v.status[l.Elems[0].Str] = l.Elems[3].Int, l.Elems[9].Int
	}
	return v
}

// allows expects a call that passes, with the limit that decides it and what is
// left of some:
func (v verdict) allows(name, left string) {
	v.t.Helper()
	require.True(v.t, v.allowed, "%+v", v)
	v.says(name, left)
}

// denies expects a denial that ends within a time, but not within half of it; -1
// is a denial that never ends.
func (v verdict) denies(name string, within time.Duration, left string) {
	v.t.Helper()
	require.False(v.t, v.allowed, "%+v", v)
	if within < 0 {
		require.EqualValues(v.t, -1, v.retry, "%+v", v)
	} else {
		require.Greater(v.t, v.retry, within.Milliseconds()/2, "%+v", v)
		require.LessOrEqual(v.t, v.retry, within.Milliseconds(), "%+v", v)
	}
	v.says(name, left)
}

func (v verdict) says(name, left string) {
	v.t.Helper()
	require.Equal(v.t, name, v.name, "%+v", v)
	for _, f := range strings.Fields(left) {
		limit, want, _ := strings.Cut(f, "=")
		got, ok := v.left[limit]
		require.True(v.t, ok, "%s: %s does not apply", v.line, limit)
		require.Equal(v.t, want, fmt.Sprint(got), "%s: %s", v.line, limit)
	}
}

// wait waits as long as a denial says, and what the server's clock may be slower.
func (v verdict) wait() { time.Sleep(time.Duration(v.retry)*time.Millisecond + 100*time.Millisecond) }

// waitsUntil expects that the call passes at a midnight of the zone, that before
// the day that next returns. It allows for the time of the call and for clocks
// that differ.
func (v verdict) waitsUntil(next func(now time.Time) time.Time, zone string) {
	v.t.Helper()
	z, err := calendar.Zone(zone)
	require.NoError(v.t, err)
	now := time.Now().In(z)
	y, m, d := next(now).Date()
	left := time.Date(y, m, d, 0, 0, 0, 0, z).Sub(now)
	require.InDelta(v.t, left.Milliseconds(), v.retry, float64(awayFrom.Milliseconds()), "%+v", v)
}

// awayFrom is how far the cases are from the midnights that they are about.
const awayFrom = time.Minute

// awayFromMidnight waits for the next day of the zones of the cases, if that is near.
func awayFromMidnight() {
	for _, zone := range []string{"UTC", "America/New_York", "Europe/Paris"} {
		c, err := calendar.New(calendar.Rules{Zone: zone, Period: calendar.Day})
		if err != nil {
			panic(err)
		}
		if left := time.Until(time.Unix(0, c.Window(time.Now().UnixNano()).End)); left < awayFrom {
			time.Sleep(left)
		}
	}
}

// A quota of a month that begins on the 17th.
func checkQuotas(w *wire) {
	w.set("plan", `{durability: sync, on_failure: closed, limits: {month: {by: t, rate: 1000/month, calendar: {zone: Europe/Paris, anchor: 17}}}}`)
	w.check("plan t a COST 980").allows("month", "month=20")
	w.check("plan t a COST 20").allows("month", "month=0")
	w.check("plan t a").waitsUntil(func(now time.Time) time.Time {
		if now.Day() >= 17 {
			now = now.AddDate(0, 0, 16) // beyond the end of the month
		}
		return time.Date(now.Year(), now.Month(), 17, 0, 0, 0, 0, now.Location())
	}, "Europe/Paris")
	w.check("plan t a COST 1001").denies("month", -1, "month=0")
	w.check("plan t b").allows("month", "month=999")
}

// A login: by address, and by user with an exact log.
func checkLogins(w *wire) {
	w.set("login", `{on_failure: closed, limits: {ip: {by: ip, rate: 10/10m}, user: {by: user, rate: 5/10m, algorithm: log}}}`)
	for i := range 5 {
		w.check("login user bob ip 198.51.100.7").allows("user", fmt.Sprintf("user=%d ip=%d", 4-i, 9-i))
	}
	for range 3 {
		v := w.check("login user bob ip 198.51.100.7")
		v.denies("user", 10*time.Minute, "ip=5")
		require.Equal(w.t, "limit", v.reason)
	}
	w.check("login user eve ip 198.51.100.7").allows("ip", "ip=4 user=4")
}

// A login whose third denial blocks the user. Here the limit is one of five seconds,
// and the block one of eight.
func checkOffenders(w *wire) {
	w.set("signin", `{on_failure: closed, limits: {ip: {by: ip, rate: 10/10m}, user: {by: user, rate: 5/5s, algorithm: log,
		penalty: {after: 3, within: 10m, block: 8s}}}}`)
	const bob = "signin user bob ip 198.51.100.7"
	for i := range 5 {
		w.check(bob).allows("user", fmt.Sprintf("user=%d ip=%d", 4-i, 9-i))
	}
	for range 2 {
		v := w.check(bob)
		v.denies("user", 5*time.Second, "ip=5 user=0")
		require.Equal(w.t, "limit", v.reason)
	}
	v := w.check(bob)
	blocked := time.Now()
	v.denies("user", 8*time.Second, "ip=5 user=0")
	require.Equal(w.t, "penalty", v.reason)
	require.EqualValues(w.t, 8000, v.retry)
	require.EqualValues(w.t, 429, v.status["user"])
	w.check("signin user eve ip 198.51.100.7").allows("ip", "ip=4 user=4")
	explained := w.send(strings.Fields("RL.EXPLAIN POLICY signin user bob ip 198.51.100.7"))[0]
	require.Contains(w.t, fmt.Sprintf("%+v", explained), "blocked_ms")

	time.Sleep(time.Until(blocked.Add(6 * time.Second))) // the limit has room again
	for _, line := range []string{bob, bob + " PEEK", bob + " COST 0"} {
		v = w.check(line)
		v.denies("user", 2*time.Second, "ip=4 user=0")
		require.Equal(w.t, "penalty", v.reason, "knocking prolongs no block")
	}
	v.wait()
	w.check(bob).allows("ip", "ip=3 user=4")
}

// Tiers of an API: a caller who changes the tier keeps what was consumed.
func checkTiers(w *wire) {
	w.set("api", `{limits: {
			key: {by: key, tiers: {attribute: tier, free: 60/10m burst 10, pro: 600/1000m burst 100, default: 60/10m burst 10}},
			day: {by: key, calendar: UTC, tiers: {attribute: tier, free: 1000/day, pro: 100_000/day, default: 1000/day}}}}`)
	for i, v := range w.checks(10, "api key k1 tier free") {
		v.allows("key", fmt.Sprintf("key=%d day=%d", 9-i, 999-i))
	}
	v := w.check("api key k1 tier free")
	v.denies("key", 10*time.Second, "key=0 day=990")
	v.wait()
	w.check("api key k1 tier free").allows("key", "day=989")
	v = w.check("api key k1 tier pro")
	v.allows("key", "day=99988")
	require.EqualValues(w.t, 100, v.limit)
	require.GreaterOrEqual(w.t, v.remaining, int64(89), "ten units were in use")
	require.Less(w.t, v.remaining, int64(95))
	v = w.check("api key k2 tier gold")
	v.allows("key", "day=999")
	require.EqualValues(w.t, 10, v.limit)
}

// Tenants below a ceiling: what one limit denies the others do not count.
func checkTenants(w *wire) {
	w.set("saas", `{limits: {tenant: {by: tenant, rate: 100/2000s}, global: {rate: 150/2000s, status: 503}}}`)
	for i, v := range w.checks(100, "saas tenant A") {
		v.allows("tenant", fmt.Sprintf("tenant=%d global=%d", 99-i, 149-i))
	}
	a := w.check("saas tenant A")
	a.denies("tenant", 20*time.Second, "tenant=0 global=50")
	require.EqualValues(w.t, 429, a.status["tenant"])
	for i, v := range w.checks(50, "saas tenant B") {
		v.allows("global", fmt.Sprintf("tenant=%d global=%d", 99-i, 49-i))
	}
	v := w.check("saas tenant B")
	v.denies("global", 14*time.Second, "tenant=50 global=0")
	require.EqualValues(w.t, 503, v.status["global"])
	a.wait()
	w.check("saas tenant A").allows("tenant", "tenant=0")
	w.check("saas tenant A").denies("tenant", 20*time.Second, "tenant=0")
}

// Webhooks wait for their turn, up to a bound.
func checkWebhooks(w *wire) {
	w.set("hooks", `{limits: {host: {by: host, algorithm: leaky, rate: 2/20s burst 6, wait: 30s}}}`)
	calls := w.checks(5, "hooks host example.com")
	for i, v := range calls[:4] {
		v.allows("host", fmt.Sprintf("host=%d", 5-i))
		require.LessOrEqual(w.t, v.delay, int64(i)*10_000)
		require.GreaterOrEqual(w.t, v.delay, int64(i)*10_000-5_000)
	}
	v := calls[4]
	v.denies("host", 10*time.Second, "host=2")
	v.wait()
	v = w.check("hooks host example.com")
	v.allows("host", "")
	require.LessOrEqual(w.t, v.delay, int64(30_000))
	require.Greater(w.t, v.delay, int64(15_000))
}

// Addresses and networks, and who is let through.
func checkScraping(w *wire) {
	w.set("scrape", `{allow: [{ip: 192.0.2.0/28}], limits: {addr: {by: ip, rate: 30/10m}, net: {by: {ip: {v4: 24, v6: 48}}, algorithm: fixed, align: first, rate: 90/10m}}}`)
	for i, v := range w.checks(30, "scrape ip 2001:db8:1:1::a") {
		v.allows("addr", fmt.Sprintf("addr=%d net=%d", 29-i, 89-i))
	}
	w.check("scrape ip 2001:db8:1:1::b").denies("addr", 20*time.Second, "addr=0 net=60")
	for _, net := range []string{"2", "3"} {
		for i, v := range w.checks(30, "scrape ip 2001:db8:1:"+net+"::1") {
			v.allows("addr", fmt.Sprintf("addr=%d", 29-i))
		}
	}
	w.check("scrape ip 2001:db8:1:4::1").denies("net", 10*time.Minute, "addr=30 net=0")
	v := w.check("scrape ip 192.0.2.5")
	v.allows("", "")
	require.Equal(w.t, "allow", v.reason)
	require.Zero(w.t, v.applied)
	require.EqualValues(w.t, -1, v.remaining)
	w.check("scrape ip ::ffff:198.51.100.9").allows("addr", "addr=29")
	w.check("scrape ip 198.51.100.9").allows("addr", "addr=28")
	require.Equal(w.t, "ERR attribute 'ip' is not an IP address", w.send([]string{"RL.CHECK", "scrape", "ip", "x"})[0].Str)
}

// Costs that callers give, and a limit of some calls.
func checkCosts(w *wire) {
	w.set("gql", `{limits: {
			points: {by: [app, shop], rate: 50/1000s burst 1000, cost: points},
			writes: {by: [app, shop], rate: 20/1000m, when: {op: mutation}}}}`)
	v := w.reserve("gql app a shop s op query points 752 ID q1")
	v.allows("points", "points=248")
	require.EqualValues(w.t, 1, v.applied, "it is no write")
	v = w.settle("RL.COMMIT gql;q1 points 202") // 252 a second later, there
	v.allows("points", "points=798")
	require.Equal(w.t, "committed", v.reason)
	v = w.check("gql app a shop s points 1001")
	v.denies("points", -1, "points=798")
	require.EqualValues(w.t, 403, v.status["points"])
	w.check("gql app a shop s points 799").denies("points", 20*time.Second, "points=798")
	w.check("gql app a shop s points 798 op mutation").allows("points", "points=0 writes=19")
}

// Resets of passwords: addresses that differ in case are one.
func checkResets(w *wire) {
	w.set("reset", `{durability: sync, on_failure: closed, attributes: {email: {type: lower}}, limits: {
			account: {by: email, rate: 3/day, calendar: America/New_York}, ip: {by: ip, rate: 20/h, algorithm: sliding}}}`)
	for i, email := range []string{"Alice@x", "alice@x", "ALICE@x"} {
		w.check("reset email "+email+" ip 198.51.100.7").allows("account", fmt.Sprintf("account=%d", 2-i))
	}
	v := w.check("reset email aLICE@x ip 198.51.100.7")
	require.False(w.t, v.allowed)
	require.Equal(w.t, "account", v.name)
	v.waitsUntil(func(now time.Time) time.Time { return now.AddDate(0, 0, 1) }, "America/New_York")
	w.check("reset email bob@x ip 198.51.100.7").allows("account", "account=2")

	// A call that is repeated under an ID is charged once, and the ID serves no
	// other call.
	w.check("reset email carol@x ip 198.51.100.7").allows("account", "account=2")
	w.check("reset email carol@x ip 198.51.100.7 ID 7f3").allows("account", "account=1")
	v = w.check("reset email carol@x ip 198.51.100.7 ID 7f3")
	v.allows("account", "")
	require.EqualValues(w.t, 1, v.remaining)
	require.Empty(w.t, v.left)
	require.Equal(w.t, "IDCONFLICT '7f3' was given to another call", w.send(strings.Fields("RL.CHECK reset email bob@x ip 198.51.100.7 ID 7f3"))[0].Str)
	w.check("reset email carol@x ip 198.51.100.7").allows("account", "account=0")
	w.check("reset email bob@x ip 198.51.100.7").allows("account", "account=1")
}
