package server

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
)

// settled is a reply of RL.COMMIT or RL.CANCEL.
type settled struct {
	checked
	over int64
}

// advance moves the clock on.
func (r *rig) advance(d time.Duration) { r.set(r.s.engine.Now() + int64(d)) }

// settle runs RL.COMMIT or RL.CANCEL with the words of a line.
func (r *rig) settle(line string) settled {
	r.t.Helper()
	list, ok := r.words(line).([]any)
	require.True(r.t, ok, line)
	require.Len(r.t, list, 14)
	return settled{readChecked(r.t, list[:13]), list[13].(int64)}
}

// reserve runs RL.RESERVE with the words of a line.
func (r *rig) reserve(line string) checked {
	r.t.Helper()
	reply := r.words("RL.RESERVE " + line)
	list, ok := reply.([]any)
	require.True(r.t, ok, "%s: %v", line, reply)
	return readChecked(r.t, list)
}

// held reserves what passes, and returns the hold.
func (r *rig) held(line string) string {
	r.t.Helper()
	c := r.reserve(line)
	require.EqualValues(r.t, 1, c.allowed, "%s: %+v", line, c)
	hold, ok := c.hold.(string)
	require.True(r.t, ok)
	return hold
}

// ends has a hold end whose time is over.
func (r *rig) ends(hold string) {
	r.t.Helper()
	sess := r.s.engine.NewSession()
	defer sess.Close()
	require.Eventually(r.t, func() bool { // who is at it already may have taken it
		r.s.engine.SettleEnded(context.Background(), sess, r.s.engine.Now())
		return pair(r.t, r.words("RL.EXPLAIN HOLD "+hold), "state") == "expired"
	}, 10*time.Second, time.Millisecond)
}

// LLM tokens: an estimate is held, the real cost settled.
func TestHoldOfTokens(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("llm", `{hold: {ttl: 2m}, limits: {rpm: {by: key, rate: 60/m}, tpm: {by: key, rate: 6000/m, cost: tokens}}}`)
	c := r.reserve("llm key k tokens 4000")
	require.Equal(t, []any{int64(1), "tpm", "ok", int64(2)}, []any{c.allowed, c.name, c.reason, c.applied})
	r.expectChecked("", c, "tpm", "rpm=59 tpm=2000")
	h1 := c.hold.(string)
	require.Regexp(t, `^llm;[A-Za-z0-9_-]{20}$`, h1)
	c = r.reserve("llm key k tokens 2500")
	require.Equal(t, []any{int64(0), int64(5000), "tpm", nil}, []any{c.allowed, c.retry, c.name, c.hold})
	r.expectChecked("", c, "tpm", "rpm=59")

	r.advance(10 * time.Second)
	s := r.settle("RL.COMMIT " + h1 + " tokens 1200")
	require.Equal(t, []any{int64(1), "tpm", "committed", h1, c.version, int64(2), int64(0)}, []any{s.allowed, s.name, s.reason, s.hold, s.version, s.applied, s.over})
	r.expectChecked("", s.checked, "tpm", "rpm=60 tpm=5800")
	require.EqualValues(t, 1200, s.limits["tpm"].cost)
	again := r.settle("RL.COMMIT " + h1 + " tokens 9")
	require.Empty(t, again.limits)
	again.limits = s.limits
	require.Equal(t, s, again, "the first settlement stands")
	again = r.settle("RL.CANCEL " + h1)
	again.limits = s.limits
	require.Equal(t, s, again)

	h2 := r.held("llm key k tokens 3000")
	r.advance(10 * time.Second)
	s = r.settle("RL.COMMIT " + h2 + " key k tokens 7000")
	require.EqualValues(t, 200, s.over)
	r.expectChecked("", s.checked, "tpm", "tpm=0")
	c = r.reserve("llm key k tokens 1")
	require.Equal(t, []any{int64(0), int64(2010)}, []any{c.allowed, c.retry})
	r.is("RL.COMMIT llm;nobody tokens 1", "-NOHOLD there is no hold 'llm;nobody'")
	r.is("RL.CANCEL x", "-NOHOLD there is no hold 'x', they are called policy;id")
	r.is("RL.COMMIT "+h2+" tokens", "-ERR attribute 'tokens' has no value")
	r.is("RL.RESERVE llm key k tokens 1 TTL 2h", "-ERR TTL must be 1s to 1h")
	r.is("RL.RESERVE llm key k tokens 1 TTL", "-ERR syntax error")
	r.is("RL.CHECK llm key k tokens 1 TTL 5s", "-ERR TTL is of RL.RESERVE: what a check holds its policy says")
	r.is("RL.RESERVE none", "-NOPOLICY there is no policy 'none'")

	r.advance(80 * time.Second)
	h4 := r.held("llm key k tokens 3000 TTL 5s")
	r.is("RL.COMMIT "+h4+" tokens many", "-ERR attribute 'tokens' must be a whole number from 0 to 4611686018427387903, it is a cost")
	r.advance(6 * time.Second)
	r.ends(h4)
	r.allows("llm key k tokens 0 PEEK", "rpm", "tpm=6000")
	s = r.settle("RL.COMMIT " + h4 + " tokens 500")
	r.expectChecked("", s.checked, "tpm", "tpm=5500")
}

