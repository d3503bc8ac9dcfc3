package policy

import (
	"errors"
	"strconv"
	"time"
)

// Errors of ParseTime.
var (
	ErrTime     = errors.New("not a time such as 2026-12-31T23:00:00Z, or Unix seconds")
	ErrTimeLate = errors.New("a time is at most 2200-12-31T23:59:59Z: leave out the time if there is no end")
)

// ParseTime reads a time of the grammar, in the form of RFC 3339, from 1970 to 2200. It
// returns Unix ns, at least 1. Its errors are ErrTime and ErrTimeLate.
func ParseTime(s string) (int64, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, ErrTime
	}
	return unixTime(t.Unix(), int64(t.Nanosecond()))
}

// ParseTimeOrSeconds is ParseTime, and reads Unix seconds above 0 too.
func ParseTimeOrSeconds(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
		return unixTime(n, 0)
	}
	return ParseTime(s)
}

// lastSecond is the end of the year 2200.
var lastSecond = time.Date(2201, 1, 1, 0, 0, -1, 0, time.UTC).Unix()

func unixTime(seconds, ns int64) (int64, error) {
	switch {
	case seconds < 0:
		return 0, ErrTime
	case seconds > lastSecond:
		return 0, ErrTimeLate
	}
	return max(seconds*int64(time.Second)+ns, 1), nil
}

// FormatTime writes a time as the grammar does.
func FormatTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
