package checks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// A commit names costs of its hold, or what its policy knows: a mistyped name must
// not settle the estimate.
func TestCommitOfAnUnknownAttribute(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const text = `{allow: [{key: good}], limits: {rpm: {by: key, rate: 60/m}, tpm: {by: key, cost: tokens, tiers: {attribute: tier, vip: unlimited, default: 6000/m}}}}`
	r.SetPolicy("llm", text)
	h := r.Held("llm key k tokens 4000")
	r.Is("RL.COMMIT "+h+" token 10", "-ERR attribute 'token' is not a cost of the hold, use tokens")
	r.Is("RL.COMMIT "+h+" tokens 10 Tokens 10", "-ERR attribute 'Tokens' is not a cost of the hold, use tokens")
	require.Equal(t, "reserved", rig.Pair(t, r.Words("RL.EXPLAIN HOLD "+h), "state"), "nothing is settled")
	r.Allows("llm key k tokens 0 PEEK", "rpm", "rpm=58 tpm=2000")

	// Attributes that the policy uses may be given again.
	s := r.Settle("RL.COMMIT " + h + " key k tier default tokens 1000")
	r.ExpectChecked("", s.Checked, "tpm", "rpm=59 tpm=5000")
	require.Equal(t, "committed", r.Settle("RL.COMMIT "+h+" token 10").Reason, "what is settled is answered")

	// A caller without a limit of that cost may give it all the same, and so may a caller on a
	// list.
	for _, who := range []string{"key vip tier vip", "key good"} {
		h = r.Held("llm " + who + " tokens 4000")
		require.Equal(t, "committed", r.Settle("RL.COMMIT "+h+" tokens 9000").Reason)
	}
	h = r.Held("llm key v tier vip")
	r.Is("RL.COMMIT "+h+" token 10", "-ERR attribute 'token' is not a cost of the hold, use COST")

	// After an edit nobody knows any more what the policy knew.
	h = r.Held("llm key e tier vip tokens 4000")
	r.SetPolicy("llm", `{limits: {rpm: {by: key, rate: 60/m}}}`)
	require.Equal(t, "committed", r.Settle("RL.COMMIT "+h+" tokens 9000").Reason)
}

// RL.POLICY RESET, of a caller or of the policy, ends the holds on the counters that it
// forgets: open ones, and those that may be committed late. Settled holds, IDs of calls, and
// holds of other callers stay.
func TestHoldsAndResets(t *testing.T) {
	for _, reset := range []string{"RL.POLICY RESET p user eve", "RL.POLICY RESET p"} {
		for _, algorithm := range []string{"token", "leaky", "fixed", "sliding", "log"} {
			about := reset + " of " + algorithm
			r := rig.New(t, engine.Config{})
			r.SetPolicy("p", `{hold: {ttl: 10s}, limits: {a: {by: user, rate: 100/h, algorithm: `+algorithm+`}, all: {rate: 1000/h}}}`)
			r.SetPolicy("pp", `{limits: {a: {by: user, rate: 100/h}}}`)
			left := func(user string, a, all int64) {
				t.Helper()
				c := r.Check("p user " + user + " PEEK COST 0")
				require.Equal(t, []int64{a, all}, []int64{c.Limits["a"].Remaining, c.Limits["all"].Remaining}, about)
			}
			r.Is("RL.POLICY RESET p user nobody", "0")
			expired := r.Held("p user eve COST 10 TTL 1s")
			r.Advance(3 * time.Second)
			r.Ends(expired)
			open, settled := r.Held("p user eve COST 20"), r.Held("p user eve COST 30")
			require.Equal(t, "committed", r.Settle("RL.COMMIT "+settled+" COST 10").Reason)
			named := r.Check("p user eve COST 5 ID order")
			other, elsewhere := r.Held("p user bob COST 40"), r.Held("pp user eve")
			left("eve", 65, 925)

			require.IsType(t, int64(0), r.Words(reset))
			all := int64(925) // of everybody
			if reset == "RL.POLICY RESET p" {
				all = 1000
			}
			left("eve", 100, all)
			for _, h := range []string{open, expired} {
				for _, line := range []string{"RL.COMMIT " + h + " COST 50", "RL.CANCEL " + h, "RL.EXPLAIN HOLD " + h} {
					r.Is(line, "-NOHOLD there is no hold '"+h+"'")
				}
			}
			require.Equal(t, "committed", r.Settle("RL.CANCEL "+settled).Reason, about)
			named.Limits = map[string]rig.CheckedLimit{}
			require.Equal(t, named, r.Check("p user eve COST 5 ID order"), about)
			require.EqualValues(t, 100, r.Settle("RL.CANCEL "+elsewhere).Remaining, "another policy's")
			left("eve", 100, all)
			if reset == "RL.POLICY RESET p" {
				r.Is("RL.CANCEL "+other, "-NOHOLD there is no hold '"+other+"'")
			} else {
				require.EqualValues(t, 90, r.Settle("RL.COMMIT "+other+" COST 10").Remaining)
			}
			require.EqualValues(t, 99, r.Settle("RL.COMMIT "+r.Held("p user eve COST 9")+" COST 1").Remaining, "what is held later is held")
		}
	}
}

