package policy

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// # Limits of concurrent calls
//
// Their numbers are those of a rate without a period: so many slots. A call that
// takes some holds them, by the record of a hold, until that is settled or their
// time is over.

// MaxSlots is how many slots a limit of concurrent calls may have.
const MaxSlots = 4096

var (
	errNotSlots         = errors.New("a limit of concurrent calls has a number of slots, such as 4, and no rate; or unlimited, or blocked")
	errManySlots        = fmt.Errorf("a limit of concurrent calls has at most %d slots", MaxSlots)
	errSlotsByAttribute = errors.New("the cost of a limit of concurrent calls is a number: so many slots")
)

// slots reports whether the rate is a number of slots.
func (r *Rate) slots() bool { return r.Kind == Limited && r.Period == 0 && r.Per == 0 }

// ParseNumbers reads what a tier or an override says: a rate as ParseRate has it, or
// a number of slots.
func ParseNumbers(s string) (Rate, error) {
	for i := range len(s) {
		if s[i] != '_' && (s[i] < '0' || s[i] > '9') {
			return ParseRate(s)
		}
	}
	return parseSlots(s)
}

// parseSlots reads a number of slots, unlimited, or blocked.
func parseSlots(s string) (Rate, error) {
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

// slots reads `concurrent`.
func (r *reader) slots(n *yaml.Node) *numbersDef {
	return &numbersDef{place: r.at(n), rate: r.parsedRate(n, parseSlots)}
}

// checkConcurrent makes a limit one of concurrent calls, if it is, and checks what
// goes with that.
func (r *reader) checkConcurrent(l *limitDef, key, n *yaml.Node) {
	ttl := hasKey(n, "ttl")
	switch {
	case hasKey(n, "concurrent"):
	case l.tiers != nil && (ttl || slices.ContainsFunc(l.tiers.tiers, func(t tierDef) bool { return t.rate != nil && t.rate.slots() })):
	case ttl:
		r.fail(key, "ttl goes with concurrent")
		return
	default:
		return
	}
	for _, other := range []string{"algorithm", "align", "calendar", "wait", "count", "debt", "penalty"} {
		if hasKey(n, other) {
			r.fail(key, "%s does not go with concurrent", other)
		}
	}
	if l.cost.attribute != "" {
		r.failAt(l.cost.place, "%s", errSlotsByAttribute)
	}
	l.Algorithm, l.Align, l.calendar, l.wait, l.CountAll = Concurrent, Epoch, nil, nil, false
}
