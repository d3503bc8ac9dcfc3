package checks_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// LLM tokens: an estimate is held, the real cost settled.
func TestHoldOfTokens(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("llm", `{hold: {ttl: 2m}, limits: {rpm: {by: key, rate: 60/m}, tpm: {by: key, rate: 6000/m, cost: tokens}}}`)
	c := r.Reserve("llm key k tokens 4000")
	require.Equal(t, []any{int64(1), "tpm", "ok", int64(2)}, []any{c.Allowed, c.Name, c.Reason, c.Applied})
	r.ExpectChecked("", c, "tpm", "rpm=59 tpm=2000")
	h1 := c.Hold.(string)
	require.Regexp(t, `^llm;[A-Za-z0-9_-]{20}$`, h1)
	c = r.Reserve("llm key k tokens 2500")
	require.Equal(t, []any{int64(0), int64(5000), "tpm", nil}, []any{c.Allowed, c.Retry, c.Name, c.Hold})
	r.ExpectChecked("", c, "tpm", "rpm=59")

	r.Advance(10 * time.Second)
	s := r.Settle("RL.COMMIT " + h1 + " tokens 1200")
	require.Equal(t, []any{int64(1), "tpm", "committed", h1, c.Version, int64(2), int64(0)}, []any{s.Allowed, s.Name, s.Reason, s.Hold, s.Version, s.Applied, s.Over})
	r.ExpectChecked("", s.Checked, "tpm", "rpm=60 tpm=5800")
	require.EqualValues(t, 1200, s.Limits["tpm"].Cost)
	again := r.Settle("RL.COMMIT " + h1 + " tokens 9")
	require.Empty(t, again.Limits)
	again.Limits = s.Limits
	require.Equal(t, s, again, "the first settlement stands")
	again = r.Settle("RL.CANCEL " + h1)
	again.Limits = s.Limits
	require.Equal(t, s, again)

	h2 := r.Held("llm key k tokens 3000")
	r.Advance(10 * time.Second)
	s = r.Settle("RL.COMMIT " + h2 + " key k tokens 7000")
	require.EqualValues(t, 200, s.Over)
	r.ExpectChecked("", s.Checked, "tpm", "tpm=0")
	c = r.Reserve("llm key k tokens 1")
	require.Equal(t, []any{int64(0), int64(2010)}, []any{c.Allowed, c.Retry})
	r.Is("RL.COMMIT llm;nobody tokens 1", "-NOHOLD there is no hold 'llm;nobody'")
	r.Is("RL.CANCEL x", "-NOHOLD there is no hold 'x', the name of a hold is policy;id")
	r.Is("RL.COMMIT "+h2+" tokens", "-ERR attribute 'tokens' has no value")
	r.Is("RL.RESERVE llm key k tokens 1 TTL 2h", "-ERR TTL must be 1s to 1h")
	r.Is("RL.RESERVE llm key k tokens 1 TTL", "-ERR syntax error")
	r.Is("RL.CHECK llm key k tokens 1 TTL 5s", "-ERR TTL is only for RL.RESERVE: the policy sets how long RL.CHECK keeps a slot")
	r.Is("RL.RESERVE none", "-NOPOLICY there is no policy 'none'")

	r.Advance(80 * time.Second)
	h4 := r.Held("llm key k tokens 3000 TTL 5s")
	r.Is("RL.COMMIT "+h4+" tokens many", "-ERR attribute 'tokens' is a cost: its value must be a whole number from 0 to 4611686018427387903")
	r.Advance(6 * time.Second)
	r.Ends(h4)
	r.Allows("llm key k tokens 0 PEEK", "rpm", "tpm=6000")
	s = r.Settle("RL.COMMIT " + h4 + " tokens 500")
	r.ExpectChecked("", s.Checked, "tpm", "tpm=5500")
}

