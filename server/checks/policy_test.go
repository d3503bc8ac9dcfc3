package checks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// A tenant's limit below a global one: what one denies the other does not take.
func TestPolicyOfTenantsAndAll(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("saas", `{limits: {tenant: {by: tenant, rate: 100/s}, global: {rate: 150/s, status: 503}}}`)
	for i := range 100 {
		r.Allows("saas tenant A", "tenant", fmt.Sprintf("tenant=%d global=%d", 99-i, 149-i))
	}
	c := r.Denies("saas tenant A", "tenant", 10, "tenant=0 global=50")
	require.Equal(t, "limit", c.Reason)
	require.EqualValues(t, 429, c.Limits["tenant"].Status)
	require.EqualValues(t, 200, c.Limits["global"].Status)
	for i := range 50 {
		c = r.Allows("saas tenant B", "global", fmt.Sprintf("tenant=%d global=%d", 99-i, 49-i))
	}
	c = r.Denies("saas tenant B", "global", 7, "tenant=50 global=0")
	require.EqualValues(t, 503, c.Limits["global"].Status)
	r.At(10 * time.Millisecond)
	r.Allows("saas tenant A", "tenant", "tenant=0 global=0")
	r.Denies("saas tenant A", "tenant", 10, "")
}

// A queue with a bound on the wait.
func TestPolicyOfWebhooks(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("hooks", `{limits: {host: {by: host, algorithm: leaky, rate: 2/s burst 6, wait: 1500ms}}}`)
	for i := range int64(4) {
		c := r.Allows("hooks host example.com", "host", fmt.Sprintf("host=%d", 5-i))
		require.Equal(t, 500*i, c.Delay)
	}
	r.Denies("hooks host example.com", "host", 500, "host=2")
	r.At(500 * time.Millisecond)
	c := r.Allows("hooks host example.com", "host", "host=2")
	require.EqualValues(t, 1500, c.Delay)
}

// Addresses and networks, and who is allowed whatever they say.
func TestPolicyAgainstScraping(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("scrape", `{allow: [{ip: 192.0.2.0/28}], limits: {addr: {by: ip, rate: 30/m}, net: {by: {ip: {v4: 24, v6: 48}}, algorithm: fixed, rate: 90/m}}}`)
	for range 30 {
		r.Allows("scrape ip 2001:db8:1:1::a", "addr", "")
	}
	r.Denies("scrape ip 2001:db8:1:1::b", "addr", 2000, "addr=0 net=60")
	for _, net := range []string{"2", "3"} {
		for range 30 {
			r.Allows("scrape ip 2001:db8:1:"+net+"::1", "addr", "")
		}
	}
	r.Denies("scrape ip 2001:db8:1:4::1", "net", 60_000, "addr=30 net=0")
	c := r.Allows("scrape ip 192.0.2.5", "", "")
	require.Equal(t, "allow", c.Reason)
	require.Zero(t, c.Applied)
	require.EqualValues(t, -1, c.Limit)
	require.EqualValues(t, -1, c.Remaining)
	r.Allows("scrape ip ::ffff:198.51.100.9", "addr", "addr=29")
	r.Allows("scrape ip 198.51.100.9", "addr", "addr=28")
	r.Is("RL.CHECK scrape ip x", "-ERR attribute 'ip' is not an IP address")
}

// Tiers: a caller who moves to another tier keeps what was consumed. The day is UTC's.
func TestPolicyOfTiers(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("api", `{limits: {
		key: {by: key, tiers: {attribute: tier, free: 60/m burst 10, pro: 600/m burst 100, default: 60/m burst 10}},
		day: {by: key, algorithm: fixed, tiers: {attribute: tier, free: 1000/day, pro: 100_000/day, default: 1000/day}}}}`)
	for i := range 10 {
		r.Allows("api key k1 tier free", "key", fmt.Sprintf("key=%d day=%d", 9-i, 999-i))
	}
	r.Denies("api key k1 tier free", "key", 1000, "day=990")
	r.At(999 * time.Millisecond)
	r.Denies("api key k1 tier free", "key", 1, "")
	r.At(time.Second)
	r.Allows("api key k1 tier free", "key", "key=0 day=989")
	r.Allows("api key k1 tier pro", "key", "key=89 day=99988")
	r.Denies("api key k2 tier gold COST 11", "key", -1, "")
}

