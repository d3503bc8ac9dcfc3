package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Store holds the configuration of a running server, for CONFIG GET and SET. Names are in
// lower case.
type Store struct {
	current atomic.Pointer[Config]

	// mu guards changed. Set holds it, so only one Set runs at a time.
	mu      sync.Mutex
	changed []func(*Config)
}

// Errors of Set, in Redis's words.
var (
	errUnknown   = errors.New("unknown parameter")
	errImmutable = errors.New("can't set immutable config")
	errDuplicate = errors.New("duplicate parameter")
)

// NewStore returns a Store whose first configuration is c.
func NewStore(c Config) *Store {
	s := new(Store)
	s.current.Store(&c)
	return s
}

// Current returns the configuration in force. The caller must not modify it.
func (s *Store) Current() *Config { return s.current.Load() }

// OnChange registers a function. Set calls f with the new configuration after each change
// and before it returns, one call at a time.
func (s *Store) OnChange(f func(*Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// Names returns the names of the parameters, and Redis's names for them.
func (s *Store) Names() []string {
	names := make([]string, 0, len(Params)+len(aliases))
	for _, p := range Params {
		names = append(names, p.Name)
	}
	for _, a := range aliases {
		names = append(names, a.name)
	}
	for _, h := range hints {
		names = append(names, h.name)
		if h.former != "" {
			names = append(names, h.former)
		}
	}
	return names
}

// Get returns a parameter's value in the form of CONFIG GET.
func (s *Store) Get(name string) (value string, ok bool) {
	c := *s.Current()
	if p := find(name); p != nil {
		return p.Value(&c).Redis(), true
	}
	if a := findAlias(name); a != nil {
		return a.value(&c), true
	}
	if i := findHint(name); i >= 0 {
		return c.hint(i), true
	}
	return "", false
}

// Set changes parameters, given as pairs of name and value: either all or none. Then it
// calls the functions registered with OnChange. If it returns an error, failed is the index
// of the pair that the error is about. Set accepts an immutable parameter if the value is
// the present value, because tools that switch persistence off do so even where it is off.
func (s *Store) Set(pairs [][2]string) (failed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.Current()
	last := -1 // index of the last pair that changes something
	for i, p := range pairs {
		if slices.ContainsFunc(pairs[:i], func(q [2]string) bool { return q[0] == p[0] }) {
			return i, errDuplicate
		}
		changed, err := next.set(p[0], p[1])
		if err != nil {
			return i, err
		}
		if changed {
			last = i
		}
	}
	if last < 0 {
		return 0, nil
	}
	if err := errors.Join(next.conflicts(), next.unguarded()); err != nil {
		// An error reply must be one line.
		return last, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	s.current.Store(&next)
	for _, f := range s.changed {
		f(&next)
	}
	return 0, nil
}

// set sets a parameter and reports whether its value has changed.
func (c *Config) set(name, value string) (changed bool, err error) {
	if i := findHint(name); i >= 0 {
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return false, errNotInteger
		}
		changed = value != c.hint(i)
		c.hints[i] = value
		return changed, nil
	}
	p := find(name)
	if p == nil {
		switch a := findAlias(name); {
		case a == nil:
			return false, errUnknown
		case value != a.value(c):
			return false, errImmutable
		}
		return false, nil
	}
	next := *c
	before, after := p.Value(c), p.Value(&next)
	if err := after.Set(value); err != nil {
		return false, err
	}
	if !p.Mutable {
		// Compare in the form of Get, which may be less exact.
		if after.Redis() != before.Redis() {
			return false, errImmutable
		}
		return false, nil
	}
	changed = after.String() != before.String()
	*c = next
	return changed, nil
}
