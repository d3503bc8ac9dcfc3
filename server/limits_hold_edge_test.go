package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// RL.POLICY RESET forgives what a hold was charged, and ends it not: who has it
// settles it without an error, gets nothing back, and is charged what the call cost
// beyond the estimate, which nobody knew at the reset.
func TestHoldsAndResets(t *testing.T) {
	for _, reset := range []string{"RL.POLICY RESET p user eve", "RL.POLICY RESET p"} {
		for _, algorithm := range []string{"token", "leaky", "fixed", "sliding", "log"} {
			about := reset + " of " + algorithm
			r := newRig(t, engine.Config{})
			r.setPolicy("p", `{hold: {ttl: 10s}, limits: {a: {by: user, rate: 100/h, algorithm: `+algorithm+`}}}`)
			left := func(want int64) {
				t.Helper()
				require.EqualValues(t, want, r.check("p user eve PEEK COST 0").remaining, about)
			}
			less, cancelled, more, expired := r.held("p user eve COST 10"), r.held("p user eve COST 20"), r.held("p user eve COST 30"), r.held("p user eve COST 40 TTL 1s")
			require.IsType(t, int64(0), r.words(reset))
			left(100)
			r.check("p user eve COST 50")
			require.EqualValues(t, 50, r.settle("RL.COMMIT "+less+" COST 1").remaining, about)
			require.EqualValues(t, 50, r.settle("RL.CANCEL "+cancelled).remaining, about)
			require.EqualValues(t, 45, r.settle("RL.COMMIT "+more+" COST 35").remaining, about)
			r.advance(3 * time.Second)
			require.Equal(t, "expired", r.settle("RL.CANCEL "+expired).reason, about)
			left(45)
		}
	}
}