// Costs in attributes, and limits that only apply to some calls.
func TestPolicyOfCosts(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("gql", `{limits: {
		points: {by: [app, shop], rate: 50/s burst 1000, cost: points},
		writes: {by: [app, shop], rate: 20/m, when: {op: mutation}}}}`)
	c := r.Denies("gql app a shop s points 1001", "points", -1, "points=1000")
	require.EqualValues(t, 1, c.Applied)
	require.EqualValues(t, 403, c.Limits["points"].Status)
	r.Allows("gql app a shop s points 202", "points", "points=798")
	r.Denies("gql app a shop s points 799", "points", 20, "points=798")
	r.Allows("gql app a shop s points 798 op mutation", "points", "points=0 writes=19")
	c = r.Allows("gql app a shop s op mutation", "writes", "writes=18")
	require.EqualValues(t, 1, c.Applied, "a call without the attribute that has the cost is not one of the limit's")
	r.Is("RL.CHECK gql app a shop s points many", "-ERR attribute 'points' is a cost: its value must be a whole number from 0 to 4611686018427387903")
}

// A login by address and by user; the user's limit is an exact log.
func TestPolicyOfLogins(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("login", `{on_failure: closed, limits: {ip: {by: ip, rate: 10/m}, user: {by: user, rate: 5/m, algorithm: log}}}`)
	for i := range 5 {
		r.At(time.Duration(i) * 100 * time.Millisecond)
		r.Allows("login user bob ip 198.51.100.7", "user", fmt.Sprintf("user=%d ip=%d", 4-i, 9-i))
	}
	r.At(time.Second)
	r.Denies("login user bob ip 198.51.100.7", "user", 59_000, "ip=5")
	r.At(2 * time.Second)
	r.Denies("login user bob ip 198.51.100.7", "user", 58_000, "ip=5")
	r.At(4 * time.Second)
	r.Allows("login user eve ip 198.51.100.7", "ip", "user=4 ip=4")
}

func TestCheckArguments(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("RL.CHECK p", "-NOPOLICY there is no policy 'p'")
	r.SetPolicy("p", `{require: [user], attributes: {email: {type: lower}}, deny: [{user: "bot-*"}],
		limits: {a: {by: user, rate: 5/m}, b: {by: email, rate: 5/m, missing: deny}, c: {rate: 3/m, mode: soft}, d: {rate: 3/m, mode: shadow}}}`)
	r.Is("RL.CHECK p", "-ERR policy 'p' requires attribute 'user'")
	r.Is("RL.CHECK p user", "-ERR attribute 'user' has no value")
	r.Is("RL.CHECK p user x user y", "-ERR attribute 'user' is given twice")
	r.Is("RL.CHECK p user x COST", "-ERR syntax error")
	r.Is("RL.CHECK p user x COST many", "-ERR value is not an integer or out of range")
	r.Is("RL.CHECK p user x COST -1", "-ERR COST must be 0 or more")
	r.Is("RL.CHECK p user x SYNC ASYNC", "-ERR SYNC and ASYNC exclude each other")
	for _, twice := range []string{"COST 1 COST 2", "PEEK PEEK", "SYNC SYNC", "ASYNC ASYNC", "FAIL open FAIL closed"} {
		word, _, _ := strings.Cut(twice, " ")
		r.Is("RL.CHECK p user x "+twice, "-ERR syntax error, "+word+" is given twice")
	}
	for _, line := range []string{"SET p IF 1 IF 1 {}", "SET p DRYRUN dryrun {}", "LOAD CHANGE keep change keep {}", "DEL p RESET reset"} {
		require.Contains(t, rig.Format(r.Words("RL.POLICY "+line)), "is given twice", line)
	}
	r.Is("RL.CHECK p user x ID", "-ERR syntax error")
	require.Contains(t, rig.Format(r.Words("RL.CHECK p user x USER y")), "-ERR")

	c := r.Denies("p user bot-7 email x@y", "", -1, "")
	require.Equal(t, "deny", c.Reason)
	require.Zero(t, c.Applied)
	c = r.Denies("p user eve", "b", -1, "a=5")
	require.Equal(t, "missing", c.Reason)
	require.EqualValues(t, 403, c.Limits["b"].Status)
	require.EqualValues(t, 4, c.Applied)
	r.Allows("p user cost email Eve@Example.com agent curl", "a", "a=4 b=4") // a value may be any word
	r.Allows("p user cost email eve@example.COM", "a", "a=3 b=3")
}

