package algo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

func TestEveryKindHasItsRow(t *testing.T) {
	names := make(map[string]bool)
	for a := algo.Token; a <= algo.BlockRecord; a++ {
		require.NotEqual(t, "unknown", a.String())
		require.False(t, names[a.String()], a)
		names[a.String()] = true
		require.NotEmpty(t, a.Type())
		units, period, _ := a.Has()
		require.Equal(t, units, a.HasQuota(), a)
		_, shared := algo.Limit{Algorithm: a, Limit: 2, Period: sec}.Split(2)
		if a.IsPolicy() {
			require.Equal(t, "policy", a.Type())
			require.True(t, units, a)
			require.Equal(t, a != algo.PolicySlots, shared, a)
			switch a {
			case algo.PolicyCalendar: // of no algorithm of RL.LIMIT
				require.Equal(t, a, a.Decider())
			case algo.PolicySlots: // of RL.ACQUIRE's
				require.Equal(t, algo.Slots, a.Decider())
			default:
				require.Equal(t, a, a.Decider().OfPolicy())
				_, decides := algo.ParseAlgorithm(a.Decider().String())
				require.True(t, decides)
			}
		}
		if named, decides := algo.ParseAlgorithm(a.String()); decides {
			require.Equal(t, a, named)
			require.True(t, shared && units && period, a)
		}
		if units { // eviction and RL.EXPLAIN meet every limit
			r := algo.Compile(algo.Limit{Algorithm: a, Limit: 2, Period: sec})
			st, list := algo.State{Deadline: someDay + sec, First: 1, Second: 1}, make([]byte, 8*algo.MaxHoldersWords)
			require.NotPanics(t, func() { r.Pressure(st, someDay) }, a)
			require.NotEmpty(t, r.Describe(st, list, someDay).Facts, a)
		}
	}
	for a := algo.Token; a <= algo.Log; a++ {
		_, decides := algo.ParseAlgorithm(a.String())
		require.True(t, decides)
	}
	require.Equal(t, "unknown", (algo.BlockRecord + 1).String())
}
