package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Store is the configuration of a running server, behind CONFIG GET and SET.
type Store struct {
	current atomic.Pointer[Config]

	// mu guards changed and makes one Set wait for another.
	mu      sync.Mutex
	changed []func(*Config)
}

// NewStore returns a Store that starts with c.
func NewStore(c Config) *Store {
	s := new(Store)
	s.current.Store(&c)
	return s
}

// Current is the configuration in force. It must not be modified.
func (s *Store) Current() *Config { return s.current.Load() }

// OnChange has f called with the new configuration after every Set.
func (s *Store) OnChange(f func(*Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// Get returns the parameters whose name matches one of the glob patterns, in
// any case, as name and value in turn, sorted by name. A malformed pattern
// matches nothing.
func (s *Store) Get(patterns ...string) []string {
	c := *s.Current()
	values := map[string]string{}
	for _, a := range aliases {
		values[a.name] = a.value(&c)
	}
	for _, p := range Params {
		values[p.Name] = p.Value(&c).Redis()
	}
	names := make([]string, 0, len(values))
	for name := range values {
		if slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := path.Match(strings.ToLower(pattern), name)
			return ok
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	pairs := make([]string, 0, 2*len(names))
	for _, name := range names {
		pairs = append(pairs, name, values[name])
	}
	return pairs
}

// Set changes parameters, given as name and value in turn: all of them, or
// none and an error in Redis's words without the leading "ERR".
func (s *Store) Set(pairs ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.Current()
	seen := map[string]bool{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := strings.ToLower(pairs[i]), pairs[i+1]
		if seen[name] {
			return setError(name, errors.New("duplicate parameter"))
		}
		seen[name] = true
		if err := assign(&next, name, value); err != nil {
			return err
		}
	}
	if err := next.conflicts(); err != nil {
		// An error reply is one line.
		return setError(strings.ToLower(pairs[0]), errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	s.current.Store(&next)
	for _, f := range s.changed {
		f(&next)
	}
	return nil
}

// assign sets one parameter of c. What cannot change may be "set" to what it
// is, since tools such as those that switch persistence off do so blindly.
func assign(c *Config, name, value string) error {
	if p := find(name); p != nil {
		v := p.Value(c)
		before := v.Redis()
		if err := v.Set(value); err != nil {
			return setError(name, err)
		}
		if !p.Mutable && v.Redis() != before {
			return setError(name, errImmutable)
		}
		return nil
	}
	for _, a := range aliases {
		if a.name == name {
			if value != a.value(c) {
				return setError(name, errImmutable)
			}
			return nil
		}
	}
	//lint:ignore ST1005 the words are Redis's
	return fmt.Errorf("Unknown option or number of arguments for CONFIG SET - '%s'", name)
}

var errImmutable = errors.New("can't set immutable config")

func setError(name string, err error) error {
	return fmt.Errorf("CONFIG SET failed (possibly related to argument '%s') - %w", name, err)
}
