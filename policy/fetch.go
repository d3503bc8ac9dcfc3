package policy

import (
	"hash/maphash"
	"unsafe"

	"github.com/headgate-io/headgate/internal/prefetch"
)

// # Prefetching policies
//
// With ten thousand policies, the policy of a call is usually not in the processor's
// caches. To look up the policy and to match the call takes about a dozen cache misses, and
// most of them must wait for an earlier one. A caller with several calls makes each of
// these steps for all calls before the next step, so that their misses overlap:
//
//	Seek   the place of the name
//	Fetch  the policy
//	Touch  its limits, then what the limits refer to, and so on
//	Sought is Set.Policy; then Call.Match

// Seek prefetches the place of a name, and returns the name's hash.
func (s *Set) Seek(name []byte) uint64 {
	hash := maphash.Bytes(s.policies.seed, name)
	s.policies.seek(hash)
	return hash
}

// Fetch prefetches the policy whose name has a hash, and returns it; nil if there is none.
// It does not compare the name; Sought does.
func (s *Set) Fetch(hash uint64) *Policy {
	name, p := s.policies.first(hash)
	if p != nil {
		prefetch.Lines(unsafe.Pointer(p), policyLines)
		prefetch.Lines(unsafe.Pointer(unsafe.StringData(name)), textLines)
	}
	return p
}

// Touch prefetches the parts of the policy that a check reads. The caller calls it for the
// steps 0 to Touches-1.
func (p *Policy) Touch(step int) {
	if step == 0 {
		for i := range p.Limits {
			prefetch.Lines(unsafe.Pointer(&p.Limits[i]), limitLines)
		}
		prefetch.Array(p.numbers, numbersLines)
		return
	}
	for i := range p.Limits {
		if l := &p.Limits[i]; l.varies {
			l.touch(step)
		}
	}
}

// touch prefetches what the limit refers to, and in the next step what that refers to.
func (l *Limit) touch(step int) {
	if step == 1 && l.tiers != nil {
		prefetch.Object(l.tiers)
	}
	switch {
	case l.exact == nil:
	case step == 1:
		prefetch.Object(l.exact)
		prefetch.Line(unsafe.Pointer(unsafe.SliceData(l.exactNumbers)))
	case len(l.exact.parts) == 1:
		prefetch.Array(l.exact.one[0].slots, slotLines)
	}
}

// Touches is the number of steps of Touch.
const Touches = 3

// Sought returns the same as Policy, for a name whose hash Seek has returned.
func (s *Set) Sought(hash uint64, name []byte) *Policy { return s.policies.find(hash, name) }

// How many cache lines a check usually reads.
const (
	policyLines = 2
	limitLines  = 3
	// slotLines is for a table with a few overrides.
	slotLines = 2
	// textLines is the number of lines for the policy's name and the prefixes of keys.
	textLines = 2
	// numbersLines bounds the lines that are prefetched for a limit's tiers, of which the
	// call will need only one.
	numbersLines = 8
)

// newPolicy returns a policy with n limits. If they are few, all are in one piece of
// memory.
func newPolicy(n int) *Policy {
	switch n {
	case 1:
		x := new(struct {
			Policy
			limits [1]Limit
		})
		x.Limits = x.limits[:]
		return &x.Policy
	case 2:
		x := new(struct {
			Policy
			limits [2]Limit
		})
		x.Limits = x.limits[:]
		return &x.Policy
	case 3:
		x := new(struct {
			Policy
			limits [3]Limit
		})
		x.Limits = x.limits[:]
		return &x.Policy
	case 4:
		x := new(struct {
			Policy
			limits [4]Limit
		})
		x.Limits = x.limits[:]
		return &x.Policy
	}
	return &Policy{Limits: make([]Limit, n)}
}
