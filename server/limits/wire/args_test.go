package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/server/command"
)

func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1": time.Second, "60": time.Minute, "0.5": 500 * time.Millisecond, ".5": 500 * time.Millisecond, "1.": time.Second, "007": 7 * time.Second,
		"0.000000001": 1, "1.0000000019": time.Second + 1, "1ns": 1, "1us": time.Microsecond, "1µs": time.Microsecond, "1μs": time.Microsecond,
		"500ms": 500 * time.Millisecond, "1.5ms": 1500 * time.Microsecond, "90s": 90 * time.Second, "1m": time.Minute, "1h30m": 90 * time.Minute,
		"1d": 24 * time.Hour, "2w": 14 * 24 * time.Hour, "0.25d": 6 * time.Hour, "1d1ns": 24*time.Hour + 1,
		"9223372036": 9223372036 * time.Second, "9223372036.854775807": 1<<63 - 1, "9223372036854775807ns": 1<<63 - 1,
	} {
		got, err := ParsePeriod([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, int64(want), got, text)
	}
	for _, text := range []string{
		"", "0", "-1", "+1", "0.0", "0.0000000001", ".", "1..5", "1.5.5", "1e3", "1M", "1 m", " 1", "m", "1m5", "-1m", "1x", "0s", "1s-1s", "inf", "nan", "0x10",
		"9223372037", "9223372036.854775808", "9223372036854775808ns", "106752d", "9223372036s1s", "99999999999999999999",
	} {
		_, err := ParsePeriod([]byte(text))
		require.ErrorContains(t, err, "ERR period '"+text+"' is not", text)
	}
}

// ParsePeriod reads what FormatPeriod writes.
func TestFormatPeriodRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Min(1).Draw(t, "ns")
		got, err := ParsePeriod([]byte(FormatPeriod(ns)))
		require.NoError(t, err)
		require.Equal(t, ns, got)
	})
	require.Equal(t, "1d", FormatPeriod(int64(24*time.Hour)))
	require.Equal(t, "90m", FormatPeriod(int64(90*time.Minute)))
	require.Equal(t, "1500ms", FormatPeriod(int64(1500*time.Millisecond)))
}

func TestCeilUnitsKeepsNever(t *testing.T) {
	require.Equal(t, int64(-1), command.CeilMillis(-1))
	require.Equal(t, int64(0), command.CeilMillis(0))
	require.Equal(t, int64(1), command.CeilMillis(1))
	require.Equal(t, int64(1), command.CeilMillis(1e6))
	require.Equal(t, int64(2), command.CeilMillis(1e6+1))
	require.Equal(t, int64(9223372036855), command.CeilMillis(1<<63-1))
}
