package policy

import (
	"bytes"
	"hash/maphash"
	"iter"
)

// Set holds all policies of one revision, compiled. It is immutable: NewSet makes an empty
// Set, and Edit makes the next one.
type Set struct {
	config   Config
	revision uint64
	policies *directory[Policy]
	names    []string // sorted
	shared   *shared
	routes   map[string]*Routes // by the names of their records
	// overrides has the overrides of RL.OVERRIDE, also overrides of policies that do not
	// exist.
	overrides *directory[overrides]
	// gone has the epochs of policies that no longer exist.
	gone map[string]map[string]LimitEpoch
}

// Config is what a set needs from its node.
type Config struct {
	// Seed is the seed of the engine's table. With it, Applied.Hash is the hash of a
	// counter's key in database 0.
	Seed maphash.Seed
	// Secret is the cluster's key for attributes of type secret. If it is nil, a policy
	// with such an attribute does not compile.
	Secret []byte
}

// NewSet returns a set without policies, of revision 0.
func NewSet(c Config) *Set {
	seed := maphash.MakeSeed()
	return &Set{config: c, policies: &directory[Policy]{seed: seed}, overrides: &directory[overrides]{seed: seed}, shared: &shared{
		lists: map[string]*Record{}, values: map[listUse]*values{}, alike: newAlike(),
	}}
}

// Policy returns the policy of a name, or nil.
func (s *Set) Policy(name []byte) *Policy { return s.policies.get(name) }

// Revision returns the number of the change that made the set.
func (s *Set) Revision() uint64 { return s.revision }

// HasSecret reports whether the set has the cluster's key.
func (s *Set) HasSecret() bool { return s.config.Secret != nil }

// Names returns the names of the policies, sorted. They must not be changed.
func (s *Set) Names() []string { return s.names }

// Void reports whether the used units in a counter are void, because the counter was
// charged before a reset of its limit. resets is the number of resets at the last charge.
func (s *Set) Void(key []byte, resets uint16) bool {
	head, _, _ := bytes.Cut(key, []byte{';'})
	name, id, ok := bytes.Cut(head, []byte{':'})
	if !ok || len(name) == 0 || name[0] != '@' {
		return false
	}
	name = name[1:]
	epochs := s.gone[string(name)]
	if p := s.policies.get(name); p != nil {
		epochs = p.Epochs
	}
	return int16(resets-uint16(epochs[string(id)].Reset)) < 0
}

// Policy is a compiled policy.
type Policy struct {
	// The fields that a check reads come first, and the limits follow in memory. So a
	// policy that is not in the processor's caches takes few cache lines; see newPolicy and
	// Fetch.

	Name string
	// Version counts the changes of the policy. Replies show it.
	Version uint64
	// Limits are in the order of the text. Replies have the same order.
	Limits []Limit
	// Handle belongs to the package that uses the set. It must be set before the set is
	// published.
	Handle any

	attrs   *attributes
	require uint32
	guarded bool // the policy has deny or allow
	// Calendars is set if a limit has a calendar.
	Calendars bool
	// Penalties is set if a limit has a penalty.
	Penalties bool
	// Slots is set if a limit is of concurrent calls.
	Slots bool
	// Ceilings is set if the policy has ceilings: limits whose `by` does not have the home.
	Ceilings  bool
	home      homePart
	ceiling   homePart // of the ceilings
	OnFailure Failure
	// Durability is what the answers wait for.
	Durability Durability
	scale      scale
	seed       maphash.Seed // Config.Seed
	numbers    []Numbers    // the numbers of the policy's text, one after the other

	// Backstop is the largest multiple of its limits that the policy admits under FailOpen;
	// 0 means the server's setting.
	Backstop int64
	// Hold is how RL.RESERVE holds calls.
	Hold Hold
	// Epochs are the epochs of the limits, by id, also of limits that no longer exist.
	Epochs map[string]LimitEpoch
	// Record is the checked tree from which the policy was compiled.
	Record *Record

	descriptors *Descriptors // nil: the policy has limits

	lists  []string // common lists that this policy uses
	secret []byte   // Config.Secret
	deny   []condition
	allow  []condition
}

// Shows reports whether the value of a call's attribute may be shown. A secret value may
// not be shown. If the cluster has secrets, the value of an attribute that the policy does
// not know may not be shown either.
func (p *Policy) Shows(name []byte) bool {
	i := p.attrs.index(name)
	return p.secret == nil || i >= 0 && p.attrs.types[i]&Secret == 0
}

// Knows reports whether the policy uses an attribute.
func (p *Policy) Knows(name []byte) bool { return p.attrs.index(name) >= 0 }

// AllNumbers yields the numbers of the policy's limits, including those of tiers and
// overrides, each once.
func (p *Policy) AllNumbers() iter.Seq2[*Limit, *Numbers] {
	return func(yield func(*Limit, *Numbers) bool) {
		for l, n := range p.OwnNumbers() {
			if !yield(l, n) {
				return
			}
		}
		for i := range p.Limits {
			l := &p.Limits[i]
			if l.tiers == nil && !yield(l, l.numbers) { // otherwise these are the last tier's
				return
			}
			if l.tiers != nil {
				for i := range l.tiers.numbers {
					if !yield(l, &l.tiers.numbers[i]) {
						return
					}
				}
			}
			for _, o := range l.chosen {
				if !yield(l, o.numbers) {
					return
				}
			}
		}
		if p.descriptors == nil {
			return
		}
		for i := range p.numbers { // no other numbers exist
			if !yield(&p.descriptors.limit, &p.numbers[i]) {
				return
			}
		}
	}
}

// OwnNumbers yields the numbers of RL.OVERRIDE LIMIT. If the same policy is compiled with
// other overrides, the two do not share these numbers.
func (p *Policy) OwnNumbers() iter.Seq2[*Limit, *Numbers] {
	return func(yield func(*Limit, *Numbers) bool) {
		for i := range p.Limits {
			l := &p.Limits[i]
			for _, n := range l.exactNumbers {
				if n != nil && !yield(l, n) {
					return
				}
			}
		}
	}
}

// Shares reports whether the policy differs from other only by overrides, and shares all
// other numbers with it. other may be nil.
func (p *Policy) Shares(other *Policy) bool {
	return other != nil && len(p.numbers) > 0 && len(other.numbers) > 0 && &p.numbers[0] == &other.numbers[0]
}

// Attributes returns the record of the attributes that policies share; nil if there is none.
func (s *Set) Attributes() *Record { return s.shared.record }
