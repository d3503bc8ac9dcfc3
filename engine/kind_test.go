package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryKindHasItsRow(t *testing.T) {
	require.Len(t, kinds, int(blocked))
	names := make(map[string]bool)
	for i := range kinds {
		a, k := Algorithm(i), &kinds[i]
		require.NotEmpty(t, k.name, a)
		require.False(t, names[k.name], k.name)
		names[k.name] = true
		require.Equal(t, k.name, a.String())
		// Eviction and RL.EXPLAIN meet every kind.
		require.NotNil(t, k.pressure, k.name)
		require.NotNil(t, k.describe, k.name)
		require.Equal(t, k.encode == nil, k.decode == nil, k.name)
		require.NotEmpty(t, a.Type())
		if k.policy {
			require.Equal(t, policyType, a.Type())
			require.NotNil(t, k.ask, k.name)
			require.Equal(t, a != PolicySlots, k.split != nil, k.name)
			switch a {
			case PolicyCalendar: // of no algorithm of RL.LIMIT
				require.Equal(t, a, a.Decider())
			case PolicySlots: // of RL.ACQUIRE's
				require.Equal(t, Slots, a.Decider())
			default:
				require.Equal(t, a, a.Decider().OfPolicy())
				require.True(t, a.Decider().kind().decides)
			}
		}
		named, ok := ParseAlgorithm(k.name)
		require.Equal(t, k.decides, ok, k.name)
		if k.decides {
			require.Equal(t, a, named)
			require.NotNil(t, k.ask, k.name)
			require.NotNil(t, k.split, k.name)
			require.True(t, k.units && k.period, k.name)
		}
	}
	require.Equal(t, "unknown", blocked.String())
	require.Equal(t, errAlgorithm, Limit{Algorithm: blocked, Limit: 1, Period: sec}.Validate())
}

func TestAKindWithoutSharesIsNotDecidedLocally(t *testing.T) {
	l := NewLocal(New(Config{}))
	l.Begin(3, 0)
	for _, a := range []Algorithm{Slots, PolicySlots, Counter, blocked} {
		out := make([]Decision, 1)
		_, err := l.Decide(start, chainOf(Segment{[]byte("k"), Limit{Algorithm: a, Limit: 9}, 1}), &Options{}, out)
		require.ErrorIs(t, err, ErrNotLocal, a)
	}
}
