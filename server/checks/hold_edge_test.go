package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
)

// A commit names costs of its hold, or what its policy knows: a mistyped name must
// not settle the estimate.
func TestCommitOfAnUnknownAttribute(t *testing.T) {
	r := newRig(t, engine.Config{})
	const text = `{allow: [{key: good}], limits: {rpm: {by: key, rate: 60/m}, tpm: {by: key, cost: tokens, tiers: {attribute: tier, vip: unlimited, default: 6000/m}}}}`
	r.setPolicy("llm", text)
	h := r.held("llm key k tokens 4000")
	r.is("RL.COMMIT "+h+" token 10", "-ERR attribute 'token' is no cost of the hold, use tokens")
	r.is("RL.COMMIT "+h+" tokens 10 Tokens 10", "-ERR attribute 'Tokens' is no cost of the hold, use tokens")
	require.Equal(t, "reserved", pair(t, r.words("RL.EXPLAIN HOLD "+h), "state"), "nothing is settled")
	r.allows("llm key k tokens 0 PEEK", "rpm", "rpm=58 tpm=2000")

	// What the policy knows may be told again.
	s := r.settle("RL.COMMIT " + h + " key k tier default tokens 1000")
	r.expectChecked("", s.checked, "tpm", "rpm=59 tpm=5000")
	require.Equal(t, "committed", r.settle("RL.COMMIT "+h+" token 10").reason, "what is settled is answered")

	// Who has no limit of that cost tells it all the same; so does who is on a list.
	for _, who := range []string{"key vip tier vip", "key good"} {
		h = r.held("llm " + who + " tokens 4000")
		require.Equal(t, "committed", r.settle("RL.COMMIT "+h+" tokens 9000").reason)
	}
	h = r.held("llm key v tier vip")
	r.is("RL.COMMIT "+h+" token 10", "-ERR attribute 'token' is no cost of the hold, use COST")

	// After an edit nobody knows any more what the policy knew.
	h = r.held("llm key e tier vip tokens 4000")
	r.setPolicy("llm", `{limits: {rpm: {by: key, rate: 60/m}}}`)
	require.Equal(t, "committed", r.settle("RL.COMMIT "+h+" tokens 9000").reason)
}

// RL.POLICY RESET, of a caller or of the policy, ends the holds on what it forgets, as
// if there had been none: open ones, and those that may be committed late. What was
// settled, names of calls and holds of others stay.
func TestHoldsAndResets(t *testing.T) {
	for _, reset := range []string{"RL.POLICY RESET p user eve", "RL.POLICY RESET p"} {
		for _, algorithm := range []string{"token", "leaky", "fixed", "sliding", "log"} {
			about := reset + " of " + algorithm
			r := newRig(t, engine.Config{})
			r.setPolicy("p", `{hold: {ttl: 10s}, limits: {a: {by: user, rate: 100/h, algorithm: `+algorithm+`}, all: {rate: 1000/h}}}`)
			r.setPolicy("pp", `{limits: {a: {by: user, rate: 100/h}}}`)
			left := func(user string, a, all int64) {
				t.Helper()
				c := r.check("p user " + user + " PEEK COST 0")
				require.Equal(t, []int64{a, all}, []int64{c.limits["a"].remaining, c.limits["all"].remaining}, about)
			}
			r.is("RL.POLICY RESET p user nobody", "0")
			expired := r.held("p user eve COST 10 TTL 1s")
			r.advance(3 * time.Second)
			r.ends(expired)
			open, settled := r.held("p user eve COST 20"), r.held("p user eve COST 30")
			require.Equal(t, "committed", r.settle("RL.COMMIT "+settled+" COST 10").reason)
			named := r.check("p user eve COST 5 ID order")
			other, elsewhere := r.held("p user bob COST 40"), r.held("pp user eve")
			left("eve", 65, 925)

			require.IsType(t, int64(0), r.words(reset))
			all := int64(925) // of everybody
			if reset == "RL.POLICY RESET p" {
				all = 1000
			}
			left("eve", 100, all)
			for _, h := range []string{open, expired} {
				for _, line := range []string{"RL.COMMIT " + h + " COST 50", "RL.CANCEL " + h, "RL.EXPLAIN HOLD " + h} {
					r.is(line, "-NOHOLD there is no hold '"+h+"'")
				}
			}
			require.Equal(t, "committed", r.settle("RL.CANCEL "+settled).reason, about)
			named.limits = map[string]checkedLimit{}
			require.Equal(t, named, r.check("p user eve COST 5 ID order"), about)
			require.EqualValues(t, 100, r.settle("RL.CANCEL "+elsewhere).remaining, "another policy's")
			left("eve", 100, all)
			if reset == "RL.POLICY RESET p" {
				r.is("RL.CANCEL "+other, "-NOHOLD there is no hold '"+other+"'")
			} else {
				require.EqualValues(t, 90, r.settle("RL.COMMIT "+other+" COST 10").remaining)
			}
			require.EqualValues(t, 99, r.settle("RL.COMMIT "+r.held("p user eve COST 9")+" COST 1").remaining, "what is held later is held")
		}
	}
}

