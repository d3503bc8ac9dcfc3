package policy

import (
	"hash/maphash"
	"runtime"
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
func call(t testing.TB, s *Set, name string, attrs ...string) *Call {
	t.Helper()
	c := NewCall()
	p := s.Policy([]byte(name))
	require.NotNil(t, p, name)
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
		lines = append(lines, line(&c.Applied[i]))
	}
	return lines
}

// line returns `key cost rate mode` of what applies.
func line(a *Applied) string {
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

func record(t *testing.T, name, text string) *Record {
	t.Helper()
	r, err := ParseRecord(name+".yaml", name, []byte(text))
	require.NoError(t, err)
	return r
}

func reread(t *testing.T, r *Record) {
	text := Format(r)
	if len(text) > MaxText {
		return // longer than it was
	}
	again, err := ParseRecord("f", r.Name, []byte(text))
	require.NoError(t, err, text)
	require.Equal(t, text, Format(again))
	require.Empty(t, Compare(r, again), text)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// preceding has numbers from all that may change them.
const preceding = `
policies:
  p:
    attributes: {tenant: {type: lower}}
    limits:
      plain: {by: tenant, rate: 10/m}
      tier: {by: [tenant, user], tiers: {attribute: tier, free: 100/m, pro: {rate: 1000/m, mode: soft, cost: 3}, default: 50/m}, mode: shadow}
      day: {by: tenant, rate: 1000/day, algorithm: fixed}
      all: {rate: 7/s}
    overrides:
      - {when: {tenant: acme}, limits: {plain: 20/m, tier: unlimited}, until: 2026-12-31T23:00:00Z}
      - {when: {tenant: "a*"}, limits: {plain: {rate: 30/m, mode: "off"}, tier: {rate: 60/m}}}
`
