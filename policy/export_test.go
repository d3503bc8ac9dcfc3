package policy

import (
	"reflect"
	"unsafe"
)

// The internals that the tests of the package's promises see.

const (
	Unindexed   = unindexed
	MaxEscaped  = maxEscaped
	CostOfPiece = costOfPiece
)

var (
	ErrCompared     = errCompared
	ErrOverrideData = errOverrideData

	AppendHashed = appendHashed
	IsDigest     = isDigest
	LimitPrefix  = limitPrefix
	Hundredth    = hundredth
)

// Parts are what policies of one template share.
type Parts struct {
	Attributes, By, TierNames, Tiers any
}

// PartsOf returns the parts of a policy: By of its first limit, tiers of the limit at tiered,
// if it has that.
func PartsOf(p *Policy, tiered int) Parts {
	parts := Parts{Attributes: p.attrs, By: unsafe.SliceData(p.Limits[0].by)}
	if tiered < len(p.Limits) {
		parts.Tiers, parts.TierNames = p.Limits[tiered].tiers, p.Limits[tiered].tiers.tierNames
	}
	return parts
}

// RatesOf returns how many rates the overrides of a limit keep.
func RatesOf(s *Set, policy, limit string) int {
	if o := s.overrides.named(policy); o != nil && o.exact[limit] != nil {
		return len(o.exact[limit].rates)
	}
	return 0
}

// Gone returns of how many policies that are gone the set knows the epochs.
func (s *Set) Gone() int { return len(s.gone) }

// Policy is the policy with which the call began.
func (c *Call) Policy() *Policy { return c.policy }

// Compared is how many bytes the request has compared with patterns.
func (c *Descriptor) Compared() int { return c.compared }

// Present returns which attributes the call has.
func (c *Call) Present() uint32 { return c.present }

// Keep leaves the call those attributes alone.
func (c *Call) Keep(attributes uint32) { c.present, c.unknown = c.present&attributes, nil }

// HoldsNothing reports whether the call has let go of its policy and its caller.
func (c *Call) HoldsNothing() bool {
	return c.policy == nil && reflect.ValueOf(c.values).IsZero() && c.unknown[:1][0] == nil &&
		reflect.ValueOf(c.slots).IsZero() && cap(c.scratch) <= maxScratch
}

// StarPieces returns what is between the stars of a descriptor.
func StarPieces(s string) []string {
	p, _ := starPattern(s)
	return p.pieces
}
