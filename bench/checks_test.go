package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/bench/load"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// BenchmarkCheck is one check of a random caller in a full table: what a server
// does between parsing the arguments of RL.CHECK and replying.
func BenchmarkCheck(b *testing.B) {
	for _, n := range checkLimits {
		b.Run(fmt.Sprintf("limits=%d", n), func(b *testing.B) { benchmarkCheck(b, n) })
	}
}

// checker decides calls of a policy on an engine of its own.
type checker struct {
	*engine.Session
	policy *policy.Policy
	call   *policy.Call
	checks []engine.Check
	out    []engine.Checked
}

func newChecker(t testing.TB, limits int) *checker {
	e := engine.New(engine.Config{})
	editor := policy.NewSet(policy.Config{Seed: e.Seed()}).Edit()
	rec, err := grammar.ParseRecord("p", "p", []byte(checkPolicy(limits)))
	require.NoError(t, err)
	editor.Set(rec, policy.Meta{Version: 1})
	set, err := editor.Finish(1)
	require.NoError(t, err)
	c := &checker{Session: e.NewSession(), policy: set.Policy([]byte("p")), call: policy.NewCall(), out: make([]engine.Checked, policy.MaxLimits)}
	for l, n := range c.policy.AllNumbers() {
		n.Handle, err = e.Ready(algo.Limit{Algorithm: algo.Algorithm(l.Algorithm).OfPolicy(), Limit: n.Rate.Amount, Period: n.Rate.Period, Burst: n.Rate.Burst})
		require.NoError(t, err)
	}
	return c
}

func (c *checker) check(now int64, user, tenant []byte) (passed bool, limits int, err error) {
	c.call.Begin(c.policy)
	if err := c.call.Set(nameUser, user); err != nil {
		return false, 0, err
	}
	if err := c.call.Set(nameTenant, tenant); err != nil {
		return false, 0, err
	}
	if _, err := c.call.Match(now); err != nil {
		return false, 0, err
	}
	c.checks = c.checks[:0]
	for i := range c.call.Applied {
		a := &c.call.Applied[i]
		c.checks = append(c.checks, engine.Check{Key: a.Key, Hash: a.Hash, Limit: a.Numbers.Handle.(engine.Ready), Cost: a.Cost})
	}
	v, err := c.Check(now, c.checks, engine.CheckOptions{}, c.out[:len(c.checks)])
	return v.OK, len(c.checks), err
}

var nameUser, nameTenant = []byte("user"), []byte("tenant")

func benchmarkCheck(b *testing.B, limits int) {
	c := newChecker(b, limits)
	defer c.Close()
	const callers = 1_000_000
	now := c.Engine().Now()
	var user, tenant []byte
	caller := func(n int) {
		user, tenant = fmt.Appendf(user[:0], "user%012d", n), fmt.Appendf(tenant[:0], "t%012d", n%checkTenants)
	}
	for n := range callers {
		caller(n)
		if ok, _, err := c.check(now, user, tenant); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
	const calls, width = 1 << 19, 16 + 13
	r := rand.New(rand.NewPCG(1, 2))
	input := make([]byte, 0, calls*width)
	for range calls {
		caller(r.IntN(callers))
		input = append(append(input, user...), tenant...)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in := input[i%calls*width:][:width]
		now += 100
		if ok, _, err := c.check(now, in[:16], in[16:]); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}

// All limits of the rows apply to their calls, and a check in process allocates
// nothing.
func TestCheckPoliciesApply(t *testing.T) {
	for _, n := range checkLimits {
		c := newChecker(t, n)
		now := c.Engine().Now()
		user, tenant := []byte("eve"), []byte("acme")
		ok, limits, err := c.check(now, user, tenant)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, n, limits)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = c.check(now, user, tenant) }))
		c.Close()
	}
}

func costs(cpu time.Duration, rate float64) []cost {
	return []cost{{1, 1}, {rate, cpu}, {10 * rate, 10 * cpu}}
}

