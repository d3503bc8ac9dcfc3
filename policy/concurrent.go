package policy

import (
	"errors"
	"fmt"
)

// # Limits of concurrent calls
//
// The numbers of such a limit are a rate without a period: the number of slots. A call that
// takes slots holds them until its hold is settled or its time is over. The record of the
// hold notes them.

// MaxSlots is how many slots a limit of concurrent calls may have.
const MaxSlots = 4096

var (
	errNotSlots  = errors.New("a limit of concurrent calls is a number of slots, such as 4, or unlimited, or blocked; it has no rate")
	errManySlots = fmt.Errorf("a limit of concurrent calls has at most %d slots", MaxSlots)
)

// Slots reports whether the rate is a number of slots.
func (r *Rate) Slots() bool { return r.Kind == Limited && r.Period == 0 && r.Per == 0 }

// ParseNumbers reads the numbers of a tier or an override: a rate, as ParseRate does, or
// a number of slots.
func ParseNumbers(s string) (Rate, error) {
	for i := range len(s) {
		if s[i] != '_' && (s[i] < '0' || s[i] > '9') {
			return ParseRate(s)
		}
	}
	return ParseSlots(s)
}

// ParseSlots reads a number of slots, unlimited, or blocked.
func ParseSlots(s string) (Rate, error) {
	switch s {
	case wordUnlimited:
		return Rate{Kind: Unlimited}, nil
	case wordBlocked:
		return Rate{Kind: Blocked}, nil
	case "":
		return Rate{}, errNotSlots
	}
	n, err := parseAmount(s)
	switch {
	case errors.Is(err, errZero):
		return Rate{}, err
	case err != nil:
		return Rate{}, errNotSlots
	}
	r := Rate{Amount: n}
	return r, r.Check(Concurrent)
}
