package policy

import (
	"cmp"
	"time"

	"github.com/headgate-io/headgate/policy/calendar"
)

// Penalty says what happens to callers whom a limit denies repeatedly. Times are in ns,
// from 1 ms to 366 days. Fields that the text does not set are zero.
type Penalty struct {
	// A caller with After strikes is blocked for the time Block. A strike is a denial that
	// counts. From the first to the last of these strikes, at most the time Within may
	// pass. If Within is 0, the period of the caller's rate is used instead.
	After         int64
	Within, Block int64
	// A block is Factor times as long as the previous block, if the previous block ended
	// less than Max ago. No block is longer than Max.
	Factor, Max int64
	// Epoch counts the edits and resets that have forgiven all callers.
	Epoch uint16
}

// Bounds of a penalty, and its defaults.
const (
	defaultFactor  = 1
	defaultLongest = 24 * int64(time.Hour)
)

// Filled returns p with defaults in the fields that are not set.
func (p Penalty) Filled() Penalty {
	p.Factor = cmp.Or(p.Factor, defaultFactor)
	p.Max = cmp.Or(p.Max, defaultLongest)
	return p
}

// periodLength is the default of Within for a limit with a calendar: the longest length
// of each period.
var periodLength = [...]int64{
	calendar.Day: 24 * int64(time.Hour), calendar.Week: 7 * 24 * int64(time.Hour), calendar.Month: 31 * 24 * int64(time.Hour),
	calendar.Quarter: 92 * 24 * int64(time.Hour), calendar.Year: 366 * 24 * int64(time.Hour),
}