// GraphQL: points are held, and a limit that does not apply is not in the hold.
func TestHoldOfPoints(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("gql", `{limits: {points: {by: [app, shop], rate: 50/s burst 1000, cost: points}, writes: {by: [app, shop], rate: 20/m, when: {op: mutation}}}}`)
	h := r.held("gql app a shop s op query points 752")
	r.advance(time.Second)
	s := r.settle("RL.COMMIT " + h + " points 252")
	require.Len(t, s.limits, 1)
	r.expectChecked("", s.checked, "points", "points=798")
	r.denies("gql app a shop s points 1001", "points", -1, "")
	r.denies("gql app a shop s points 799", "points", 20, "")
	r.allows("gql app a shop s points 798 op mutation", "points", "points=0 writes=19")
}

// COST of a commit is for costs that are numbers; a cancel gives all back.
func TestHoldOfNumbers(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{hold: {share: 50%, keep: 1m}, limits: {a: {by: user, rate: 100/m, algorithm: fixed, cost: 2}, b: {rate: 100/m, algorithm: log}, s: {by: user, rate: 1/m, mode: soft}}}`)
	c := r.reserve("p user eve COST 26")
	require.Equal(t, []any{int64(0), int64(-1), "a", "limit", nil}, []any{c.allowed, c.retry, c.name, c.reason, c.hold}, "half of a limit is the most")
	r.expectChecked("", c, "a", "b=100")
	h := r.held("p user eve COST 25")
	s := r.settle("RL.COMMIT " + h + " COST 10")
	r.expectChecked("", s.checked, "a", "a=80 b=90")
	require.EqualValues(t, 20, s.limits["a"].cost)
	h = r.held("p user eve COST 5")
	s = r.settle("RL.CANCEL " + h)
	require.Equal(t, "cancelled", s.reason)
	r.expectChecked("", s.checked, "a", "a=80 b=90")
	r.advance(2 * time.Minute)
	r.is("RL.CANCEL "+h, "-NOHOLD there is no hold '"+h+"'")
	r.is("RL.COMMIT "+h+" COST -1", "-ERR COST must be a whole number from 0 to 4611686018427387903")
	r.is("RL.COMMIT "+h+" COST 1 COST 1", "-ERR syntax error, COST is given twice")
	r.is("RL.COMMIT "+h+" a 1 a 1", "-ERR attribute 'a' is given twice")

	// What only looks is not held; who is on a list holds nothing either.
	require.Nil(t, r.reserve("p user eve PEEK").hold)
	r.setPolicy("q", `{deny: [{user: bad}], allow: [{user: good}], limits: {a: {by: user, rate: 5/m}}}`)
	require.Nil(t, r.reserve("q user bad").hold)
	h = r.held("q user good")
	s = r.settle("RL.COMMIT " + h + " COST 3")
	require.Equal(t, []any{nil, int64(-1), "committed"}, []any{s.name, s.limit, s.reason})
	require.Equal(t, s, r.settle("RL.CANCEL "+h))
}

// A login that fails costs, one that succeeds is given back, and so is none that
// nobody tells about.
func TestHoldThatStaysCharged(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("login", `{hold: {ttl: 10s, expiry: charge}, limits: {user: {by: user, rate: 3/h, algorithm: log}}}`)
	ok := r.held("login user eve")
	require.EqualValues(t, 3, r.settle("RL.CANCEL "+ok).remaining)
	crashed := r.held("login user eve")
	r.advance(12 * time.Second)
	r.ends(crashed)
	r.allows("login user eve PEEK", "user", "user=1")

	// Who was slow, and right in the end, is not charged: a late cancel is a late commit of 0.
	for _, verb := range []string{"RL.CANCEL ", "RL.COMMIT "} {
		late := r.held("login user eve")
		r.allows("login user eve COST 0", "user", "user=1")
		r.advance(12 * time.Second)
		line := verb + late
		if verb == "RL.COMMIT " {
			line += " COST 0"
		}
		s := r.settle(line)
		require.EqualValues(t, 2, s.remaining, line)
		require.Equal(t, map[string]string{"RL.CANCEL ": "cancelled", "RL.COMMIT ": "committed"}[verb], s.reason)
	}
}

// An edit of the policy between: what was held goes by the hold, what a commit adds
// by the policy.
func TestHoldsAndEdits(t *testing.T) {
	r := newRig(t, engine.Config{})
	const before, after = `{limits: {a: {by: user, rate: 100/m, algorithm: fixed}}}`, `{limits: {a: {by: user, rate: 50/m, algorithm: fixed}}}`
	r.setPolicy("p", before)
	h := r.held("p user eve COST 40")
	r.setPolicy("p", after)
	s := r.settle("RL.COMMIT " + h + " COST 10")
	require.EqualValues(t, 90, s.remaining, "by the hold")
	r.allows("p user eve PEEK COST 0", "a", "a=40")
	h = r.held("p user eve COST 10")
	reply := r.parse(r.raw("RL.POLICY", "SET", "p", "CHANGE", "reset", before))
	require.IsType(t, int64(0), reply, "%v", reply)
	s = r.settle("RL.COMMIT " + h + " COST 12")
	require.EqualValues(t, 98, s.remaining, "what was reset is gone, and what comes in addition counts")
	r.allows("p user eve PEEK COST 0", "a", "a=98")
	h = r.held("p user eve COST 10")
	r.words("RL.POLICY DEL p")
	require.EqualValues(t, 98, r.settle("RL.CANCEL "+h).remaining)
}

// A hold over a window of a calendar is given back within it, and what is spent
// beyond counts in the window of the present.
func TestHoldsOfCalendars(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("plan", `{limits: {day: {by: t, rate: 100/day, calendar: UTC}}}`)
	h := r.held("plan t a COST 40 TTL 1h")
	require.EqualValues(t, 90, r.settle("RL.COMMIT "+h+" COST 10").remaining)
	h = r.held("plan t a COST 90")
	require.EqualValues(t, 90, r.settle("RL.CANCEL "+h).remaining)
	r.advance(23*time.Hour + 30*time.Minute)
	h = r.held("plan t a COST 40 TTL 1h")
	r.advance(45 * time.Minute)
	s := r.settle("RL.COMMIT " + h + " COST 60")
	require.Equal(t, []int64{80, 0}, []int64{s.remaining, s.over}, "the difference, today")
	h = r.held("plan t a COST 5 TTL 1h")
	require.EqualValues(t, 30, r.settle("RL.COMMIT "+h+" COST 50").remaining)
}

// A transaction or a script reserves and settles as one step.
func TestHoldsInATransaction(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {a: {by: user, rate: 100/m}, all: {rate: 500/m}}}`)
	h := r.held("p user eve COST 40")
	for _, line := range []string{"MULTI", "RL.COMMIT " + h + " COST 10", "RL.RESERVE p user eve COST 5", "SET k 1"} {
		r.words(line)
	}
	replies := r.words("EXEC").([]any)
	require.Len(t, replies, 3)
	require.Len(t, replies[0], 14)
	c := readChecked(t, replies[1].([]any))
	require.EqualValues(t, 85, c.remaining)
	require.EqualValues(t, 90, r.settle("RL.CANCEL "+c.hold.(string)).remaining)

	script := func(text string, args ...string) any {
		return r.parse(r.raw(append([]string{"EVAL", text, "0"}, args...)...))
	}
	id := script("return redis.call('rl.reserve', 'p', 'user', 'eve', 'COST', 30)[9]").(string)
	require.EqualValues(t, 90, script("return redis.call('rl.cancel', ARGV[1])[3]", id))
	require.EqualValues(t, 80, script("local h = redis.call('rl.reserve', 'p', 'user', 'eve', 'COST', 30)[9] return redis.call('rl.commit', h, 'COST', 10)[3]"))
	commit := r.s.table.Find([][]byte{[]byte("rl.commit")})
	require.False(t, commit.AboutTable(), "its keys are held")
	h = r.held("p user eve")
	require.Equal(t, [][]byte{[]byte("@+" + h), []byte("@p:a;user=eve"), []byte("@p:all")}, commit.Derived([][]byte{[]byte("RL.COMMIT"), []byte(h)}, rigStart))
}

