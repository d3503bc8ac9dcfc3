// Package policytest makes sets and calls of policies for tests.
package policytest

import (
	"hash/maphash"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
)

// Seed is the seed of the sets.
var Seed = maphash.MakeSeed()

// Empty returns a set without policies, which has a secret.
func Empty() *policy.Set {
	return policy.NewSet(policy.Config{Seed: Seed, Secret: []byte("cluster key")})
}

// Load compiles a file.
func Load(t testing.TB, file string) *policy.Set {
	t.Helper()
	records, err := grammar.ParseFile("policies.yaml", []byte(file))
	require.NoError(t, err)
	return With(t, Empty(), records...)
}

// With returns a set with more records.
func With(t testing.TB, s *policy.Set, records ...*policy.Record) *policy.Set {
	t.Helper()
	e := s.Edit()
	for _, r := range records {
		e.Set(r, policy.Meta{})
	}
	next, err := e.Finish(s.Revision() + 1)
	require.NoError(t, err)
	return next
}

// Override returns a set with one more override.
func Override(t testing.TB, s *policy.Set, o policy.Override) *policy.Set {
	t.Helper()
	e := s.Edit()
	e.SetOverride(o)
	next, err := e.Finish(s.Revision() + 1)
	require.NoError(t, err)
	return next
}

// Call returns a call of a policy with attributes, name after value.
func Call(t testing.TB, s *policy.Set, name string, attrs ...string) *policy.Call {
	t.Helper()
	c := policy.NewCall()
	p := s.Policy([]byte(name))
	require.NotNil(t, p, name)
	c.Begin(p)
	for i := 0; i < len(attrs); i += 2 {
		require.NoError(t, c.Set([]byte(attrs[i]), []byte(attrs[i+1])))
	}
	return c
}

// Applied returns what applies to a call, as lines `key cost rate mode`.
func Applied(t testing.TB, c *policy.Call, now int64) []string {
	t.Helper()
	v, err := c.Match(now)
	require.NoError(t, err)
	switch v {
	case policy.Allowed:
		return []string{"allow"}
	case policy.Denied:
		return []string{"deny"}
	}
	lines := []string{}
	for i := range c.Applied {
		lines = append(lines, Line(&c.Applied[i]))
	}
	return lines
}

// Line returns `key cost rate mode` of a limit that applies.
func Line(a *policy.Applied) string {
	s := string(a.Key)
	if a.Missing {
		s = a.Limit.Name + " missing"
	}
	s += " " + a.Numbers.Rate.String()
	if a.Cost != 1 {
		s += " cost " + strconv.FormatInt(a.Cost, 10)
	}
	if a.Numbers.Mode != policy.Enforce {
		s += " " + a.Numbers.Mode.String()
	}
	return s
}

// Record reads a record.
func Record(t *testing.T, name, text string) *policy.Record {
	t.Helper()
	r, err := grammar.ParseRecord(name+".yaml", name, []byte(text))
	require.NoError(t, err)
	return r
}

// Reread requires that the canonical text of a record gives an equal record when it is
// read.
func Reread(t *testing.T, r *policy.Record) {
	text := grammar.Format(r)
	if len(text) > grammar.MaxText {
		return // longer than it was
	}
	again, err := grammar.ParseRecord("f", r.Name, []byte(text))
	require.NoError(t, err, text)
	require.Equal(t, text, grammar.Format(again))
	require.Empty(t, diff.Compare(r, again), text)
}

// Heap returns how many bytes are in use.
func Heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Preceding has numbers from all that may change them.
const Preceding = `
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
