package policy

import (
	"strings"
	"time"
)

// Unit is the unit of time of a limit of descriptors.
type Unit uint8

// The zero value means no unit. As in Envoy's dialect, a month has 30 days and a year 365.
const (
	NoUnit Unit = iota
	UnitSecond
	UnitMinute
	UnitHour
	UnitDay
	UnitWeek
	UnitMonth
	UnitYear
)

var (
	unitNames   = [...]string{"", "second", "minute", "hour", "day", "week", "month", "year"}
	unitSeconds = [...]int64{0, 1, 60, 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400}
)

// String returns the word of the dialect, "" for NoUnit.
func (u Unit) String() string { return unitNames[u] }

// Period returns the length of n units in ns. It returns false if the length is 0 or more
// than 100 years.
func (u Unit) Period(n int64) (int64, bool) {
	if n < 1 || u == NoUnit || n > maxPeriod/int64(time.Second)/unitSeconds[u] {
		return 0, false
	}
	return n * unitSeconds[u] * int64(time.Second), true
}

// ParseUnit reads a unit, in any case.
func ParseUnit(s string) (Unit, bool) {
	for u, word := range unitNames {
		if u > 0 && strings.EqualFold(s, word) {
			return Unit(u), true
		}
	}
	return NoUnit, false
}