func TestSoftAndShadowLimitsOfAPolicy(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 5/m}, b: {rate: 1/m, mode: soft, algorithm: fixed}, c: {rate: 2/m, mode: shadow}, d: {rate: 1/m, mode: "off"}}}`)
	c := r.Allows("p user eve", "a", "a=4 b=0 c=1")
	require.EqualValues(t, 3, c.Applied)
	require.Empty(t, c.Soft)
	r.Allows("p user eve", "a", "a=3 c=0")
	c = r.Allows("p user eve", "a", "a=2 c=0")
	require.Equal(t, []any{"b"}, c.Soft)
	require.Equal(t, "shadow", c.Limits["c"].Mode)
	require.EqualValues(t, 429, c.Limits["c"].Status, "what it would have answered")
	c = r.Allows("p user eve PEEK", "a", "a=1")
	r.Allows("p user eve COST 0", "a", "a=2")
}

// A cost that is none, or too large, is an error of limits that are enforced only.
func TestCostErrorsOfPolicies(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const overflow = "-ERR COST must be at most 4611686018427387903"
	r.SetPolicy("m", `{limits: {a: {cost: 4611686018427387903, rate: 5/d, mode: shadow}, b: {cost: 3, rate: 5/d, mode: soft},
		c: {cost: 4611686018427387903, rate: 7/d, mode: soft}, d: {cost: tok, rate: 5/d, mode: shadow}, e: {rate: 9/d}}}`)
	c := r.Allows("m COST 2", "e", "a=5 b=0 e=7")
	require.Equal(t, []any{"b", "c"}, c.Soft)
	require.EqualValues(t, -1, c.Limits["a"].Retry)
	require.EqualValues(t, -1, c.Limits["c"].Retry)
	require.Zero(t, c.Limits["a"].Allowed)
	require.EqualValues(t, 1, c.Limits["e"].Allowed)
	c = r.Allows("m tok many", "e", "e=6")
	require.NotContains(t, c.Limits, "d")
	c = r.Allows("m tok 99999999999999999999", "e", "e=5")
	require.NotContains(t, c.Limits, "d")
	r.Allows("m tok 2", "e", "d=3 e=4")
	r.Is("RL.CHECK m COST 4611686018427387904", overflow)

	r.SetPolicy("n", `{limits: {a: {cost: 4611686018427387903, rate: 5/d}, b: {cost: tok, rate: 5/d}}}`)
	r.Is("RL.CHECK n COST 2", "-ERR COST of limit 'a' is above 4611686018427387903")
	r.SetPolicy("n", `{limits: {b: {cost: tok, rate: 5/d}}}`)
	r.Is("RL.CHECK n tok many", "-ERR attribute 'tok' is a cost: its value must be a whole number from 0 to 4611686018427387903")
	r.Is("RL.CHECK n COST 4611686018427387904", overflow)
	require.Zero(t, r.Check("n COST 4611686018427387903").Applied)
}

func TestCheckInRESP3(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 5/m}}}`)
	r.Raw("HELLO", "3")
	require.Equal(t, "%13\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4\r\n$14\r\nretry_after_ms\r\n:0\r\n"+
		"$14\r\nreset_after_ms\r\n:12000\r\n$8\r\ndelay_ms\r\n:0\r\n$4\r\nname\r\n$1\r\na\r\n$6\r\nreason\r\n$2\r\nok\r\n$4\r\nhold\r\n_\r\n"+
		"$7\r\nversion\r\n:1\r\n$7\r\napplied\r\n:1\r\n$6\r\nlimits\r\n*1\r\n%11\r\n$4\r\nname\r\n$1\r\na\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:5\r\n"+
		"$9\r\nremaining\r\n:4\r\n$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:12000\r\n$8\r\ndelay_ms\r\n:0\r\n$4\r\ncost\r\n:1\r\n"+
		"$4\r\nmode\r\n$7\r\nenforce\r\n$6\r\nstatus\r\n:200\r\n$9\r\nwindow_ms\r\n:60000\r\n$4\r\nsoft\r\n*0\r\n", r.Raw("RL.CHECK", "p", "user", "eve"))
}