// A reset of a caller ends a hold on the counters that it forgets. It also frees the hold's
// slots of limits that it spares, since nobody could give them back.
func TestAResetFreesTheSlotsOfHolds(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("export", `{limits: {run: {by: [t, route], concurrent: 2, ttl: 10m}, day: {by: t, rate: 20/day}}}`)
	free := func(n int64) {
		t.Helper()
		require.Equal(t, n, r.Check("export t A route /x COST 0 PEEK").Limits["run"].Remaining)
	}
	r.Check("export t A route /x ID j")
	r.Check("export t A route /x ID k")
	r.Settle("RL.COMMIT export;k")
	r.Check("export t B route /x ID other")
	free(1)
	r.Is("RL.POLICY RESET export t A", "1")
	free(2)
	require.Equal(t, int64(1), r.Check("export t B route /x COST 0 PEEK").Limits["run"].Remaining, "others keep theirs")
	r.Is("RL.COMMIT export;j", "-NOHOLD there is no hold 'export;j'")
	require.EqualValues(t, 1, r.Check("export t A route /x ID j").Allowed, "a new call")
	free(1)
}

// A hold that has driven the entries of others out of a log gives nothing back, since they
// would stay out. A look leaves all holds as they are.
func TestHoldsBesideWhatOverflows(t *testing.T) {
	for _, mode := range []string{"soft", "shadow"} {
		r := rig.New(t, engine.Config{})
		r.SetPolicy("s", `{limits: {u: {by: u, rate: 4/m, algorithm: log, mode: `+mode+`, count: all}}}`)
		left := func() int64 { return r.Check("s u x COST 0 PEEK").Limits["u"].Remaining }
		r.Check("s u x COST 2")
		r.Settle("RL.CANCEL " + r.Held("s u x COST 3"))
		require.LessOrEqual(t, left(), int64(2), "no better than never reserved")
		r.Advance(time.Minute)
		r.Settle("RL.CANCEL " + r.Held("s u x COST 4"))
		require.Equal(t, int64(4), left(), "it drove nothing out")
	}

	r := rig.New(t, engine.Config{})
	r.SetPolicy("s", `{limits: {u: {by: u, rate: 10/m, mode: soft, count: all}}}`)
	var left [2]int64
	for i, look := range []string{"PEEK", ""} {
		user := "s u x" + look
		h := r.Held(user + " COST 4")
		r.Check(user + " COST 5")
		r.Check(user + " COST 2")
		r.Check(user + " COST 0 " + look)
		r.Settle("RL.CANCEL " + h)
		left[i] = r.Check(user + " COST 0 PEEK").Limits["u"].Remaining
	}
	require.Equal(t, left[0], left[1], "a look changes nothing")
}