// GraphQL: points are held, and a limit that does not apply is not in the hold.
func TestHoldOfPoints(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("gql", `{limits: {points: {by: [app, shop], rate: 50/s burst 1000, cost: points}, writes: {by: [app, shop], rate: 20/m, when: {op: mutation}}}}`)
	h := r.Held("gql app a shop s op query points 752")
	r.Advance(time.Second)
	s := r.Settle("RL.COMMIT " + h + " points 252")
	require.Len(t, s.Limits, 1)
	r.ExpectChecked("", s.Checked, "points", "points=798")
	r.Denies("gql app a shop s points 1001", "points", -1, "")
	r.Denies("gql app a shop s points 799", "points", 20, "")
	r.Allows("gql app a shop s points 798 op mutation", "points", "points=0 writes=19")
}

// COST of a commit is for costs that are numbers; a cancel gives all back.
func TestHoldOfNumbers(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{hold: {share: 50%, keep: 1m}, limits: {a: {by: user, rate: 100/m, algorithm: fixed, cost: 2}, b: {rate: 100/m, algorithm: log}, s: {by: user, rate: 1/m, mode: soft}}}`)
	c := r.Reserve("p user eve COST 26")
	require.Equal(t, []any{int64(0), int64(-1), "a", "limit", nil}, []any{c.Allowed, c.Retry, c.Name, c.Reason, c.Hold}, "half of a limit is the most")
	r.ExpectChecked("", c, "a", "b=100")
	h := r.Held("p user eve COST 25")
	s := r.Settle("RL.COMMIT " + h + " COST 10")
	r.ExpectChecked("", s.Checked, "a", "a=80 b=90")
	require.EqualValues(t, 20, s.Limits["a"].Cost)
	h = r.Held("p user eve COST 5")
	s = r.Settle("RL.CANCEL " + h)
	require.Equal(t, "cancelled", s.Reason)
	r.ExpectChecked("", s.Checked, "a", "a=80 b=90")
	r.Advance(2 * time.Minute)
	r.Is("RL.CANCEL "+h, "-NOHOLD there is no hold '"+h+"'")
	r.Is("RL.COMMIT "+h+" COST -1", "-ERR COST must be a whole number from 0 to 4611686018427387903")
	r.Is("RL.COMMIT "+h+" COST 1 COST 1", "-ERR syntax error, COST is given twice")
	r.Is("RL.COMMIT "+h+" a 1 a 1", "-ERR attribute 'a' is given twice")

	// A PEEK holds nothing, nor does a caller on a list.
	require.Nil(t, r.Reserve("p user eve PEEK").Hold)
	r.SetPolicy("q", `{deny: [{user: bad}], allow: [{user: good}], limits: {a: {by: user, rate: 5/m}}}`)
	require.Nil(t, r.Reserve("q user bad").Hold)
	h = r.Held("q user good")
	s = r.Settle("RL.COMMIT " + h + " COST 3")
	require.Equal(t, []any{nil, int64(-1), "committed"}, []any{s.Name, s.Limit, s.Reason})
	require.Equal(t, s, r.Settle("RL.CANCEL "+h))
}

// A failed login costs. A successful one is given back, and so is one that nobody settles.
func TestHoldThatStaysCharged(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("login", `{hold: {ttl: 10s, expiry: charge}, limits: {user: {by: user, rate: 3/h, algorithm: log}}}`)
	ok := r.Held("login user eve")
	require.EqualValues(t, 3, r.Settle("RL.CANCEL "+ok).Remaining)
	crashed := r.Held("login user eve")
	r.Advance(12 * time.Second)
	r.Ends(crashed)
	r.Allows("login user eve PEEK", "user", "user=1")

	// A login that is slow but right in the end is not charged: a late cancel is a late commit
	// of 0.
	for _, verb := range []string{"RL.CANCEL ", "RL.COMMIT "} {
		late := r.Held("login user eve")
		r.Allows("login user eve COST 0", "user", "user=1")
		r.Advance(12 * time.Second)
		line := verb + late
		if verb == "RL.COMMIT " {
			line += " COST 0"
		}
		s := r.Settle(line)
		require.EqualValues(t, 2, s.Remaining, line)
		require.Equal(t, map[string]string{"RL.CANCEL ": "cancelled", "RL.COMMIT ": "committed"}[verb], s.Reason)
	}
}

// After an edit of the policy, the settlement uses the hold's numbers for what was held, and
// the policy's for what a commit adds.
func TestHoldsAndEdits(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const before, after = `{limits: {a: {by: user, rate: 100/m, algorithm: fixed}}}`, `{limits: {a: {by: user, rate: 50/m, algorithm: fixed}}}`
	r.SetPolicy("p", before)
	h := r.Held("p user eve COST 40")
	r.SetPolicy("p", after)
	s := r.Settle("RL.COMMIT " + h + " COST 10")
	require.EqualValues(t, 90, s.Remaining, "by the hold")
	r.Allows("p user eve PEEK COST 0", "a", "a=40")
	h = r.Held("p user eve COST 10")
	reply := r.Parse(r.Raw("RL.POLICY", "SET", "p", "CHANGE", "reset", before))
	require.IsType(t, int64(0), reply, "%v", reply)
	s = r.Settle("RL.COMMIT " + h + " COST 12")
	require.EqualValues(t, 98, s.Remaining, "what was reset is gone, and what comes in addition counts")
	r.Allows("p user eve PEEK COST 0", "a", "a=98")
	h = r.Held("p user eve COST 10")
	r.Words("RL.POLICY DEL p")
	require.EqualValues(t, 98, r.Settle("RL.CANCEL "+h).Remaining)
}

// A hold over a window of a calendar is given back within it, and what is spent
// beyond counts in the window of the present.
func TestHoldsOfCalendars(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("plan", `{limits: {day: {by: t, rate: 100/day, calendar: UTC}}}`)
	h := r.Held("plan t a COST 40 TTL 1h")
	require.EqualValues(t, 90, r.Settle("RL.COMMIT "+h+" COST 10").Remaining)
	h = r.Held("plan t a COST 90")
	require.EqualValues(t, 90, r.Settle("RL.CANCEL "+h).Remaining)
	r.Advance(23*time.Hour + 30*time.Minute)
	h = r.Held("plan t a COST 40 TTL 1h")
	r.Advance(45 * time.Minute)
	s := r.Settle("RL.COMMIT " + h + " COST 60")
	require.Equal(t, []int64{80, 0}, []int64{s.Remaining, s.Over}, "the difference, today")
	h = r.Held("plan t a COST 5 TTL 1h")
	require.EqualValues(t, 30, r.Settle("RL.COMMIT "+h+" COST 50").Remaining)
}

// A transaction or a script reserves and settles as one step.
func TestHoldsInATransaction(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 100/m}, all: {rate: 500/m}}}`)
	h := r.Held("p user eve COST 40")
	for _, line := range []string{"MULTI", "RL.COMMIT " + h + " COST 10", "RL.RESERVE p user eve COST 5", "SET k 1"} {
		r.Words(line)
	}
	replies := r.Words("EXEC").([]any)
	require.Len(t, replies, 3)
	require.Len(t, replies[0], 14)
	c := rig.ReadChecked(t, replies[1].([]any))
	require.EqualValues(t, 85, c.Remaining)
	require.EqualValues(t, 90, r.Settle("RL.CANCEL "+c.Hold.(string)).Remaining)

	script := func(text string, args ...string) any {
		return r.Parse(r.Raw(append([]string{"EVAL", text, "0"}, args...)...))
	}
	id := script("return redis.call('rl.reserve', 'p', 'user', 'eve', 'COST', 30)[9]").(string)
	require.EqualValues(t, 90, script("return redis.call('rl.cancel', ARGV[1])[3]", id))
	require.EqualValues(t, 80, script("local h = redis.call('rl.reserve', 'p', 'user', 'eve', 'COST', 30)[9] return redis.call('rl.commit', h, 'COST', 10)[3]"))
}

