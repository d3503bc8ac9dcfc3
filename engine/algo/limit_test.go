package algo_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

func TestParseAlgorithm(t *testing.T) {
	for s, want := range map[string]algo.Algorithm{
		"token": algo.Token, "LEAKY": algo.Leaky, "Fixed": algo.Fixed, "sliding": algo.Sliding, "lOg": algo.Log,
	} {
		got, ok := algo.ParseAlgorithm(s)
		require.True(t, ok, s)
		require.Equal(t, want, got)
	}
	for _, s := range []string{"", "tokens", "slots", "counter", "unknown"} {
		_, ok := algo.ParseAlgorithm(s)
		require.False(t, ok, s)
	}
	require.Equal(t, "sliding", algo.Sliding.String())
	require.Equal(t, "unknown", algo.Algorithm(200).String())
}

func TestLimitValidate(t *testing.T) {
	for _, v := range []struct {
		l    algo.Limit
		want string
	}{
		{algo.Limit{Limit: 100, Period: 60 * sec}, ""},
		{algo.Limit{Limit: 1, Period: algo.MaxSpan}, ""}, // one unit in 100 years
		{algo.Limit{Limit: algo.MaxSpan, Period: algo.MaxSpan}, ""},
		{algo.Limit{Limit: 1e9, Period: sec}, ""},
		{algo.Limit{Limit: 1e9 + 1, Period: sec}, "rate must be at most 1000000000 per second"},
		{algo.Limit{Limit: 0, Period: sec}, ""},
		{algo.Limit{Limit: 0, Period: sec, Burst: math.MaxInt64}, ""},
		{algo.Limit{Limit: 0, Period: 0}, "period must be positive and at most 100 years"},
		{algo.Limit{Limit: -1, Period: sec}, "limit must be 0 or more"},
		{algo.Limit{Limit: math.MinInt64, Period: sec}, "limit must be 0 or more"},
		{algo.Limit{Limit: 1, Period: 0}, "period must be positive and at most 100 years"},
		{algo.Limit{Limit: 1, Period: algo.MaxSpan + 1}, "period must be positive and at most 100 years"},
		{algo.Limit{Limit: 1, Period: math.MinInt64}, "period must be positive and at most 100 years"},
		{algo.Limit{Limit: 1, Period: algo.MaxSpan, Burst: 2}, "burst must refill within 100 years at this rate"},
		{algo.Limit{Limit: 1, Period: sec, Burst: math.MaxInt64}, "burst must refill within 100 years at this rate"},
		{algo.Limit{Limit: 1, Period: sec, Burst: -1}, "burst must be at least 1"},
		{algo.Limit{Rounding: algo.Nanosecond, Limit: 2, Period: 1}, "rate must be at most 1000000000 per second"},
		{algo.Limit{Rounding: algo.Microsecond, Limit: math.MaxInt64, Period: 1, Burst: 1}, ""},
		{algo.Limit{Rounding: algo.Microsecond, Limit: math.MaxInt64, Period: 1}, "burst must refill within 100 years at this rate"},
		{algo.Limit{Align: algo.First, Limit: 1, Period: 1}, "align applies to fixed and sliding only"},
		{algo.Limit{Algorithm: algo.Sliding, Align: algo.First, Limit: algo.MaxCount, Period: algo.MaxSpan}, ""},
		{algo.Limit{Algorithm: algo.Fixed, Limit: algo.MaxCount + 1, Period: 1}, "limit is too large"},
		{algo.Limit{Algorithm: algo.Fixed, Limit: 1, Period: 1, Burst: 1}, "burst applies to token and leaky only"},
		{algo.Limit{Algorithm: algo.Log, Rounding: algo.Nanosecond, Limit: 1, Period: 1}, "rounding applies to token and leaky only"},
		{algo.Limit{Algorithm: algo.Slots, Limit: 1}, ""},
		{algo.Limit{Algorithm: algo.Slots, Limit: 0}, ""},
		{algo.Limit{Algorithm: algo.Slots, Limit: -1}, "limit must be 0 or more"},
		{algo.Limit{Algorithm: algo.Counter}, ""},
		{algo.Limit{Algorithm: algo.BlockRecord + 1, Limit: 1, Period: 1}, "unknown algorithm"},
		{algo.Limit{Algorithm: algo.PolicyCalendar, Limit: 1, Period: 1}, "the windows of a calendar have no period"},
		{algo.Limit{Algorithm: algo.PolicyCalendar, Limit: 1}, ""},
		{algo.Limit{Algorithm: algo.HoldRecord, DB: algo.HoldSpace}, ""},
		{algo.Limit{Algorithm: algo.HoldRecord}, "DB index is out of range"},
		{algo.Limit{Algorithm: algo.PolicyFixed, DB: 1, Limit: 1, Period: 1}, "DB index is out of range"},
		{algo.Limit{Algorithm: algo.Fixed, Scalings: 1, Limit: 1, Period: 1}, "only limits of policies are reset and scaled"},
		{algo.Limit{Algorithm: algo.List, DB: algo.Databases - 1}, ""},
		{algo.Limit{Algorithm: algo.Token, DB: algo.Databases, Limit: 1, Period: 1}, "DB index is out of range"},
	} {
		if err := v.l.Validate(); v.want == "" {
			require.NoError(t, err, "%+v", v.l)
		} else {
			require.EqualError(t, err, v.want, "%+v", v.l)
		}
	}
}

// The time of one unit as the peers round it.
func TestRounding(t *testing.T) {
	third := algo.Limit{Limit: 3, Period: sec}
	unit := func(l algo.Limit) algo.State {
		r := algo.Compile(l)
		next, _, _, err := checkToken(&r, algo.State{}, 0, 1, nil)
		require.NoError(t, err)
		return next
	}
	require.Equal(t, algo.State{Deadline: 333_333_333, First: 1431655765}, unit(third))
	third.Rounding = algo.Nanosecond
	require.Equal(t, algo.State{Deadline: 333_333_333}, unit(third))
	third.Rounding = algo.Microsecond
	require.Equal(t, algo.State{Deadline: 333_333_000}, unit(third))
	for period, us := range map[int64]int64{1: 1, 1499: 1, 1500: 2, 2499: 2, 2500: 3} {
		require.Equal(t, algo.State{Deadline: us * 1000}, unit(algo.Limit{Rounding: algo.Microsecond, Limit: 1, Period: period}), period)
	}
}

func TestIsData(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.Counter, algo.Hash, algo.Set, algo.SortedSet, algo.List} {
		require.True(t, a.IsData(), a.Type())
	}
	for _, a := range []algo.Algorithm{algo.Token, algo.Leaky, algo.Fixed, algo.Sliding, algo.Log, algo.Slots} {
		require.False(t, a.IsData(), a.Type())
	}
}