// What a commit adds is charged under the present numbers, if the key of the counter shows
// which these are. If a tier or an override depends on an attribute that the key does not show,
// it is charged under the hold's numbers. Then others may get back less, but nobody is admitted
// beyond the limit.
func TestACommitOfMoreAfterAnEdit(t *testing.T) {
	for _, v := range []struct {
		text, limits  string
		limit         int64 // that the commit is charged under
		left          int64 // of 200, after it
		leftCancelled int64 // and after another hold was cancelled
	}{
		{"a tier of by", `{by: [user, plan], tiers: {attribute: plan, pro: %s, default: 10/h}}`, 200, 129, 149},
		{"a tier of another attribute", `{by: user, tiers: {attribute: plan, pro: %s, default: 10/h}}`, 100, 129, 129},
	} {
		r := rig.New(t, engine.Config{})
		set := func(rate string) { r.SetPolicy("p", "{limits: {u: "+fmt.Sprintf(v.limits, rate)+"}}") }
		const call = "p user eve plan pro"
		set("100/h")
		first, second := r.Held(call+" COST 20"), r.Held(call+" COST 20")
		set("200/h")
		other := r.Held(call + " COST 20") // under the numbers of now
		r.Allows(call, "u", "u=139")
		c := r.Settle("RL.COMMIT " + first + " COST 30")
		require.Equal(t, v.limit, c.Limit, v.text)
		r.Allows(call+" COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.left))
		r.Settle("RL.CANCEL " + other)
		r.Allows(call+" COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.leftCancelled))
		r.Settle("RL.CANCEL " + second) // charged under other numbers
		r.Allows(call+" COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.leftCancelled))
		require.EqualValues(t, 0, r.Check(fmt.Sprint(call, " COST ", v.leftCancelled+1)).Allowed, v.text)
	}
}

// What a commit adds while the policy is deleted counts when the policy comes back. It does not
// count on a counter that was reset after the reservation and not charged since.
func TestACommitOfMoreWithoutThePolicy(t *testing.T) {
	const text = `{limits: {u: {by: user, rate: 100/h}}}`
	for _, v := range []struct {
		reset, charged bool
		left           int64
	}{{false, false, 70}, {true, false, 100}, {true, true, 89}} {
		r := rig.New(t, engine.Config{})
		r.SetPolicy("p", text)
		h := r.Held("p user eve COST 20")
		if v.reset {
			require.IsType(t, int64(0), r.Parse(r.Raw("RL.POLICY", "SET", "p", "CHANGE", "RESET", `{limits: {u: {by: user, rate: 101/h}}}`)))
		}
		if v.charged {
			r.Check("p user eve")
		}
		require.IsType(t, int64(0), r.Words("RL.POLICY DEL p"))
		require.Equal(t, "committed", r.Settle("RL.COMMIT "+h+" COST 30").Reason)
		r.SetPolicy("p", text)
		r.Allows("p user eve COST 0 PEEK", "u", fmt.Sprintf("u=%d", v.left))
	}
}

// A reset frees the name of a hold that it ends, and keeps that of a settled one.
func TestAResetFreesNamesOfOpenHolds(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {l: {by: user, rate: 10/h}}}`)
	left := func(id string) any { return r.Words("RL.RESERVE p user eve COST 3 ID " + id).([]any)[2] }
	require.EqualValues(t, 7, left("open"))
	require.EqualValues(t, 4, left("settled"))
	r.Words("RL.COMMIT p;settled COST 3")
	r.Is("RL.POLICY RESET p user eve", "1")
	r.Is("RL.COMMIT p;open", "-NOHOLD there is no hold 'p;open'")
	require.EqualValues(t, 7, left("open"), "a new call")
	require.EqualValues(t, 4, left("settled"), "what it was answered")
	require.EqualValues(t, 7, r.Check("p user eve COST 0").Remaining, "and charged once")
}