// Holds are no keys, and FLUSHALL ends them.
func TestHoldsAreHidden(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 100/m}}}`)
	h := r.Held("p user eve COST 40")
	r.Is("DBSIZE", "1")
	r.Is("EXISTS @+"+h, "0")
	require.Equal(t, []any{"@p:a;user=eve"}, r.Words("KEYS *"))
	r.Is("DEL @+"+h, "0")
	x := r.Words("RL.EXPLAIN HOLD " + h)
	require.Equal(t, "reserved", rig.Pair(t, x, "state"))
	require.Equal(t, "release", rig.Pair(t, x, "expiry"))
	require.EqualValues(t, 120_000, rig.Pair(t, x, "ends_ms"))
	l := rig.Pair(t, x, "limits").([]any)[0]
	require.Equal(t, "@p:a;user=eve", rig.Pair(t, l, "key"))
	require.EqualValues(t, 40, rig.Pair(t, l, "cost"))
	r.Is("RL.EXPLAIN HOLD x", "-NOHOLD there is no hold 'x', the name of a hold is policy;id")
	r.Words("FLUSHALL")
	r.Is("RL.CANCEL "+h, "-NOHOLD there is no hold '"+h+"'")
}

// In RESP3 the replies are maps with names.
func TestHoldsInRESP3(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 100/m}}}`)
	r.Raw("HELLO", "3")
	reply := r.Raw("RL.RESERVE", "p", "user", "eve")
	require.Contains(t, reply, "$4\r\nhold\r\n$22\r\np;")
	_, rest, _ := strings.Cut(reply, "$4\r\nhold\r\n$22\r\n")
	h := rest[:22]
	reply = r.Raw("RL.COMMIT", h)
	require.True(t, strings.HasPrefix(reply, "%14\r\n$7\r\nallowed\r\n:1\r\n"), reply)
	require.Contains(t, reply, "$6\r\nreason\r\n$9\r\ncommitted\r\n$4\r\nhold\r\n$22\r\n"+h)
	require.True(t, strings.HasSuffix(reply, "$4\r\nover\r\n:0\r\n"), reply)
}

