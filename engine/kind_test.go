package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

func TestEveryKindHasWhatItNeeds(t *testing.T) {
	for a := range algo.PolicySlots + 1 {
		k := traitsOf(a)
		// Eviction and RL.EXPLAIN meet every kind.
		require.Equal(t, a.HasQuota(), k.pressure == nil, a)
		require.Equal(t, a.HasQuota(), k.describe == nil, a)
	}
}

func TestAKindWithoutSharesIsNotDecidedLocally(t *testing.T) {
	l := NewLocal(New(Config{}))
	l.Begin(3, 0)
	for _, a := range []algo.Algorithm{algo.Slots, algo.PolicySlots, algo.Counter, algo.PolicySlots + 1} {
		out := make([]algo.Decision, 1)
		_, err := l.Decide(start, chainOf(Segment{[]byte("k"), algo.Limit{Algorithm: a, Limit: 9}, 1}), &algo.Options{}, out)
		require.ErrorIs(t, err, ErrNotLocal, a)
	}
}