// Holds are no keys, and FLUSHALL ends them.
func TestHoldsAreHidden(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {a: {by: user, rate: 100/m}}}`)
	h := r.held("p user eve COST 40")
	r.is("DBSIZE", "1")
	r.is("EXISTS @+"+h, "0")
	require.Equal(t, []any{"@p:a;user=eve"}, r.words("KEYS *"))
	r.is("DEL @+"+h, "0")
	x := r.words("RL.EXPLAIN HOLD " + h)
	require.Equal(t, "reserved", pair(t, x, "state"))
	require.Equal(t, "release", pair(t, x, "expiry"))
	require.EqualValues(t, 120_000, pair(t, x, "ends_ms"))
	l := pair(t, x, "limits").([]any)[0]
	require.Equal(t, "@p:a;user=eve", pair(t, l, "key"))
	require.EqualValues(t, 40, pair(t, l, "cost"))
	r.is("RL.EXPLAIN HOLD x", "-NOHOLD there is no hold 'x', they are called policy;id")
	r.words("FLUSHALL")
	r.is("RL.CANCEL "+h, "-NOHOLD there is no hold '"+h+"'")
}

// In RESP3 the replies are maps with names.
func TestHoldsInRESP3(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {a: {by: user, rate: 100/m}}}`)
	r.raw("HELLO", "3")
	reply := r.raw("RL.RESERVE", "p", "user", "eve")
	require.Contains(t, reply, "$4\r\nhold\r\n$22\r\np;")
	_, rest, _ := strings.Cut(reply, "$4\r\nhold\r\n$22\r\n")
	h := rest[:22]
	reply = r.raw("RL.COMMIT", h)
	require.True(t, strings.HasPrefix(reply, "%14\r\n$7\r\nallowed\r\n:1\r\n"), reply)
	require.Contains(t, reply, "$6\r\nreason\r\n$9\r\ncommitted\r\n$4\r\nhold\r\n$22\r\n"+h)
	require.True(t, strings.HasSuffix(reply, "$4\r\nover\r\n:0\r\n"), reply)
}

