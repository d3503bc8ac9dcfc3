package engine_test

import (
	"hash/maphash"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// lentPolicy is a policy of limits under keys of their own.
type lentPolicy struct {
	t      *testing.T
	s      *engine.Session
	limits []algo.Limit
	modes  []algo.Mode
	keys   []string
	out    []engine.Checked
}

func newLentPolicy(t *testing.T, c engine.Config, limits ...algo.Limit) *lentPolicy {
	p := &lentPolicy{t: t, s: newTestSession(t, c), limits: limits, modes: make([]algo.Mode, len(limits)), out: make([]engine.Checked, len(limits))}
	for i := range limits {
		p.limits[i].Algorithm = limits[i].Algorithm.OfPolicy()
		p.keys = append(p.keys, "@p:"+string(rune('a'+i)))
	}
	return p
}

// checks are those of a call of a cost.
func (p *lentPolicy) checks(cost int64) []engine.Check {
	var all []engine.Check
	for i, l := range p.limits {
		r, err := p.s.Ready(l)
		require.NoError(p.t, err)
		all = append(all, engine.Check{Key: []byte(p.keys[i]), Hash: hashOf(p.s, p.keys[i]), Limit: r, Cost: cost, Mode: p.modes[i]})
	}
	return all
}

func (p *lentPolicy) try(now int64, id string, q algo.Request) (engine.Verdict, engine.Leased, error) {
	if q.TTL == 0 {
		q.TTL = 10 * second
	}
	return p.s.Leases().TakeAll(now, &engine.PolicyLease{Policy: "p", ID: []byte(id), Request: q, Whole: true}, p.checks(q.Need), engine.CheckOptions{}, p.out)
}

func (p *lentPolicy) lend(now int64, id string, q algo.Request) (engine.Verdict, engine.Leased) {
	p.t.Helper()
	v, a, err := p.try(now, id, q)
	require.NoError(p.t, err)
	return v, a
}

func (p *lentPolicy) giveBack(now int64, id string, seq uint64, held int64) int64 {
	p.t.Helper()
	units, err := p.s.Leases().ReturnAll(now, "p", []byte(id), seq, held, p.checks(0))
	require.NoError(p.t, err)
	return units
}

// left is what plain callers find of each limit.
func (p *lentPolicy) left(now int64) (all []int64) {
	p.t.Helper()
	_, err := p.s.Check(now, p.checks(0), engine.CheckOptions{Peek: true}, p.out)
	require.NoError(p.t, err)
	for i := range p.out {
		all = append(all, p.out[i].Remaining)
	}
	return all
}

func (p *lentPolicy) outOf(now int64) (all []int64) {
	p.t.Helper()
	for _, key := range p.keys {
		units, _, err := p.s.Leases().OutOf(now, []byte(key), hashOf(p.s, key))
		require.NoError(p.t, err)
		all = append(all, units)
	}
	return all
}

// A lease of a policy is the least that all limits can give, charged to each.
func TestALeaseOfAPolicyIsOfAllLimits(t *testing.T) {
	for _, a := range leasable {
		for _, b := range leasable {
			p := newLentPolicy(t, engine.Config{}, perMinute(a, 1000), perMinute(b, 100))
			v, got := p.lend(start, "a", algo.Request{Seq: 1, Want: 1000, Need: 2})
			require.True(t, v.OK)
			require.EqualValues(t, 27, got.Granted, "a quarter of the smaller limit, and what it needs")
			require.EqualValues(t, []int64{973, 73}, p.left(start))
			require.EqualValues(t, []int64{25, 25}, p.outOf(start))
			require.EqualValues(t, 10*second, got.TTL)
			_, again := p.lend(start, "a", algo.Request{Seq: 2, Want: 25, Held: 5})
			require.EqualValues(t, 20, again.Granted)
			require.EqualValues(t, []int64{953, 53}, p.left(start))
			require.EqualValues(t, 4, p.giveBack(start, "a", 3, 4))
			require.EqualValues(t, []int64{957, 57}, p.left(start))
			require.EqualValues(t, []int64{0, 0}, p.outOf(start))
			require.Zero(t, p.giveBack(start, "a", 4, 4))
			require.EqualValues(t, []int64{957, 57}, p.left(start))
		}
	}
}

func hashOf(s *engine.Session, key string) uint64 {
	return maphash.Bytes(s.Engine().Seed(), []byte(key))
}
