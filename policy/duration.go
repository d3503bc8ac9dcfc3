package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// units of durations, the longest first.
var units = []struct {
	name string
	ns   int64
}{
	{"w", 7 * 24 * int64(time.Hour)},
	{"d", 24 * int64(time.Hour)},
	{"h", int64(time.Hour)},
	{"m", int64(time.Minute)},
	{"s", int64(time.Second)},
	{"ms", int64(time.Millisecond)},
	{"us", int64(time.Microsecond)},
	{"ns", 1},
}

// periodWords are the units of periods that are whole words.
var periodWords = map[string]string{
	"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w",
}

// unitHints are for words that look like a unit of a calendar.
var unitHints = map[string]string{
	"M":  "write m for minutes; a month is written month, and needs a calendar",
	"mo": "write month, which needs a calendar, or 30d",
	"y":  "write year, which needs a calendar, or 365d",
}

func unitNamed(s string) (int64, bool) {
	if s == "µs" || s == "μs" { // the micro sign, the Greek letter
		s = "us"
	}
	for _, u := range units {
		if u.name == s {
			return u.ns, true
		}
	}
	return 0, false
}

var (
	errDuration       = errors.New("not a duration such as 500ms, 90s or 1h30m")
	errFractionOfTime = errors.New("a duration has whole numbers: for 1.5s write 1500ms")
)

// parsePeriod reads the period of a rate, and returns it in ns. The period is a duration,
// whose number may be missing, or a whole word such as a unit's name.
func parsePeriod(s string) (int64, error) {
	if short, ok := periodWords[s]; ok {
		s = short
	}
	if hint, ok := unitHints[s]; ok {
		return 0, fmt.Errorf("unknown unit %q, %s", s, hint)
	}
	if ns, ok := unitNamed(s); ok {
		return ns, nil
	}
	if len(s) > 2 && !strings.ContainsAny(s, ".0123456789") {
		return 0, fmt.Errorf("unknown unit %q, use ms s m h d w, or with a calendar day, week, month, quarter or year", Clip(s))
	}
	ns, err := ParseDuration(s)
	if err == nil && ns == 0 {
		err = errPeriod
	}
	return ns, err
}

// ParseDuration reads a sum of whole numbers with units, such as 1h30m, and returns it in
// ns. The sum must be from 0 to 100 years.
func ParseDuration(s string) (int64, error) {
	total := int64(0)
	for rest := s; ; {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if digits < len(rest) && rest[digits] == '.' {
			return 0, errFractionOfTime
		}
		end := digits
		for end < len(rest) && rest[end] != '.' && (rest[end] < '0' || rest[end] > '9') {
			end++
		}
		unit := rest[digits:end]
		switch {
		case digits == 0 && unit == "":
			return 0, errDuration
		case unit == "":
			return 0, fmt.Errorf("a unit is missing, write %ss", Clip(s))
		}
		ns, ok := unitNamed(unit)
		if !ok {
			return 0, fmt.Errorf("unknown unit %q, use ms s m h d w", Clip(unit))
		}
		if digits == 0 {
			return 0, fmt.Errorf("a number is missing before %q", unit)
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil || n > maxPeriod/ns || n*ns > maxPeriod-total {
			return 0, errPeriod
		}
		total += n * ns
		if rest = rest[end:]; rest == "" {
			return total, nil
		}
	}
}

// FormatDuration writes ns in the longest unit of which it is a multiple.
func FormatDuration(ns int64) string {
	if ns == 0 {
		return "0s"
	}
	for _, u := range units {
		if ns%u.ns == 0 {
			return strconv.FormatInt(ns/u.ns, 10) + u.name
		}
	}
	return "" // not reached: the last unit is 1 ns
}

// formatPeriod does the same as FormatDuration, but omits the number 1.
func formatPeriod(ns int64) string {
	s := FormatDuration(ns)
	if unit, ok := strings.CutPrefix(s, "1"); ok {
		if _, ok := unitNamed(unit); ok {
			return unit
		}
	}
	return s
}
