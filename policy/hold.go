package policy

import (
	"cmp"
	"time"
)

// Hold says how RL.RESERVE holds the estimated cost of a call.
type Hold struct {
	// TTL is how long a hold stays open if the call does not say so, in ns, from 1 s to 1
	// h.
	TTL int64
	// Charges reports that a hold stays charged if it is never settled. Otherwise the
	// charges of such a hold are given back.
	Charges bool
	// Keep is how long a settled hold is remembered, in ns, from 1 s to 24 h.
	Keep int64
	// Share is the largest part of a limit's capacity that one hold may take, in percent.
	Share int
}

// Bounds of Hold.
const (
	MinHoldTTL = int64(time.Second)
	MaxHoldTTL = int64(time.Hour)
)

// defaultHold is the hold of a policy that does not set one.
var defaultHold = Hold{TTL: 2 * int64(time.Minute), Keep: 10 * int64(time.Minute), Share: 100}

// Filled returns h with defaults in the fields that are not set.
func (h Hold) Filled() Hold {
	h.TTL = cmp.Or(h.TTL, defaultHold.TTL)
	h.Keep = cmp.Or(h.Keep, defaultHold.Keep)
	h.Share = cmp.Or(h.Share, defaultHold.Share)
	return h
}