// Counters of policies are keys that operators see, delete, and cannot charge.
func TestPolicyCountersAreKeys(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("shop/pay", `{limits: {user: {by: [tenant, user], rate: 5/m}, all: {rate: 9/m, algorithm: sliding}}}`)
	r.Allows("shop/pay tenant acme user eve", "user", "user=4 all=8")
	const key = "@shop/pay:user;tenant=acme;user=eve"
	r.Is("TYPE "+key, "policy")
	require.ElementsMatch(t, []any{key, "@shop/pay:all"}, r.Words("SCAN 0 TYPE policy").([]any)[1])
	r.Is("RL.LIMIT "+key+" 5 1m", "-WRONGTYPE Operation against a key holding the wrong kind of value")
	explained := r.Words("RL.EXPLAIN " + key)
	require.Equal(t, "shop/pay", rig.Pair(t, explained, "policy"))
	require.Equal(t, "user", rig.Pair(t, explained, "name"))
	require.Equal(t, "token", rig.Pair(t, explained, "algorithm"))
	require.EqualValues(t, 4, rig.Pair(t, explained, "remaining"))
	r.Words("RL.LIMIT plain 5 1m")
	require.Len(t, r.Words("RL.TOP ALLOWED"), 2)
	r.Is("RL.TOP POLICY shop/pay ALLOWED", "[["+key+" 1 0]]") // the limit that stood for the call
	r.Is("RL.TOP ALLOWED POLICY shop", "[]")
	r.Is("DEL "+key, "1")
	r.Allows("shop/pay tenant acme user eve", "user", "user=4 all=7")
	r.Is("SET "+key+" x", "-WRONGTYPE Operation against a key holding the wrong kind of value")
	r.Is("DEL "+key, "1")
	r.Is("SET "+key+" x", "OK")
	r.Allows("shop/pay tenant acme user eve", "user", "user=4 all=6")
	r.Is("TYPE "+key, "policy")
	r.Is("RL.POLICY RESET shop/pay tenant acme user eve", "1")
	r.Allows("shop/pay tenant acme user eve", "user", "user=4 all=5")
	r.Is("RL.POLICY RESET shop/pay", "2")
	c := r.Allows("shop/pay tenant acme user eve", "user", "user=4 all=8")
	require.EqualValues(t, 2, c.Version)
	r.Is("FLUSHALL", "OK")
	r.Allows("shop/pay tenant acme user eve", "user", "user=4 all=8")
}

