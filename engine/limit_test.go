package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseAlgorithm(t *testing.T) {
	for s, want := range map[string]Algorithm{
		"token": Token, "LEAKY": Leaky, "Fixed": Fixed, "sliding": Sliding, "lOg": Log,
	} {
		got, ok := ParseAlgorithm(s)
		require.True(t, ok, s)
		require.Equal(t, want, got)
	}
	for _, s := range []string{"", "tokens", "slots", "counter", "unknown"} {
		_, ok := ParseAlgorithm(s)
		require.False(t, ok, s)
	}
	require.Equal(t, "sliding", Sliding.String())
	require.Equal(t, "unknown", Algorithm(200).String())
}

func TestLimitValidate(t *testing.T) {
	for _, v := range []struct {
		l    Limit
		want error
	}{
		{Limit{Limit: 100, Period: 60 * sec}, nil},
		{Limit{Limit: 1, Period: maxSpan}, nil}, // one unit in 100 years
		{Limit{Limit: maxSpan, Period: maxSpan}, nil},
		{Limit{Limit: 1e9, Period: sec}, nil},
		{Limit{Limit: 1e9 + 1, Period: sec}, errRate},
		{Limit{Limit: 0, Period: sec}, nil},
		{Limit{Limit: 0, Period: sec, Burst: math.MaxInt64}, nil},
		{Limit{Limit: 0, Period: 0}, errPeriod},
		{Limit{Limit: -1, Period: sec}, errLimit},
		{Limit{Limit: math.MinInt64, Period: sec}, errLimit},
		{Limit{Limit: 1, Period: 0}, errPeriod},
		{Limit{Limit: 1, Period: maxSpan + 1}, errPeriod},
		{Limit{Limit: 1, Period: math.MinInt64}, errPeriod},
		{Limit{Limit: 1, Period: maxSpan, Burst: 2}, errCapacity},
		{Limit{Limit: 1, Period: sec, Burst: math.MaxInt64}, errCapacity},
		{Limit{Limit: 1, Period: sec, Burst: -1}, errBurst},
		{Limit{Rounding: Nanosecond, Limit: 2, Period: 1}, errRate},
		{Limit{Rounding: Microsecond, Limit: math.MaxInt64, Period: 1, Burst: 1}, nil},
		{Limit{Rounding: Microsecond, Limit: math.MaxInt64, Period: 1}, errCapacity},
		{Limit{Align: First, Limit: 1, Period: 1}, errAlignAlgorithm},
		{Limit{Algorithm: Sliding, Align: First, Limit: maxCount, Period: maxSpan}, nil},
		{Limit{Algorithm: Fixed, Limit: maxCount + 1, Period: 1}, errLimitTooLarge},
		{Limit{Algorithm: Fixed, Limit: 1, Period: 1, Burst: 1}, errBurstAlgorithm},
		{Limit{Algorithm: Log, Rounding: Nanosecond, Limit: 1, Period: 1}, errRounding},
		{Limit{Algorithm: Slots, Limit: 1}, nil},
		{Limit{Algorithm: Slots, Limit: 0}, nil},
		{Limit{Algorithm: Slots, Limit: -1}, errLimit},
		{Limit{Algorithm: Counter}, nil},
		{Limit{Algorithm: blocked, Limit: 1, Period: 1}, errAlgorithm},
		{Limit{Algorithm: PolicyCalendar, Limit: 1, Period: 1}, errPeriodCalendar},
		{Limit{Algorithm: PolicyCalendar, Limit: 1}, nil},
		{Limit{Algorithm: HoldRecord, DB: internal}, nil},
		{Limit{Algorithm: HoldRecord}, errDatabase},
		{Limit{Algorithm: PolicyFixed, DB: 1, Limit: 1, Period: 1}, errDatabase},
		{Limit{Algorithm: Fixed, Scalings: 1, Limit: 1, Period: 1}, errEpoch},
		{Limit{Algorithm: List, DB: Databases - 1}, nil},
		{Limit{Algorithm: Token, DB: Databases, Limit: 1, Period: 1}, errDatabase},
	} {
		require.Equal(t, v.want, v.l.Validate(), "%+v", v.l)
	}
}

// The time of one unit as the peers round it.
func TestRounding(t *testing.T) {
	third := Limit{Limit: 3, Period: sec}
	require.Equal(t, span{333_333_333, 1431655765}, compile(third).unit)
	third.Rounding = Nanosecond
	require.Equal(t, span{ns: 333_333_333}, compile(third).unit)
	third.Rounding = Microsecond
	require.Equal(t, span{ns: 333_333_000}, compile(third).unit)
	for period, us := range map[int64]uint64{1: 1, 1499: 1, 1500: 2, 2499: 2, 2500: 3} {
		require.Equal(t, span{ns: us * 1000}, compile(Limit{Rounding: Microsecond, Limit: 1, Period: period}).unit, period)
	}
}

func TestIsData(t *testing.T) {
	for _, a := range []Algorithm{Counter, Hash, Set, SortedSet, List} {
		require.True(t, a.IsData(), a.Type())
	}
	for _, a := range []Algorithm{Token, Leaky, Fixed, Sliding, Log, Slots} {
		require.False(t, a.IsData(), a.Type())
	}
}