func TestCheckTargets(t *testing.T) {
	of := func(p99 time.Duration) []*load.Result {
		return []*load.Result{{Latency: load.Latency{P99: p99}}}
	}
	rep := report{Checks: &checkReport{
		Throttle: costs(1000, 1), Checks: []*checkRow{{1, costs(1200, 1)}, {3, costs(2400, 5)}, {10, costs(5100, 1)}},
		Lua:      costs(12000, 1),
		Engine:   []engineCheck{{1, 200, 0}, {3, 300, 1}},
		OpenLoop: of(1500 * time.Microsecond),
		Ceiling:  &ceilingRow{With: costs(1, 90), Without: costs(1, 100), Instead: costs(1, 120)},
	}}
	require.Equal(t, [][2]any{{1.2, "goal"}, {2.4, "pass"}, {5.1, ""}, {5.0, ""}, {0.0, "goal"}, {1.0, "miss"}, {1.5, "pass"}, {0.9, "pass"}, {0.75, "miss"}}, marks(rep.targets()))
	require.Contains(t, rep.markdown(), "| 10 limits | 5.10 | 1 |")
	require.Contains(t, rep.markdown(), "| Redis + Lua, three buckets | 12.00 | 1 |")
}

// marks are the rounded values of targets, and how they stand to their bounds.
func marks(targets []target) (all [][2]any) {
	for _, tg := range targets {
		all = append(all, [2]any{math.Round(100*tg.Value) / 100, tg.mark()})
	}
	return all
}

// A server admits the calls of the rows, and each caller is called once before the
// measurement.
func TestCheckRowsOnHeadgate(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	b := &bench{bin: paths{headgate: bin}, keys: 2000, effort: effort{runs: 1, runTime: 100 * time.Millisecond}, progress: t.Output()}
	var measured []cost
	s, err := b.startChecks(context.Background(), t.TempDir(), "ten", checkPolicy(10), checkCall("p"), &measured)
	require.NoError(t, err)
	t.Cleanup(s.process.stop)
	n, err := s.process.keys()
	require.NoError(t, err)
	require.EqualValues(t, 7*2000+3*1000, n)
	require.NoError(t, b.takeTurns(context.Background(), []*checkServer{s}))
	require.Len(t, measured, 3)
	require.Positive(t, measured[0].Rate)
	reply, err := s.process.ask("RL.CHECK", "p", "user", "u", "tenant", "t")
	require.NoError(t, err)
	require.EqualValues(t, 1, reply.Elems[0].Int)
	require.EqualValues(t, 10, reply.Elems[10].Int, "so many limits apply")
	_, err = b.startChecks(context.Background(), t.TempDir(), "none", "{limits: {}}", checkCall("p"), &measured)
	require.Error(t, err)
}

// The script of three buckets charges all or none, and its rows are admitted by Redis.
func TestThreeBucketsOnRedis(t *testing.T) {
	b := &bench{keys: 2000, progress: t.Output()}
	var measured []cost
	s, err := b.startThreeBuckets(context.Background(), t.TempDir(), &measured)
	require.NoError(t, err)
	t.Cleanup(s.process.stop)
	n, err := s.process.keys()
	require.NoError(t, err)
	require.EqualValues(t, 2*2000+checkTenants, n, "two buckets of each caller, one of each tenant")

	sha, err := s.process.ask("SCRIPT", "LOAD", threeBucketsLua)
	require.NoError(t, err)
	for _, want := range []string{"[1 9 0 9]", "[0 9 0 9]"} {
		reply, err := s.process.ask("EVALSHA", sha.Str, "3", "a", "b", "c", "1", "10", "0.001", "1", "0.001", "10", "0.001")
		require.NoError(t, err)
		var got []int64
		for _, v := range reply.Elems {
			got = append(got, v.Int)
		}
		require.Equal(t, want, fmt.Sprint(got))
	}
}
