package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/policy/calendar"
)

// maxPeriod bounds every period and wait, and the time in which a bucket refills: 100
// years.
const maxPeriod = 36525 * int64(24*time.Hour)

// Words for rates without numbers.
const (
	wordUnlimited = "unlimited"
	wordBlocked   = "blocked"
)

// Errors of rates.
var (
	errRateForm  = errors.New("a rate is amount/period, optionally with `burst amount`: 100/m, 5/90s, 100/s burst 200; or unlimited, or blocked")
	errZero      = errors.New("an amount is at least 1; write blocked to deny every call, or unlimited to admit every call")
	errFraction  = errors.New("an amount is a whole number: for 1.5/s write 3/2s")
	errAmount    = fmt.Errorf("an amount is a whole number of at most %d", int64(MaxUnits))
	errPeriod    = errors.New("a period is above 0 and at most 100 years")
	errBurst     = errors.New("burst needs algorithm token or leaky")
	errTooFast   = errors.New("a bucket has at most 1000000000 units a second")
	errSlowBurst = errors.New("a burst must refill within 100 years")

	errNoPeriod       = errors.New("the calendar has no period, because all rates of the limit are unlimited or blocked")
	errCalendarPeriod = errors.New("with a calendar a rate is per day, week, month, quarter or year: 500_000/month")
)

// ParseRate reads a rate of the grammar: amount/period, optionally followed by `burst
// amount`; or unlimited, or blocked. Rate.Check reports whether an algorithm can have the
// rate. If the limit has a calendar, the calendar decides what the rate's period is.
func ParseRate(s string) (Rate, error) {
	switch s {
	case wordUnlimited:
		return Rate{Kind: Unlimited}, nil
	case wordBlocked:
		return Rate{Kind: Blocked}, nil
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) != 1 && (len(words) != 3 || words[1] != "burst") {
		return Rate{}, errRateForm
	}
	amount, period, found := strings.Cut(words[0], "/")
	if !found || amount == "" || period == "" {
		return Rate{}, errRateForm
	}
	var r Rate
	var err error
	if r.Amount, err = parseAmount(amount); err != nil {
		return Rate{}, err
	}
	r.Per, _ = calendar.ParsePeriod(period)
	if r.Per < calendar.Month { // a day and a week are also periods without a calendar
		if r.Period, err = parsePeriod(period); err != nil {
			return Rate{}, err
		}
	}
	if len(words) == 3 {
		if r.Burst, err = parseAmount(words[2]); err != nil {
			return Rate{}, err
		}
	}
	return r, nil
}

// parseAmount reads digits with _ between them.
func parseAmount(s string) (int64, error) {
	n := int64(0)
	for i := range len(s) {
		switch d := s[i]; {
		case d == '_' && i > 0 && i < len(s)-1 && s[i-1] != '_':
			continue
		case d == '.' && i > 0:
			return 0, errFraction
		case d < '0' || d > '9':
			return 0, errAmount
		}
		if n > MaxUnits/10 {
			return 0, errAmount
		}
		if n = n*10 + int64(s[i]-'0'); n > MaxUnits {
			return 0, errAmount
		}
	}
	if n == 0 {
		return 0, errZero
	}
	return n, nil
}

// Fit completes the rate for an algorithm, and for a calendar whose windows are of the
// period per. It returns an error that says why that is impossible.
func (r *Rate) Fit(a Algorithm, per calendar.Period) error {
	if r.Kind == Limited {
		switch {
		case a == Concurrent && !r.Slots():
			return errNotSlots
		case a == Concurrent:
		case r.Slots():
			return errRateForm
		case a == Calendar && r.Per == 0:
			return errCalendarPeriod
		case a == Calendar && per == 0:
			return errNoPeriod
		case a == Calendar && r.Per != per:
			return fmt.Errorf("all rates of a limit with a calendar must have the same period: this rate is per %s, another rate is per %s", r.Per, per)
		case a == Calendar:
			r.Period = 0
		case r.Period == 0:
			return fmt.Errorf("a %s needs a calendar: write `calendar: UTC` in the limit, or days such as 30d", r.Per)
		default:
			r.Per = 0
		}
	}
	return r.Check(a)
}

// Check returns why an algorithm cannot have the rate, or nil.
func (r Rate) Check(a Algorithm) error {
	switch {
	case r.Kind != Limited:
		return nil
	case r.Amount > MaxUnits || r.Burst > MaxUnits:
		return errAmount
	case a == Concurrent && r.Amount > MaxSlots:
		return errManySlots
	case r.Burst != 0 && !a.Bucket():
		return errBurst
	case !a.Bucket():
		return nil
	case r.Amount > r.Period:
		return errTooFast
	}
	high, low := bits.Mul64(uint64(cmp.Or(r.Burst, r.Amount)), uint64(r.Period))
	if high >= uint64(r.Amount) {
		return errSlowBurst
	}
	q, rest := bits.Div64(high, low, uint64(r.Amount))
	if q > uint64(maxPeriod) || q == uint64(maxPeriod) && rest > 0 {
		return errSlowBurst
	}
	return nil
}

// String returns the rate in the grammar's form.
func (r Rate) String() string {
	switch r.Kind {
	case Unlimited:
		return wordUnlimited
	case Blocked:
		return wordBlocked
	}
	s := strconv.FormatInt(r.Amount, 10)
	if r.Slots() {
		return s
	}
	s += "/"
	if r.Per != 0 {
		s += r.Per.String()
	} else {
		s += formatPeriod(r.Period)
	}
	if r.Burst != 0 {
		s += " burst " + strconv.FormatInt(r.Burst, 10)
	}
	return s
}