// A call with an ID is charged once, and a repetition gets the same answer: after an edit, from
// another node, and as long as its record is kept.
func TestCallsThatAreRepeated(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const text = `{attributes: {email: {type: lower}}, limits: {account: {by: email, rate: 3/day}, ip: {by: ip, rate: 20/h, algorithm: sliding}}}`
	r.SetPolicy("reset", text)
	r.Allows("reset email Alice@x ip 1.1.1.1", "account", "account=2")
	first := r.Allows("reset email alice@x ip 1.1.1.1 ID 7f3", "account", "account=1 ip=18")
	require.Nil(t, first.Hold)
	first.Limits = map[string]rig.CheckedLimit{}
	again := func(line string) {
		t.Helper()
		require.Equal(t, first, r.Check(line))
	}
	again("reset ip 1.1.1.1 ID 7f3 email alice@x")
	r.Is("RL.CHECK reset email bob@x ip 1.1.1.1 ID 7f3", "-IDCONFLICT '7f3' was given to another call")
	r.Is("RL.CHECK reset email alice@x ip 1.1.1.1 ID 7f3 COST 2", "-IDCONFLICT '7f3' was given to another call")
	r.Is("RL.RESERVE reset email alice@x ip 1.1.1.1 ID 7f3", "-IDCONFLICT '7f3' was given to another call")
	r.Is("RL.CHECK reset email alice@x ID 7f3 PEEK", "-ERR PEEK and ID exclude each other")
	r.Is("RL.CHECK reset email alice@x ID 7f3 ID 7f3", "-ERR syntax error, ID is given twice")
	r.Is("RL.CHECK reset email alice@x ID "+strings.Repeat("x", 129), "-ERR ID must be 1 to 128 bytes")
	r.Is("RL.CANCEL reset;7f3", "-NOHOLD there is no hold 'reset;7f3'")
	r.Is("RL.EXPLAIN POLICY reset email a ID 7f3", "-ERR ID is only for RL.CHECK and RL.RESERVE")
	r.Allows("reset email alice@x ip 1.1.1.1 PEEK COST 0", "account", "account=1 ip=18")

	// Also where the policy says something else by now.
	r.SetPolicy("reset", `{deny: [{ip: 1.1.1.1}], limits: {account: {rate: 1/day}}}`)
	again("reset email alice@x ip 1.1.1.1 ID 7f3")
	r.SetPolicy("reset", text)

	// A denied call leaves no record, so it may be made again.
	r.Allows("reset email alice@x ip 1.1.1.1", "account", "account=0")
	c := r.Check("reset email alice@x ip 1.1.1.1 ID later")
	require.EqualValues(t, 0, c.Allowed)
	r.Advance(24 * time.Hour)
	c = r.Check("reset email alice@x ip 1.1.1.1 ID later")
	require.EqualValues(t, 1, c.Allowed)
	r.Advance(11 * time.Minute)
	require.EqualValues(t, 1, r.Check("reset email alice@x ip 1.1.1.1 ID later").Allowed)
	r.Allows("reset email alice@x ip 1.1.1.1 PEEK COST 0", "account", "account=1")

	// A reservation by name: its hold is known beforehand.
	r.SetPolicy("p", `{allow: [{user: good}], limits: {a: {by: user, rate: 100/m}}}`)
	h := r.Reserve("p user eve COST 40 ID a;b")
	require.Equal(t, "p;a%3Bb", h.Hold)
	h.Limits = map[string]rig.CheckedLimit{}
	require.Equal(t, h, r.Reserve("p user eve COST 40 ID a;b"))
	require.EqualValues(t, 90, r.Settle("RL.COMMIT p;a%3Bb COST 10").Remaining)
	require.Equal(t, h, r.Reserve("p user eve COST 40 ID a;b"), "settled, and known")
	r.Allows("p user eve PEEK COST 0", "a", "a=90")
	l := r.Check("p user good ID x")
	require.Equal(t, "allow", l.Reason)
	require.Equal(t, l, r.Check("p user good ID x"))

	for _, line := range []string{"MULTI", "RL.CHECK p user eve ID tx", "RL.CHECK p user eve ID tx"} {
		r.Words(line)
	}
	replies := r.Words("EXEC").([]any)
	require.Len(t, replies, 2)
	require.EqualValues(t, 89, rig.ReadChecked(t, replies[0].([]any)).Remaining)
	require.EqualValues(t, 89, rig.ReadChecked(t, replies[1].([]any)).Remaining)
}

