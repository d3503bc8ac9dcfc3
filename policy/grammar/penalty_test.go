package grammar_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// The content of a penalty, its text, and its form for the engine.
func TestPenalties(t *testing.T) {
	const m, h = int64(time.Minute), int64(time.Hour)
	f := func(limit, canonical string, want policy.Penalty) {
		t.Helper()
		r := policytest.Record(t, "p", "limits: {l: {by: user, "+limit+"}}")
		require.Contains(t, grammar.Format(r), "\n    penalty: "+canonical+"\n")
		require.Equal(t, grammar.Format(r), grammar.Format(policytest.Record(t, "p", grammar.Format(r))))
		p := policytest.With(t, policytest.Empty(), r).Policy([]byte("p"))
		require.True(t, p.Penalties)
		require.Equal(t, want, *p.Limits[0].Penalty)
	}
	f("rate: 5/m, penalty: {after: 3, within: 10m, block: 15m, factor: 2, max: 12h}", "{after: 3, within: 10m, block: 15m, factor: 2, max: 12h}",
		policy.Penalty{After: 3, Within: 10 * m, Block: 15 * m, Factor: 2, Max: 12 * h})
	f("rate: 5/m, penalty: {block: 15m, after: 1_000}", "{after: 1000, block: 15m}", policy.Penalty{After: 1000, Block: 15 * m, Factor: 1, Max: 24 * h})
	f("rate: 5/m, penalty: {after: 1, block: 1ms, factor: 1, max: 24h}", "{after: 1, block: 1ms}", policy.Penalty{After: 1, Block: m / 60_000, Factor: 1, Max: 24 * h})
	f("rate: 5/day, calendar: UTC, penalty: {after: 1, block: 1m}", "{after: 1, block: 1m}", policy.Penalty{After: 1, Within: 24 * h, Block: m, Factor: 1, Max: 24 * h})
	f("rate: 5/month, calendar: UTC, penalty: {after: 1, within: 1m, block: 1m}", "{after: 1, within: 1m, block: 1m}", policy.Penalty{After: 1, Within: m, Block: m, Factor: 1, Max: 24 * h})
	f("rate: blocked, calendar: UTC, penalty: {after: 1, block: 1m}", "{after: 1, block: 1m}", policy.Penalty{After: 1, Block: m, Factor: 1, Max: 24 * h})
	require.False(t, policytest.With(t, policytest.Empty(), policytest.Record(t, "p", "limits: {l: {rate: 5/m}}")).Policy([]byte("p")).Penalties)
}
