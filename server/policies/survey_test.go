package policies

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// A survey looks at some keys at a time, and says what it has not looked at.
func TestSurveysStop(t *testing.T) {
	e := engine.New(engine.Config{Shards: 4})
	sess := e.NewSession()
	version := func(n uint64, rate string) *policy.Set {
		rec, err := grammar.ParseRecord("p", "p", []byte("{limits: {a: {by: user, rate: "+rate+"}}}"))
		require.NoError(t, err)
		editor := policy.NewSet(policy.Config{Seed: e.Seed()}).Edit()
		editor.Set(rec, policy.Meta{Version: n})
		set, err := editor.Finish(1)
		require.NoError(t, err)
		return set
	}
	was, is := version(1, "9/h"), version(2, "2/h")
	const keys = 5000
	limit, err := e.Ready(algo.Limit{Algorithm: algo.Token.OfPolicy(), Limit: 9, Period: 3600e9})
	require.NoError(t, err)
	var out [1]engine.Checked
	for i := range keys {
		key := fmt.Appendf(nil, "@p:a;user=%d", i)
		_, err := sess.Check(e.Now(), []engine.Check{{Key: key, Hash: maphash.Bytes(e.Seed(), key), Limit: limit, Cost: int64(1 + i%2*4)}}, engine.CheckOptions{}, out[:])
		require.NoError(t, err)
	}
	s := newSurvey(sess, was, is, []string{"p"})
	rounds := 0
	require.NoError(t, s.run(func() bool { rounds++; return rounds < 3 }))
	require.False(t, s.whole)
	require.Equal(t, 3, rounds)
	require.Greater(t, s.looked, 0)
	require.LessOrEqual(t, s.looked, 3*(surveyBatch+64), "a batch and the rest of a segment")
	lines := s.lines()
	require.Len(t, lines, 2)
	require.Equal(t, fmt.Sprintf("stopped after 1s: %d of %d keys were looked at", s.looked, keys), lines[1])

	s = newSurvey(sess, was, is, []string{"p"})
	require.NoError(t, s.run(func() bool { return true }))
	require.Equal(t, []string{"p: limits.a: live counters: 5000, over: 2500"}, s.lines())
	require.Nil(t, newSurvey(sess, is, was, []string{"p"}), "what has never been there has no counters")
}