// Who leads next settles what was held, once, and says the same again.
func TestHoldsOverAFailover(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 100/h, algorithm: fixed}}}`)
	leader.commit(t, follower)
	reply := leader.ask(t, "RL.RESERVE", "p", "user", "eve", "COST", "40")
	_, rest, ok := strings.Cut(reply, "$22\r\n")
	require.True(t, ok, reply)
	h := rest[:22]
	leader.commit(t, follower)
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	for range 3 {
		require.Contains(t, follower.ask(t, "RL.COMMIT", h, "COST", "10"), "*14\r\n:1\r\n:100\r\n:90\r\n")
	}
	require.Contains(t, follower.ask(t, "RL.CHECK", "p", "user", "eve", "PEEK", "COST", "0"), "*13\r\n:1\r\n:100\r\n:90\r\n")
}

// Without a leader a policy that is open admits, and holds nothing; nothing can be
// settled.
func TestHoldsWithoutALeader(t *testing.T) {
	n := newPolicyNode(t, partition.Leading)
	n.send("RL.POLICY", "SET", "p", `{on_failure: open, limits: {a: {by: user, rate: 100/h}}}`)
	n.commit(t)
	n.f.become(partition.Orphaned)
	n.replica.Depose()
	n.l.Depose()
	reply := n.ask(t, "RL.RESERVE", "p", "user", "eve")
	require.Contains(t, reply, "*13\r\n:1\r\n:100\r\n")
	require.Contains(t, reply, "$2\r\nok\r\n$-1\r\n")
	require.Contains(t, n.ask(t, "RL.RESERVE", "p", "user", "eve", "FAIL", "closed", "TTL", "5s"), "-CLUSTERDOWN")
	require.Contains(t, n.ask(t, "RL.COMMIT", "p;x"), "-CLUSTERDOWN")
	require.Contains(t, n.ask(t, "RL.CANCEL", "p;x"), "-CLUSTERDOWN")
}

// A call that is given a name is charged once, and answered the same when it comes
// again: after an edit, by another node, and as long as it is kept.
func TestCallsThatAreRepeated(t *testing.T) {
	r := newRig(t, engine.Config{})
	const text = `{attributes: {email: {type: lower}}, limits: {account: {by: email, rate: 3/day}, ip: {by: ip, rate: 20/h, algorithm: sliding}}}`
	r.setPolicy("reset", text)
	r.allows("reset email Alice@x ip 1.1.1.1", "account", "account=2")
	first := r.allows("reset email alice@x ip 1.1.1.1 ID 7f3", "account", "account=1 ip=18")
	require.Nil(t, first.hold)
	first.limits = map[string]checkedLimit{}
	again := func(line string) {
		t.Helper()
		require.Equal(t, first, r.check(line))
	}
	again("reset ip 1.1.1.1 ID 7f3 email alice@x")
	r.is("RL.CHECK reset email bob@x ip 1.1.1.1 ID 7f3", "-IDCONFLICT '7f3' was given to another call")
	r.is("RL.CHECK reset email alice@x ip 1.1.1.1 ID 7f3 COST 2", "-IDCONFLICT '7f3' was given to another call")
	r.is("RL.RESERVE reset email alice@x ip 1.1.1.1 ID 7f3", "-IDCONFLICT '7f3' was given to another call")
	r.is("RL.CHECK reset email alice@x ID 7f3 PEEK", "-ERR PEEK and ID exclude each other")
	r.is("RL.CHECK reset email alice@x ID 7f3 ID 7f3", "-ERR syntax error, ID is given twice")
	r.is("RL.CHECK reset email alice@x ID "+strings.Repeat("x", 129), "-ERR ID must be 1 to 128 bytes")
	r.is("RL.CANCEL reset;7f3", "-NOHOLD there is no hold 'reset;7f3'")
	r.is("RL.EXPLAIN POLICY reset email a ID 7f3", "-ERR ID is of RL.CHECK and RL.RESERVE")
	r.allows("reset email alice@x ip 1.1.1.1 PEEK COST 0", "account", "account=1 ip=18")

	// Also where the policy says something else by now.
	r.setPolicy("reset", `{deny: [{ip: 1.1.1.1}], limits: {account: {rate: 1/day}}}`)
	again("reset email alice@x ip 1.1.1.1 ID 7f3")
	r.setPolicy("reset", text)

	// What is denied leaves nothing: it may come again.
	r.allows("reset email alice@x ip 1.1.1.1", "account", "account=0")
	c := r.check("reset email alice@x ip 1.1.1.1 ID later")
	require.EqualValues(t, 0, c.allowed)
	r.advance(24 * time.Hour)
	c = r.check("reset email alice@x ip 1.1.1.1 ID later")
	require.EqualValues(t, 1, c.allowed)
	r.advance(11 * time.Minute)
	require.EqualValues(t, 1, r.check("reset email alice@x ip 1.1.1.1 ID later").allowed)
	r.allows("reset email alice@x ip 1.1.1.1 PEEK COST 0", "account", "account=1")

	// A reservation by name: its hold is known beforehand.
	r.setPolicy("p", `{allow: [{user: good}], limits: {a: {by: user, rate: 100/m}}}`)
	h := r.reserve("p user eve COST 40 ID a;b")
	require.Equal(t, "p;a%3Bb", h.hold)
	h.limits = map[string]checkedLimit{}
	require.Equal(t, h, r.reserve("p user eve COST 40 ID a;b"))
	require.EqualValues(t, 90, r.settle("RL.COMMIT p;a%3Bb COST 10").remaining)
	require.Equal(t, h, r.reserve("p user eve COST 40 ID a;b"), "settled, and known")
	r.allows("p user eve PEEK COST 0", "a", "a=90")
	l := r.check("p user good ID x")
	require.Equal(t, "allow", l.reason)
	require.Equal(t, l, r.check("p user good ID x"))

	for _, line := range []string{"MULTI", "RL.CHECK p user eve ID tx", "RL.CHECK p user eve ID tx"} {
		r.words(line)
	}
	replies := r.words("EXEC").([]any)
	require.Len(t, replies, 2)
	require.EqualValues(t, 89, readChecked(t, replies[0].([]any)).remaining)
	require.EqualValues(t, 89, readChecked(t, replies[1].([]any)).remaining)
}

// The leader dies between charge and answer: the client asks the next one, and is
// charged once.
func TestACallIsRepeatedAfterAFailover(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 100/h, algorithm: fixed}}}`)
	leader.commit(t, follower)
	check := []string{"RL.CHECK", "p", "user", "eve", "COST", "40", "ID", "x"}
	want := "*13\r\n:1\r\n:100\r\n:60\r\n"
	require.Contains(t, leader.ask(t, check...), want)
	leader.commit(t, follower)
	lost := []string{"RL.CHECK", "p", "user", "eve", "COST", "7", "ID", "lost"}
	require.Contains(t, leader.ask(t, lost...), ":53\r\n")
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	for range 3 {
		require.Contains(t, follower.ask(t, check...), want)
	}
	for range 2 {
		require.Contains(t, follower.ask(t, lost...), "*13\r\n:1\r\n:100\r\n:53\r\n", "what was lost is charged now, once")
	}
}

