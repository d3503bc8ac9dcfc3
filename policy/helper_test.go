package policy

import (
	"hash/maphash"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var testSeed = maphash.MakeSeed()

func emptySet() *Set { return NewSet(Config{Seed: testSeed, Secret: []byte("cluster key")}) }

// load compiles a file.
func load(t testing.TB, file string) *Set {
	t.Helper()
	records, err := ParseFile("policies.yaml", []byte(file))
	require.NoError(t, err)
	return with(t, emptySet(), records...)
}

// with returns a set with more records.
func with(t testing.TB, s *Set, records ...*Record) *Set {
	t.Helper()
	e := s.Edit()
	for _, r := range records {
		e.Set(r, Meta{})
	}
	next, err := e.Finish(s.Revision() + 1)
	require.NoError(t, err)
	return next
}

// override returns a set with one more override.
func override(t testing.TB, s *Set, o Override) *Set {
	t.Helper()
	e := s.Edit()
	e.SetOverride(o)
	next, err := e.Finish(s.Revision() + 1)
	require.NoError(t, err)
	return next
}

// call returns a call of a policy with attributes, name after value.
func call(t testing.TB, s *Set, policy string, attrs ...string) *Call {
	t.Helper()
	c := NewCall()
	p := s.Policy([]byte(policy))
	require.NotNil(t, p, policy)
	c.Begin(p)
	for i := 0; i < len(attrs); i += 2 {
		require.NoError(t, c.Set([]byte(attrs[i]), []byte(attrs[i+1])))
	}
	return c
}

// applied returns what applies to a call, as lines `key cost rate mode`.
func applied(t testing.TB, c *Call, now int64) []string {
	t.Helper()
	v, err := c.Match(now)
	require.NoError(t, err)
	switch v {
	case Allowed:
		return []string{"allow"}
	case Denied:
		return []string{"deny"}
	}
	lines := []string{}
	for i := range c.Applied {
		lines = append(lines, c.Applied[i].line())
	}
	return lines
}

func (a *Applied) line() string {
	s := string(a.Key)
	if a.Missing {
		s = a.Limit.Name + " missing"
	}
	s += " " + a.Numbers.Rate.String()
	if a.Cost != 1 {
		s += " cost " + strconv.FormatInt(a.Cost, 10)
	}
	if a.Numbers.Mode != Enforce {
		s += " " + a.Numbers.Mode.String()
	}
	return s
}