// Counters that a reset has made void are missing for every command.
func TestCountersThatAResetMadeVoid(t *testing.T) {
	const key = "@q:a;u=y"
	r := rig.New(t, engine.Config{})
	const text = `{limits: {a: {by: u, rate: 10/365d}, b: {by: v, rate: 10/365d}}}`
	r.SetPolicy("q", text)
	there := func(yes bool) {
		t.Helper()
		typ, n, keys := "none", "0", "[0 []]"
		if yes {
			typ, n, keys = "policy", "1", "[0 ["+key+"]]"
		}
		r.Is("TYPE "+key, typ)
		r.Is("EXISTS "+key, n)
		r.Is("SCAN 0 MATCH @q:*", keys)
		r.Is("KEYS @q:*", strings.TrimSuffix(strings.TrimPrefix(keys, "[0 "), "]"))
		require.Equal(t, yes, rig.Format(r.Words("RL.EXPLAIN "+key)) != "nil")
		require.Equal(t, yes, rig.Format(r.Words("TTL "+key)) != "-2")
		require.Equal(t, yes, rig.Format(r.Words("OBJECT ENCODING "+key)) != "nil")
		require.Equal(t, yes, rig.Format(r.Words("MEMORY USAGE "+key)) != "nil")
		require.Equal(t, yes, rig.Format(r.Words("RANDOMKEY")) != "nil")
	}
	for _, void := range [][]string{{"RESET", "q"}, {"DEL", "q", "RESET"}, {"SET", "q", "CHANGE", "reset", strings.Replace(text, "10/", "9/", 1)}} {
		r.Allows("q u y COST 7", "a", "")
		there(true)
		require.IsType(t, int64(0), r.Parse(r.Raw(append([]string{"RL.POLICY"}, void...)...)), void)
		there(false)
		r.Raw("RL.POLICY", "SET", "q", text)
		there(false)
		r.Is("RL.POLICY RESET q u y", "0")
		r.Allows("q u y COST 7", "a", "a=3")
		r.Is("RL.POLICY RESET q u y", "1")
	}
	// The name is free for other kinds.
	r.Allows("q u y COST 7", "a", "a=3")
	r.Words("RL.POLICY RESET q")
	r.Is("SET plain 1", "OK")
	r.Is("RENAME "+key+" new", "-ERR no such key")
	r.Is("RENAME plain "+key, "OK")
	r.Is("TYPE "+key, "string")
	r.Is("DEL "+key, "1")
	r.Allows("q u y COST 7", "a", "a=3")
	r.Words("RL.POLICY RESET q")
	r.Is("DEL "+key, "0")
	r.Is("SET "+key+" 1", "OK")
}

func TestPolicyVersions(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Raw("CLIENT", "SETNAME", "ops")
	set := func(args ...string) any {
		return r.Parse(r.Raw(append([]string{"RL.POLICY", "SET", "p"}, args...)...))
	}
	five, ten := `{limits: {a: {by: user, rate: 5/m}}}`, `{limits: {a: {by: user, rate: 10/m}}}`
	require.EqualValues(t, 1, set(five))
	require.EqualValues(t, 1, set(five), "the same text is no new version")
	r.Allows("p user eve COST 2", "a", "a=3")
	require.Equal(t, "-VERSION the policy has another version: 1", rig.Format(set("IF", "0", ten)))
	require.EqualValues(t, 2, set("IF", "1", ten))
	c := r.Allows("p user eve", "a", "a=7")
	require.EqualValues(t, 2, c.Version)
	require.EqualValues(t, 3, set("CHANGE", "reset", five))
	r.Allows("p user eve", "a", "a=4")
	r.Is("RL.POLICY ROLLBACK p 2", "4")
	r.Allows("p user eve", "a", "a=8")
	require.Equal(t, ten, rig.Pair(t, r.Words("RL.POLICY GET p"), "text"))
	require.Equal(t, five, rig.Pair(t, r.Words("RL.POLICY GET p VERSION 1"), "text"))
	require.Contains(t, rig.Pair(t, r.Words("RL.POLICY GET p"), "author"), "ops at ")
	require.EqualValues(t, 4, rig.Pair(t, r.Words("RL.POLICY GET p"), "revision"))
	history := r.Words("RL.POLICY HISTORY p").([]any)
	require.Len(t, history, 4)
	require.EqualValues(t, 4, rig.Pair(t, history[0], "version"))
	r.Is("RL.POLICY LIST", "[[name p version 4]]")
	require.NotEmpty(t, r.Words("RL.POLICY DIFF p 1"))
	require.Empty(t, r.Words("RL.POLICY DIFF p 1 3"))
	require.NotEmpty(t, set("DRYRUN", five))
	r.Allows("p user eve", "a", "a=7")

	r.Is("RL.POLICY DEL p IF 9", "-VERSION the policy has another version: 4")
	r.Is("RL.POLICY DEL p", "5")
	r.Is("RL.CHECK p user eve", "-NOPOLICY there is no policy 'p'")
	r.Is("RL.POLICY GET p", "nil")
	r.Is("RL.POLICY DEL p", "-NOPOLICY there is no such policy")
	r.Is("RL.POLICY LIST", "[]")
	require.EqualValues(t, 6, set("IF", "0", ten))
	r.Allows("p user eve", "a", "a=6")
	r.Is("RL.POLICY DEL p RESET", "7")
	set(ten)
	r.Allows("p user eve", "a", "a=9")
}

