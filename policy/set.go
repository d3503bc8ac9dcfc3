package policy

import (
	"bytes"
	"hash/maphash"
	"iter"
)

// Set has all policies at one revision, compiled. It is immutable; NewSet makes
// an empty one and Edit the next.
type Set struct {
	config   Config
	revision uint64
	policies *directory[Policy]
	names    []string // sorted
	shared   *shared
	// overrides of RL.OVERRIDE, also of policies that are not there.
	overrides *directory[overrides]
	// gone has the epochs of policies that are not there any more.
	gone map[string]map[string]LimitEpoch
}

// Config is what a set needs of the node that it is on.
type Config struct {
	// Seed is the one of the engine's table, so that Applied.Hash is the hash of
	// a counter's key in its database 0.
	Seed maphash.Seed
	// Secret is the cluster's key, for attributes of type secret. It may be nil
	// where no policy has one: to compile one is then an error.
	Secret []byte
}

// NewSet returns a set without policies, of revision 0.
func NewSet(c Config) *Set {
	seed := maphash.MakeSeed()
	return &Set{config: c, policies: &directory[Policy]{seed: seed}, overrides: &directory[overrides]{seed: seed}, shared: &shared{
		lists: map[string]*Record{}, values: map[listUse]*values{},
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

// Void reports whether what a counter has consumed is void: it was charged under
// an earlier reset of its limit.
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

// Failure is what a policy answers while nobody can decide.
type Failure uint8

// The zero value leaves it to the server.
const (
	FailServer Failure = iota
	FailOpen
	FailClosed
	FailLocal
)

var failures = [...]string{"", "open", "closed", "local"}

// String returns the word of the grammar, "" for FailServer.
func (f Failure) String() string { return failures[f] }

// MaxBackstop is how many times its limits a policy may have admitted.
const MaxBackstop = 1_000_000

// Durability is what a policy's answers wait for.
type Durability uint8

// The zero value leaves it to the server.
const (
	DurabilityServer Durability = iota
	Async
	Sync
)

var durabilities = [...]string{"", "async", "sync"}

// String returns the word of the grammar, "" for DurabilityServer.
func (d Durability) String() string { return durabilities[d] }

// Policy is a compiled policy.
type Policy struct {
	Name string
	// Version counts the changes of the policy; replies have it.
	Version   uint64
	OnFailure Failure
	// Backstop is how many times its limits are admitted at most with FailOpen; 0
	// leaves it to the server.
	Backstop   int64
	Durability Durability
	// Limits are in the order of the text, which is that of replies.
	Limits []Limit

	// Epochs of the limits, by id, also of limits that are gone.
	Epochs map[string]LimitEpoch
	// Record is the checked tree that the policy was compiled from.
	Record *Record
	// Handle is the caller's, to be set before the set is published.
	Handle any

	attrs   attributes
	lists   []string     // of all policies, that this one uses
	seed    maphash.Seed // Config.Seed
	secret  []byte       // Config.Secret
	require uint32
	deny    []condition
	allow   []condition
	guarded bool // has deny or allow
	scale   scale
}

// Shows reports whether the value of an attribute of a call may be shown: not if it
// is secret, nor, where the cluster has secrets, if the policy does not know it.
func (p *Policy) Shows(name []byte) bool {
	i := p.attrs.index(name)
	return p.secret == nil || i >= 0 && p.attrs.types[i]&Secret == 0
}

// AllNumbers yields the numbers of the policy's limits, those of tiers and
// overrides included. One may come more than once.
func (p *Policy) AllNumbers() iter.Seq2[*Limit, *Numbers] {
	return func(yield func(*Limit, *Numbers) bool) {
		for i := range p.Limits {
			l := &p.Limits[i]
			all := [][]*Numbers{{l.numbers}, l.exactNumbers}
			if l.tiers != nil {
				all = append(all, l.tiers.numbers)
			}
			for _, o := range l.chosen {
				all = append(all, []*Numbers{o.numbers})
			}
			for _, some := range all {
				for _, n := range some {
					if n != nil && !yield(l, n) {
						return
					}
				}
			}
		}
	}
}
