package config

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
)

// Store is the configuration of a running server, for CONFIG GET and SET.
// Names are in lower case.
type Store struct {
	current atomic.Pointer[Config]

	// mu guards changed and makes one Set wait for another.
	mu      sync.Mutex
	changed []func(*Config)
}

// These errors are returned by Set, in Redis's words.
var (
	errUnknown   = errors.New("unknown parameter")
	errImmutable = errors.New("can't set immutable config")
)

// NewStore returns a Store that starts with c.
func NewStore(c Config) *Store {
	s := new(Store)
	s.current.Store(&c)
	return s
}

// Current is the configuration in force. It must not be modified.
func (s *Store) Current() *Config { return s.current.Load() }

// OnChange has f called with the new configuration after every Set, one call
// at a time.
func (s *Store) OnChange(f func(*Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// Names lists the parameters and the names of Redis for them.
func (s *Store) Names() []string {
	names := make([]string, 0, len(Params)+len(aliases))
	for _, p := range Params {
		names = append(names, p.Name)
	}
	for _, a := range aliases {
		names = append(names, a.name)
	}
	return names
}

// Get returns a parameter as CONFIG GET answers it.
func (s *Store) Get(name string) (value string, ok bool) {
	c := *s.Current()
	if p := find(name); p != nil {
		return p.Value(&c).Redis(), true
	}
	if a := findAlias(name); a != nil {
		return a.value(&c), true
	}
	return "", false
}

// Set changes a parameter and calls the functions given to OnChange. What
// cannot change may be set to what it is: tools that switch persistence off do
// so whether it is on or not.
func (s *Store) Set(name, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.Current()
	p := find(name)
	if p == nil {
		switch a := findAlias(name); {
		case a == nil:
			return errUnknown
		case value != a.value(&next):
			return errImmutable
		}
		return nil
	}
	v := p.Value(&next)
	before := v.Redis()
	if err := v.Set(value); err != nil {
		return err
	}
	if v.Redis() == before {
		return nil
	}
	if !p.Mutable {
		return errImmutable
	}
	if err := next.conflicts(); err != nil {
		// An error reply is one line.
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	s.current.Store(&next)
	for _, f := range s.changed {
		f(&next)
	}
	return nil
}