// A caller that does not know the cost leaves it out, or gives an empty value.
func TestAnEmptyCostIsNone(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("llm", `{limits: {t: {by: k, rate: 1000/d, cost: tokens}}}`)
	h := r.Held("llm k z tokens 900")
	list := r.Parse(r.Raw("RL.COMMIT", h, "tokens", "")).([]any)
	r.ExpectChecked("", rig.ReadChecked(t, list[:13]), "t", "t=100")
}

// What a commit adds is charged to the counter that the policy now reads.
func TestCommitOfMoreUnderAnotherAlgorithm(t *testing.T) {
	r := rig.New(t, engine.Config{})
	reset := func(text string) {
		require.IsType(t, int64(0), r.Parse(r.Raw("RL.POLICY", "SET", "al", "CHANGE", "RESET", text)))
	}
	r.SetPolicy("al", `{limits: {l: {by: u, rate: 100/h}}}`)
	for _, checks := range []int64{0, 1} {
		h := r.Held("al u 1 COST 10")
		reset(`{limits: {l: {by: u, rate: 100/h, algorithm: fixed}}}`)
		for range checks {
			r.Words("RL.CHECK al u 1")
		}
		left := 50 - checks
		s := r.Settle("RL.COMMIT " + h + " COST 60")
		r.ExpectChecked("", s.Checked, "l", "l="+strconv.FormatInt(left, 10))
		r.ExpectChecked("RL.CHECK al u 1 PEEK", r.Check("al u 1 PEEK"), "l", "l="+strconv.FormatInt(left-1, 10))
		reset(`{limits: {l: {by: u, rate: 100/h}}}`)
	}
}

// A look at what a hold would get is bounded by its share, too.
func TestPeekOfAShare(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("sp", `{hold: {share: 50%}, limits: {u: {by: user, rate: 10/h}}}`)
	for _, peek := range []string{" PEEK", ""} {
		c := r.Reserve("sp user 1 COST 6" + peek)
		require.Equal(t, []any{int64(0), int64(-1), "u"}, []any{c.Allowed, c.Retry, c.Name}, peek)
		c = r.Reserve("sp user 1 COST 5 PEEK")
		require.Equal(t, []any{int64(1), nil}, []any{c.Allowed, c.Hold}, peek)
	}
	require.EqualValues(t, 1, r.Check("sp user 1 COST 6 PEEK").Allowed, "a check holds nothing")
}