// A limit's counter is not forgotten by a detour: if the policy or the limit is missing for a
// while, and comes back with another algorithm.
func TestAnotherAlgorithmTakesAReset(t *testing.T) {
	const (
		fixed  = `{limits: {a: {by: u, algorithm: fixed, rate: 10/365d}}}`
		token  = `{limits: {a: {by: u, rate: 10/365d}}}`
		other  = `{limits: {b: {by: u, rate: 10/365d}}}`
		refuse = "-ERR policy 'p': limit 'a' counts by fixed, not token: use CHANGE reset, or another id"
	)
	for _, detour := range [][]string{nil, {"DEL", "p"}, {"SET", "p", other}, {"LOAD", "policies: {p: " + other + "}"}} {
		r := rig.New(t, engine.Config{})
		policy := func(args ...string) string {
			return rig.Format(r.Parse(r.Raw(append([]string{"RL.POLICY"}, args...)...)))
		}
		pause := func() {
			if detour != nil {
				require.NotContains(t, policy(detour...), "-")
			}
		}
		policy("SET", "p", fixed)
		r.Allows("p u x COST 7", "a", "a=3")
		pause()
		for _, args := range [][]string{
			{"SET", "p", token}, {"SET", "p", "DRYRUN", token}, {"SET", "p", "CHANGE", "PROPORTIONAL", token},
			{"LOAD", "policies: {p: " + token + "}"},
		} {
			require.Equal(t, refuse, policy(args...), "%s: %s", detour, args)
		}
		policy("SET", "p", fixed)
		r.Allows("p u x", "a", "a=2")
		pause()
		require.NotContains(t, policy("SET", "p", "CHANGE", "RESET", token), "-")
		r.Allows("p u x", "a", "a=9")
	}
}

