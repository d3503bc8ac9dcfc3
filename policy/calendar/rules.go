package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Period is the length of a calendar's windows.
type Period uint8

// The numbers are stored in records, so they must never change. The zero value means no
// period.
const (
	Day Period = iota + 1
	Week
	Month
	Quarter
	Year
)

var periods = [...]string{"", "day", "week", "month", "quarter", "year"}

// ParsePeriod returns the period of a word: day, week, month, quarter or year.
func ParsePeriod(s string) (Period, bool) {
	i := slices.Index(periods[:], s)
	return Period(max(i, 0)), i > 0
}

// String returns the word for p; "" if there is none.
func (p Period) String() string { return periods[p] }

// Rules say how a calendar divides time.
type Rules struct {
	// Zone is the name of the zone whose days count.
	Zone   string
	Period Period
	// Day is the day, from 1, on which windows begin: of each month, of the first month of
	// each quarter, or of Month in each year. 0 means 1. In a month that is shorter,
	// windows begin on its last day. Days and weeks ignore Day; weeks begin on Monday.
	// Month, 1 to 12, is only for years; 0 means January.
	Month, Day int
	// At is the wall time at which days begin, as minutes since midnight.
	At int
}

// Errors of rules.
var (
	errPeriod = errors.New("a calendar has windows of a day, week, month, quarter or year")
	errAnchor = errors.New("a day and a week have no anchor: weeks begin on Monday")
	errDay    = errors.New("the anchor of a month or a quarter is a day, 1 to 31")
	errDate   = errors.New("the anchor of a year is a date such as 04-06, month and day")
	errAt     = errors.New("a day begins at a wall time from 00:00 to 23:59")
)

// daysIn has the days of the months of a leap year.
var daysIn = [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// Check returns why the rules are not those of a calendar, or nil.
func (r Rules) Check() error {
	if _, err := Zone(r.Zone); err != nil {
		return err
	}
	switch {
	case r.Period < Day || r.Period > Year:
		return errPeriod
	case r.At < 0 || r.At >= 24*60:
		return errAt
	}
	switch r.Period {
	case Day, Week:
		if r.Day != 0 || r.Month != 0 {
			return errAnchor
		}
	case Month, Quarter:
		if r.Month != 0 || r.Day < 0 || r.Day > 31 {
			return errDay
		}
	default:
		if (r.Month == 0) != (r.Day == 0) || r.Month < 0 || r.Month > 12 || r.Day < 0 {
			return errDate
		}
		if r.Month > 0 && r.Day > daysIn[r.Month-1] {
			return fmt.Errorf("%s has no day %d", time.Month(r.Month), r.Day)
		}
	}
	return nil
}

const (
	daySeconds = 24 * 60 * 60
	// monday is the first Monday after the start of 1970, in days.
	monday = 4
)

// Wall times are seconds since 1970 as if the zone were UTC.

// begin returns the local time at which window i begins. Windows are numbered by their
// period: days and weeks from 1970, months, quarters and years from the year 0.
func (r *Rules) begin(i int64) int64 {
	at := int64(r.At) * 60
	switch r.Period {
	case Day:
		return i*daySeconds + at
	case Week:
		return (7*i+monday)*daySeconds + at
	case Month:
		return midnight(i, r.Day) + at
	case Quarter:
		return midnight(3*i, r.Day) + at
	}
	return midnight(12*i+int64(max(r.Month, 1)-1), r.Day) + at
}

// midnight returns the midnight of a day of a month. If the month is shorter, it uses the
// month's last day. Months are numbered from the year 0. Day 0 means the first.
func midnight(month int64, day int) int64 {
	y, m := int(month/12), time.Month(month%12)+1
	last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return time.Date(y, m, min(max(day, 1), last), 0, 0, 0, 0, time.UTC).Unix()
}

// at returns the number of the window that a wall time is in.
func (r *Rules) at(wall int64) (i int64) {
	t := time.Unix(wall, 0).UTC()
	month := 12*int64(t.Year()) + int64(t.Month()) - 1
	switch r.Period {
	case Day:
		i = floor(wall, daySeconds)
	case Week:
		i = floor(wall-monday*daySeconds, 7*daySeconds)
	case Month:
		i = month
	case Quarter:
		i = month / 3
	default:
		i = month / 12
	}
	if r.begin(i) > wall {
		i--
	}
	return i
}

// floor returns a/b, rounded down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// AnchorText returns Month and Day in the grammar's form; "" if there is none.
func (r Rules) AnchorText() string {
	switch {
	case r.Month != 0:
		return fmt.Sprintf("%02d-%02d", r.Month, r.Day)
	case r.Day != 0:
		return strconv.Itoa(r.Day)
	}
	return ""
}

// AtText returns At in the grammar's form, "" for midnight.
func (r Rules) AtText() string {
	if r.At == 0 {
		return ""
	}
	return fmt.Sprintf("%02d:%02d", r.At/60, r.At%60)
}