// What a reset has ended is ended on every node.
func TestAResetEndsHoldsEverywhere(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 100/h}}}`)
	leader.commit(t, follower)
	for _, user := range []string{"eve", "bob"} {
		require.Contains(t, leader.ask(t, "RL.RESERVE", "p", "user", user, "COST", "40", "ID", user), "p;"+user)
	}
	leader.commit(t, follower)
	leader.send("RL.POLICY", "RESET", "p", "user", "eve")
	leader.commit(t, follower)
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	require.Contains(t, follower.ask(t, "RL.COMMIT", "p;eve", "COST", "70"), "-NOHOLD")
	require.Contains(t, follower.ask(t, "RL.COMMIT", "p;bob", "COST", "70"), "*14\r\n:1\r\n:100\r\n:30\r\n")
	require.Contains(t, follower.ask(t, "RL.CHECK", "p", "user", "eve", "PEEK", "COST", "0"), "*13\r\n:1\r\n:100\r\n:100\r\n")
}

// A reset of a caller ends a hold on what it forgets, and frees its slots of limits
// that it spares too: nobody could give them back.
func TestAResetFreesTheSlotsOfHolds(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("export", `{limits: {run: {by: [t, route], concurrent: 2, ttl: 10m}, day: {by: t, rate: 20/day}}}`)
	free := func(n int64) {
		t.Helper()
		require.Equal(t, n, r.check("export t A route /x COST 0 PEEK").limits["run"].remaining)
	}
	r.check("export t A route /x ID j")
	r.check("export t A route /x ID k")
	r.settle("RL.COMMIT export;k")
	r.check("export t B route /x ID other")
	free(1)
	r.is("RL.POLICY RESET export t A", "1")
	free(2)
	require.Equal(t, int64(1), r.check("export t B route /x COST 0 PEEK").limits["run"].remaining, "others keep theirs")
	r.is("RL.COMMIT export;j", "-NOHOLD there is no hold 'export;j'")
	require.EqualValues(t, 1, r.check("export t A route /x ID j").allowed, "a new call")
	free(1)
}

// What has driven the entries of others out of a log gives nothing back: they would
// stay out. A look leaves all holds as they are.
func TestHoldsBesideWhatOverflows(t *testing.T) {
	for _, mode := range []string{"soft", "shadow"} {
		r := newRig(t, engine.Config{})
		r.setPolicy("s", `{limits: {u: {by: u, rate: 4/m, algorithm: log, mode: `+mode+`, count: all}}}`)
		left := func() int64 { return r.check("s u x COST 0 PEEK").limits["u"].remaining }
		r.check("s u x COST 2")
		r.settle("RL.CANCEL " + r.held("s u x COST 3"))
		require.LessOrEqual(t, left(), int64(2), "no better than never reserved")
		r.advance(time.Minute)
		r.settle("RL.CANCEL " + r.held("s u x COST 4"))
		require.Equal(t, int64(4), left(), "it drove nothing out")
	}

	r := newRig(t, engine.Config{})
	r.setPolicy("s", `{limits: {u: {by: u, rate: 10/m, mode: soft, count: all}}}`)
	var left [2]int64
	for i, look := range []string{"PEEK", ""} {
		user := "s u x" + look
		h := r.held(user + " COST 4")
		r.check(user + " COST 5")
		r.check(user + " COST 2")
		r.check(user + " COST 0 " + look)
		r.settle("RL.CANCEL " + h)
		left[i] = r.check(user + " COST 0 PEEK").limits["u"].remaining
	}
	require.Equal(t, left[0], left[1], "a look changes nothing")
}

// What a commit adds is charged under the numbers of now where the key of the counter
// tells them, and under those of the hold where a tier or an override goes by an attribute
// that it does not tell. Then others lose what they could have given back, and nobody is
// admitted beyond the limit.
func TestACommitOfMoreAfterAnEdit(t *testing.T) {
	for _, v := range []struct {
		text, limits  string
		limit         int64 // that the commit is charged under
		left          int64 // of 200, behind it
		leftCancelled int64 // and behind another one that gives its hold back
	}{
		{"a tier of by", `{by: [user, plan], tiers: {attribute: plan, pro: %s, default: 10/h}}`, 200, 129, 149},
		{"a tier of another attribute", `{by: user, tiers: {attribute: plan, pro: %s, default: 10/h}}`, 100, 129, 129},
	} {
		r := newRig(t, engine.Config{})
		set := func(rate string) { r.setPolicy("p", "{limits: {u: "+fmt.Sprintf(v.limits, rate)+"}}") }
		const call = "p user eve plan pro"
		set("100/h")
		first, second := r.held(call+" COST 20"), r.held(call+" COST 20")
		set("200/h")
		other := r.held(call + " COST 20") // under the numbers of now
		r.allows(call, "u", "u=139")
		c := r.settle("RL.COMMIT " + first + " COST 30")
		require.Equal(t, v.limit, c.limit, v.text)
		r.allows(call+" COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.left))
		r.settle("RL.CANCEL " + other)
		r.allows(call+" COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.leftCancelled))
		r.settle("RL.CANCEL " + second) // charged under other numbers
		r.allows(call+" COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.leftCancelled))
		require.EqualValues(t, 0, r.check(fmt.Sprint(call, " COST ", v.leftCancelled+1)).allowed, v.text)
	}
}

// What a commit adds while the policy is deleted counts when it comes back, but not on a
// counter that was reset after the reservation, and has not been charged since.
func TestACommitOfMoreWithoutThePolicy(t *testing.T) {
	const text = `{limits: {u: {by: user, rate: 100/h}}}`
	for _, v := range []struct {
		reset, charged bool
		left           int64
	}{{false, false, 70}, {true, false, 100}, {true, true, 89}} {
		r := newRig(t, engine.Config{})
		r.setPolicy("p", text)
		h := r.held("p user eve COST 20")
		if v.reset {
			require.IsType(t, int64(0), r.parse(r.raw("RL.POLICY", "SET", "p", "CHANGE", "RESET", `{limits: {u: {by: user, rate: 101/h}}}`)))
		}
		if v.charged {
			r.check("p user eve")
		}
		require.IsType(t, int64(0), r.words("RL.POLICY DEL p"))
		require.Equal(t, "committed", r.settle("RL.COMMIT "+h+" COST 30").reason)
		r.setPolicy("p", text)
		r.allows("p user eve COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.left))
	}
}

// A reset frees the name of a hold that it ends, and keeps that of a settled one.
func TestAResetFreesNamesOfOpenHolds(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {l: {by: user, rate: 10/h}}}`)
	left := func(id string) any { return r.words("RL.RESERVE p user eve COST 3 ID " + id).([]any)[2] }
	require.EqualValues(t, 7, left("open"))
	require.EqualValues(t, 4, left("settled"))
	r.words("RL.COMMIT p;settled COST 3")
	r.is("RL.POLICY RESET p user eve", "1")
	r.is("RL.COMMIT p;open", "-NOHOLD there is no hold 'p;open'")
	require.EqualValues(t, 7, left("open"), "a new call")
	require.EqualValues(t, 4, left("settled"), "what it was answered")
	require.EqualValues(t, 7, r.check("p user eve COST 0").remaining, "and charged once")
}