// Who does not know the cost says nothing of it, also by an empty value.
func TestAnEmptyCostIsNone(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("llm", `{limits: {t: {by: k, rate: 1000/d, cost: tokens}}}`)
	h := r.held("llm k z tokens 900")
	list := r.parse(r.raw("RL.COMMIT", h, "tokens", "")).([]any)
	r.expectChecked("", readChecked(t, list[:13]), "t", "t=100")
}

// What comes in addition is charged to the counter that the policy reads now.
func TestCommitOfMoreUnderAnotherAlgorithm(t *testing.T) {
	r := newRig(t, engine.Config{})
	reset := func(text string) {
		require.IsType(t, int64(0), r.parse(r.raw("RL.POLICY", "SET", "al", "CHANGE", "RESET", text)))
	}
	r.setPolicy("al", `{limits: {l: {by: u, rate: 100/h}}}`)
	for _, checks := range []int64{0, 1} {
		h := r.held("al u 1 COST 10")
		reset(`{limits: {l: {by: u, rate: 100/h, algorithm: fixed}}}`)
		for range checks {
			r.words("RL.CHECK al u 1")
		}
		left := 50 - checks
		s := r.settle("RL.COMMIT " + h + " COST 60")
		r.expectChecked("", s.checked, "l", "l="+strconv.FormatInt(left, 10))
		r.expectChecked("RL.CHECK al u 1 PEEK", r.check("al u 1 PEEK"), "l", "l="+strconv.FormatInt(left-1, 10))
		reset(`{limits: {l: {by: u, rate: 100/h}}}`)
	}
}

// A look at what a hold would get is bounded by its share, too.
func TestPeekOfAShare(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("sp", `{hold: {share: 50%}, limits: {u: {by: user, rate: 10/h}}}`)
	for _, peek := range []string{" PEEK", ""} {
		c := r.reserve("sp user 1 COST 6" + peek)
		require.Equal(t, []any{int64(0), int64(-1), "u"}, []any{c.allowed, c.retry, c.name}, peek)
		c = r.reserve("sp user 1 COST 5 PEEK")
		require.Equal(t, []any{int64(1), nil}, []any{c.allowed, c.hold}, peek)
	}
	require.EqualValues(t, 1, r.check("sp user 1 COST 6 PEEK").allowed, "a check holds nothing")
}
