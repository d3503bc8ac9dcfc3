package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// MaxSeconds bounds a period, in seconds.
const MaxSeconds = math.MaxInt64 / int64(time.Second)

// ParseInteger parses a 64-bit decimal integer. Like redis-cell, and unlike
// Redis, it takes a leading plus sign and leading zeros.
func ParseInteger(b []byte) (int64, error) {
	if n, ok := resp.ParseInt(b); ok {
		return n, nil
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, command.ErrNotInteger
	}
	return n, nil
}

// ParsePeriod parses the length of a limit's period into ns: seconds (60, 0.5), or a sum
// of numbers with units (500ms, 1h30m, 1d; ns us µs ms s m h d w).
func ParsePeriod(b []byte) (int64, error) {
	if n, ok := resp.ParseInt(b); ok {
		if n < 1 || n > MaxSeconds {
			return 0, periodError(b)
		}
		return n * int64(time.Second), nil
	}
	s := string(b)
	if ns, ok := parseDecimal(s, int64(time.Second)); ok {
		return positive(b, ns)
	}
	var total int64
	for s != "" {
		i := numberPrefix(s)
		j := i
		for j < len(s) && s[j] != '.' && (s[j] < '0' || s[j] > '9') {
			j++
		}
		unit, ok := periodUnits[s[i:j]]
		if !ok {
			return 0, periodError(b)
		}
		ns, ok := parseDecimal(s[:i], unit)
		if !ok || ns > math.MaxInt64-total {
			return 0, periodError(b)
		}
		total += ns
		s = s[j:]
	}
	return positive(b, total)
}

var periodUnits = map[string]int64{
	"ns": 1,
	"us": int64(time.Microsecond),
	"µs": int64(time.Microsecond), // U+00B5, the micro sign
	"μs": int64(time.Microsecond), // U+03BC, the Greek letter
	"ms": int64(time.Millisecond),
	"s":  int64(time.Second),
	"m":  int64(time.Minute),
	"h":  int64(time.Hour),
	"d":  24 * int64(time.Hour),
	"w":  7 * 24 * int64(time.Hour),
}

func periodError(b []byte) error {
	return fmt.Errorf("ERR period '%s' is not a positive number of seconds or a duration such as 500ms, 1m or 1d", command.Clip(b, command.ErrorClip))
}

func positive(b []byte, ns int64) (int64, error) {
	if ns < 1 {
		return 0, periodError(b)
	}
	return ns, nil
}

// numberPrefix returns the length of the decimal number that s begins with.
func numberPrefix(s string) int {
	i := 0
	for i < len(s) && (s[i] == '.' || s[i] >= '0' && s[i] <= '9') {
		i++
	}
	return i
}

// parseDecimal parses an unsigned decimal number (12, 0.5) times unit, in integers. It
// drops fractions of the result.
func parseDecimal(s string, unit int64) (int64, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	if numberPrefix(s) != len(s) || whole == "" && frac == "" {
		return 0, false
	}
	var n int64
	if whole != "" {
		w, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || w > math.MaxInt64/unit {
			return 0, false
		}
		n = w * unit
	}
	scale := unit
	for i := range len(frac) {
		if frac[i] == '.' {
			return 0, false
		}
		scale /= 10
		part := int64(frac[i]-'0') * scale
		if part > math.MaxInt64-n {
			return 0, false
		}
		n += part
	}
	return n, true
}

// FormatPeriod writes a period in a form that ParsePeriod reads.
func FormatPeriod(ns int64) string {
	for _, u := range []struct {
		ns   int64
		name string
	}{{86400e9, "d"}, {3600e9, "h"}, {60e9, "m"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns%u.ns == 0 {
			return fmt.Sprintf("%d%s", ns/u.ns, u.name)
		}
	}
	return fmt.Sprintf("%dns", ns)
}
