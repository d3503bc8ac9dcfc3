package policy

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy/calendar"
)

func TestParseRate(t *testing.T) {
	f := func(s string, want Rate, text string) {
		t.Helper()
		r, err := ParseRate(s)
		require.NoError(t, err, s)
		require.Equal(t, want, r)
		require.Equal(t, text, r.String())
	}
	const second, minute, hour = int64(time.Second), int64(time.Minute), int64(time.Hour)
	f("10/m", Rate{Amount: 10, Period: minute}, "10/m")
	f("1000/1h", Rate{Amount: 1000, Period: hour}, "1000/h")
	f("5/90s", Rate{Amount: 5, Period: 90 * second}, "5/90s")
	f("5/1m30s", Rate{Amount: 5, Period: 90 * second}, "5/90s")
	f("1_000_000/day", Rate{Amount: 1_000_000, Period: 24 * hour, Per: calendar.Day}, "1000000/day")
	f("7/week", Rate{Amount: 7, Period: 7 * 24 * hour, Per: calendar.Week}, "7/week")
	f("7/month", Rate{Amount: 7, Per: calendar.Month}, "7/month")
	f("7/7d", Rate{Amount: 7, Period: 7 * 24 * hour}, "7/w")
	f("7/second", Rate{Amount: 7, Period: second}, "7/s")
	f("7/minute", Rate{Amount: 7, Period: minute}, "7/m")
	f("7/hour", Rate{Amount: 7, Period: hour}, "7/h")
	f("7/1500us", Rate{Amount: 7, Period: 1_500_000}, "7/1500us")
	f("7/µs", Rate{Amount: 7, Period: 1000}, "7/us")
	f("7/3ns", Rate{Amount: 7, Period: 3}, "7/3ns")
	f("100/s  burst  200", Rate{Amount: 100, Period: second, Burst: 200}, "100/s burst 200")
	f("4611686018427387903/s", Rate{Amount: MaxUnits, Period: second}, "4611686018427387903/s")
	f("unlimited", Rate{Kind: Unlimited}, "unlimited")
	f("blocked", Rate{Kind: Blocked}, "blocked")
	for _, s := range []string{
		"", "/", "1/", "/s", "_1/s", "1_/s", "1__0/s", "-1/s", "+1/s", "1 /s", "1/ s", "1/s burst", "1/s burst 0", "1/s burst 1 2", "UNLIMITED", "1/s\u00a0", "1/s\u2003burst\u20031",
		"1/S", "1/1", "1/0s", "1/-1s", "1/1e3s", "1/101y", "1/1s1", "4611686018427387904/s", "1/9999999999999w", "1/5218w",
		"18446744073709551620/s", "184467440737095516160/s", strings.Repeat("9", 40) + "/s",
	} {
		_, err := ParseRate(s)
		require.Error(t, err, s)
	}
}

// The bounds of a bucket are those of the engine's Limit.Validate.
func TestRatesOfBuckets(t *testing.T) {
	f := func(amount, period, burst int64, want error) {
		t.Helper()
		r := Rate{Amount: amount, Period: period, Burst: burst}
		require.Equal(t, want, r.Check(Token))
	}
	f(1, 1, 0, nil)
	f(2, 1, 0, errTooFast)
	f(1, maxPeriod, 1, nil)
	f(1, maxPeriod, 2, errSlowBurst)
	f(1, 1, maxPeriod, nil)
	f(1, 1, maxPeriod+1, errSlowBurst)
	f(3, maxPeriod-1, 3, nil)
	f(3, maxPeriod, 3, nil)
	f(3, 11, 860_661_818_181_818_182, errSlowBurst) // by 2/3 of a nanosecond
	f(2, 3, maxPeriod/3*2, nil)
	f(1, maxPeriod, MaxUnits, errSlowBurst)
	require.NoError(t, Rate{Kind: Blocked}.Check(Token))
	require.Equal(t, errBurst, Rate{Amount: 1, Period: 1, Burst: 1}.Check(Fixed))
	require.NoError(t, Rate{Amount: MaxUnits, Period: 1}.Check(Fixed))
}

// Any amount is read as it is written, or refused.
func FuzzParseRate(f *testing.F) {
	f.Add("18446744073709551620")
	f.Add("1_0")
	f.Fuzz(func(t *testing.T, amount string) {
		n, err := parseAmount(amount)
		if err != nil {
			return
		}
		want, ok := new(big.Int).SetString(strings.ReplaceAll(amount, "_", ""), 10)
		require.True(t, ok, amount)
		require.Equal(t, want.String(), big.NewInt(n).String())
	})
}
