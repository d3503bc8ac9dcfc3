package policy

import (
	"hash/maphash"
	"unsafe"

	"github.com/headgate-io/headgate/internal/prefetch"
)

// # Policies that are asked for together
//
// One of ten thousand policies is not in the processor's caches when a call comes.
// To look it up and to match a call with it then takes some dozen cache misses, most
// of which wait for another. A caller with several calls takes each of these steps
// with all of them before the next step, and their misses overlap:
//
//	Seek   the place of the name
//	Fetch  the policy
//	Touch  its limits, what these refer to, and what that does
//	Sought is Set.Policy; then Call.Match

// Seek asks the processor for the place of a name, and returns the name's hash.
func (s *Set) Seek(name []byte) uint64 {
	hash := maphash.Bytes(s.policies.seed, name)
	s.policies.seek(hash)
	return hash
}

// Fetch prefetches the policy of the name with a hash, and returns it; nil if
// there is none. Only Sought says whether it has that name.
func (s *Set) Fetch(hash uint64) *Policy {
	name, p := s.policies.first(hash)
	if p != nil {
		prefetch.Lines(unsafe.Pointer(p), policyLines)
		prefetch.Lines(unsafe.Pointer(unsafe.StringData(name)), textLines)
	}
	return p
}

// Touch prefetches the memory that a check reads of the policy, in Touches steps.
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

// touch prefetches the limit's references, and then theirs.
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

// Sought is Policy for a name whose hash Seek has returned.
func (s *Set) Sought(hash uint64, name []byte) *Policy { return s.policies.find(hash, name) }

// How many lines of memory a check mostly reads.
const (
	policyLines = 2
	limitLines  = 3
	// slotLines are of a table of a handful of overrides.
	slotLines = 2
	// textLines are the lines of the names that keys begin with, and of the
	// policy's name.
	textLines = 2
	// numbersLines bounds those that are asked for though the call will need one
	// of a limit's tiers.
	numbersLines = 8
)

// newPolicy returns a policy with n limits, in one piece of memory if they are not
// many.
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