func TestPolicyTextsAreRefusedAsAWhole(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 5/m}}}`)
	for _, text := range []string{
		`{limits: {a: {by: user, rate: 5/mn}}}`,
		`{limits: {a: {by: user, rate: 5/m, algorithm: log, burst: 3}}}`,
		`{limits: {a: {by: user, rate: 5/m, algorithm: leaky}}}`,                  // another algorithm of one id
		`{limits: {a: {by: user, rate: 2000/m, algorithm: log}, b: {rate: 1/s}}}`, // above log-max-entries
		`{deny: [{ip: {list: nets}}], limits: {a: {rate: 5/m}}}`,
	} {
		reply := rig.Format(r.Parse(r.Raw("RL.POLICY", "SET", "p", text)))
		require.True(t, strings.HasPrefix(reply, "-ERR "), "%s: %s", text, reply)
		require.EqualValues(t, 1, r.Check("p user eve PEEK").Version)
	}
	errs := r.Parse(r.Raw("RL.POLICY", "CHECK", "policies:\n  p:\n    limits:\n      a: {rate: 5/mn}\n")).([]any)
	require.Len(t, errs, 1)
	require.Contains(t, errs[0], "policies.p.limits.a.rate")
	require.Empty(t, r.Parse(r.Raw("RL.POLICY", "CHECK", "policies: {p: {limits: {a: {rate: 5/m}}}}")))
}

// A file takes effect as one change.
func TestPolicyLoad(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const file = "lists: {nets: [192.0.2.0/24]}\nattributes: {email: {type: lower}}\n" +
		"policies:\n  a: {deny: [{ip: {list: nets}}], limits: {all: {rate: 5/m}}}\n  b: {limits: {all: {by: email, rate: 5/m}}}\n"
	require.NotEmpty(t, r.Parse(r.Raw("RL.POLICY", "LOAD", "DRYRUN", file)))
	r.Is("RL.POLICY LIST", "[]")
	require.Len(t, r.Parse(r.Raw("RL.POLICY", "LOAD", file)), 4)
	r.Denies("a ip 192.0.2.9", "", -1, "")
	r.Allows("b email A@x", "all", "all=4")
	r.Allows("b email a@X", "all", "all=3")
	r.Is("RL.POLICY LIST", "[[name a version 1] [name attributes version 1] [name b version 1] [name lists/nets version 1]]")
	require.Contains(t, rig.Format(r.Words("RL.POLICY DEL lists/nets")), "-ERR ", "it is in use")
	// A list that changes is that of each policy that uses it.
	require.Len(t, r.Parse(r.Raw("RL.POLICY", "LOAD", "lists: {nets: [198.51.100.0/24]}")), 1)
	r.Allows("a ip 192.0.2.9", "all", "")
	r.Denies("a ip 198.51.100.1", "", -1, "")
}

func TestExplainPolicy(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 5/m}, b: {by: shop, rate: 5/m}, c: {rate: 5/m, when: {op: write}}}}`)
	r.Check("p user eve COST 2")
	x := r.Words("RL.EXPLAIN POLICY p user eve op read color red")
	require.EqualValues(t, 1, rig.Pair(t, x, "allowed"))
	require.Equal(t, []any{"color"}, rig.Pair(t, x, "unused"))
	limits := rig.Pair(t, x, "limits").([]any)
	require.Equal(t, "applies", rig.Pair(t, limits[0], "applies"))
	require.Equal(t, "@p:a;user=eve", rig.Pair(t, limits[0], "key"))
	require.EqualValues(t, 2, rig.Pair(t, limits[0], "remaining"), "after the call that it imagines")
	require.Equal(t, "missing", rig.Pair(t, limits[1], "applies"))
	require.Equal(t, "shop", rig.Pair(t, limits[1], "attribute"))
	require.Equal(t, "when", rig.Pair(t, limits[2], "applies"))
	r.Allows("p user eve", "a", "a=2")
	r.Is("RL.EXPLAIN POLICY q", "-NOPOLICY there is no policy 'q'")
	r.Is("RL.EXPLAIN a b", "-ERR syntax error, use RL.EXPLAIN key or RL.EXPLAIN POLICY name [attribute value ...] or RL.EXPLAIN HOLD hold")
}

// A transaction has checks among its commands, and is isolated; a script may check
// too.
func TestCheckInATransaction(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 5/m}, all: {rate: 9/m, algorithm: log}}}`)
	for _, line := range []string{"MULTI", "RL.CHECK p user eve", "SET k 1", "RL.CHECK p user eve"} {
		r.Words(line)
	}
	replies := r.Words("EXEC").([]any)
	require.Len(t, replies, 3)
	require.EqualValues(t, 3, rig.ReadChecked(t, replies[2].([]any)).Remaining)

	script := func(text string) any { return r.Parse(r.Raw("EVAL", text, "1", "k")) }
	require.EqualValues(t, 2, script("return redis.call('rl.check', 'p', 'user', 'eve')[3]"))
	require.EqualValues(t, 1, script("redis.call('incr', KEYS[1]) return redis.call('rl.check', 'p', 'user', 'eve')[3]"))
	require.Equal(t, "2", r.Words("GET k"))
	require.EqualValues(t, 4, script("for i = 1, 100000 do end redis.call('get', KEYS[1]) return redis.call('rl.check', 'p', 'user', 'bob')[3]"))
	r.Words("SELECT 3")
	require.EqualValues(t, 3, script("return redis.call('rl.check', 'p', 'user', 'bob')[3]"), "one budget, whatever the database")
	r.Words("MULTI")
	r.Words("RL.CHECK p user bob")
	require.EqualValues(t, 2, rig.ReadChecked(t, r.Words("EXEC").([]any)[0].([]any)).Remaining)

	for _, line := range []string{"SELECT 0", "MULTI", "RL.POLICY DEL p"} {
		r.Words(line)
	}
	require.Len(t, r.Words("EXEC"), 1)
	r.Is("RL.CHECK p user eve", "-NOPOLICY there is no policy 'p'")
}
