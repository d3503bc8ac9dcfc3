package engine_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// modelBackstop is the count of a Backstop for a key, by its definition.
type modelBackstop struct {
	bucket algotest.Bucket
	token  algo.State
	window *algotest.Window // nil: it is a bucket
}

func newModelBackstop(l algo.Limit, n int64) *modelBackstop {
	switch {
	case l.Algorithm <= algo.Leaky:
		l.Algorithm = algo.Token
		m := algotest.NewBucket(l)
		m.Burst *= n
		m.Interval = new(big.Rat).Quo(m.Interval, big.NewRat(n, 1))
		return &modelBackstop{bucket: m}
	case l.Algorithm == algo.Log && n > 1:
		return &modelBackstop{bucket: algotest.NewBucket(algo.Limit{Limit: l.Limit * n / 2, Period: l.Period})}
	}
	l.Limit *= n
	return &modelBackstop{window: &algotest.Window{Limit: l}}
}

// ask answers a call, and charges it unless that is a look.
func (m *modelBackstop) ask(now, cost int64, o algo.Options) algo.Decision {
	if m.window == nil {
		next, d, write, err := m.bucket.Decide(m.token, now, cost, o)
		if err != nil {
			panic(err)
		}
		if write {
			m.token = next
		}
		return d
	}
	c := &modelCounter{l: m.window.Limit, window: *m.window}
	c.l.Algorithm = c.l.Algorithm.OfPolicy()
	d := c.decide(now, cost, o)
	m.window.Start, m.window.Open, m.window.Hits = c.window.Start, c.window.Open, c.window.Hits
	if o.AtMost && !d.OK { // it waits for one unit
		d.RetryAfter = c.wait(now, 1, algo.Options{Debt: o.Debt})
	}
	return d
}

// full is the answer of a full limit.
func full(l algo.Limit, now, cost int64, o algo.Options) algo.Decision {
	o.Peek = true
	if l.Algorithm <= algo.Leaky {
		_, d, _, err := algotest.NewBucket(l).Decide(algo.State{}, now, cost, o)
		if err != nil {
			panic(err)
		}
		return d
	}
	c := &modelCounter{l: l, window: algotest.Window{Limit: l}}
	c.l.Algorithm = c.l.Algorithm.OfPolicy()
	d := c.decide(now, cost, o)
	if o.AtMost && !d.OK {
		d.RetryAfter = c.wait(now, 1, algo.Options{Debt: o.Debt})
	}
	return d
}

// modelCall returns the answer of a call; counted has the units admitted so far.
func modelCall(now int64, segs []engine.Segment, o algo.Options, counted []*modelBackstop) (out []algo.Decision, denied bool) {
	own := algo.Options{Peek: true, Force: o.Force, AtMost: o.AtMost, Debt: o.Debt}
	each := func(cost func(i int) int64, o algo.Options, ask func(i int, cost int64, o algo.Options) algo.Decision) (out []algo.Decision, passed bool) {
		passed = true
		for i := range segs {
			d := ask(i, cost(i), o)
			out, passed = append(out, d), passed && d.OK
		}
		return out, passed
	}
	asFull := func(i int, cost int64, o algo.Options) algo.Decision { return full(segs[i].Limit, now, cost, o) }
	ofCounted := func(i int, cost int64, o algo.Options) algo.Decision { return counted[i].ask(now, cost, o) }
	wanted := func(i int) int64 { return segs[i].Cost }
	nothing := func(int) int64 { return 0 }

	out, passed := each(wanted, o, asFull)
	scarcest := func(ds []algo.Decision) func(int) int64 {
		least := ds[0].Allowed
		for _, d := range ds {
			least = min(least, d.Allowed)
		}
		return func(int) int64 { return least }
	}
	if passed && o.AtMost && !o.Force {
		wanted = scarcest(out)
		out, _ = each(wanted, o, asFull)
	}
	if !passed {
		held, _ := each(nothing, algo.Options{Debt: o.Debt}, asFull)
		for i := range out {
			if out[i].OK {
				out[i] = held[i]
			}
		}
		return out, false
	}
	says, passed := each(wanted, own, ofCounted)
	if passed && o.AtMost && !o.Force {
		wanted = scarcest(says)
		out, _ = each(wanted, o, asFull)
		says, _ = each(wanted, own, ofCounted)
	}
	if !passed {
		held, _ := each(nothing, algo.Options{}, asFull)
		left, _ := each(nothing, algo.Options{Peek: true}, ofCounted)
		for i := range out {
			if says[i].OK {
				out[i] = held[i]
				out[i].Remaining = min(held[i].Remaining, left[i].Remaining)
			} else {
				out[i] = algo.Decision{Limit: out[i].Limit, Remaining: min(held[i].Remaining, left[i].Remaining), RetryAfter: says[i].RetryAfter, ResetAfter: left[i].ResetAfter}
			}
		}
		return out, true
	}
	for i := range out {
		out[i].Remaining = min(out[i].Remaining, says[i].Remaining)
	}
	if !o.Peek {
		own.Peek = false
		each(wanted, own, ofCounted)
	}
	return out, false
}

// Calls over every mixture of algorithms and options are answered and counted by the
// definitions.
func TestBackstopAgainstModel(t *testing.T) {
	seeds, calls := 16, 400
	if testing.Short() {
		seeds = 4
	}
	total := uint64(0)
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(11, uint64(seed)))
		n := []int64{1, 2, 3, 10}[rnd.IntN(4)]
		b := engine.NewBackstop(engine.New(engine.Config{}))
		const keys = 6
		var limits [keys]algo.Limit
		var counted [keys]*modelBackstop
		for i := range keys {
			l := algo.Limit{Algorithm: eachAlgorithm[rnd.IntN(len(eachAlgorithm))], Limit: 1 + rnd.Int64N(9), Period: 1 + rnd.Int64N(20*second)}
			switch {
			case l.Algorithm <= algo.Leaky:
				l.Burst, l.Rounding = rnd.Int64N(12), algo.Rounding(rnd.IntN(3))
			case l.Algorithm != algo.Log:
				l.Align = algo.Align(rnd.IntN(2))
			}
			limits[i], counted[i] = l, newModelBackstop(l, n)
		}
		now, denials := start, uint64(0)
		out := make([]algo.Decision, keys)
		for call := range calls {
			now += rnd.Int64N(second) * rnd.Int64N(2)
			o := algo.Options{Peek: rnd.IntN(9) == 0, Force: rnd.IntN(30) == 0, AtMost: rnd.IntN(5) == 0}
			if rnd.IntN(4) == 0 {
				o.Debt = rnd.Int64N(4)
			}
			if rnd.IntN(4) == 0 {
				o.Wait = []int64{algo.NoWait, second}[rnd.IntN(2)]
			}
			var segs []engine.Segment
			var own []*modelBackstop
			cost := 1 + rnd.Int64N(6)
			for _, i := range rnd.Perm(keys)[:1+rnd.IntN(3)] {
				if !o.AtMost {
					cost = max(rnd.Int64N(9)-2, -1)
				}
				segs, own = append(segs, engine.Segment{fmt.Appendf(nil, "k%d", i), limits[i], cost}), append(own, counted[i])
			}
			want, denied := modelCall(now, segs, o, own)
			if denied && !o.Peek {
				denials++
			}
			at, err := b.DecideAll(now, n, segs, &o, out[:len(segs)])
			require.NoError(t, err)
			require.Equal(t, want, out[:len(segs)], "seed %d call %d: %d times %+v, %+v", seed, call, n, segs, o)
			require.Equal(t, binding(want), at, "seed %d call %d", seed, call)
		}
		require.Equal(t, engine.BackstopCounts{Denied: denials}, b.Counts())
		total += denials
	}
	require.Greater(t, total, uint64(50*seeds))
}

// binding returns the index of the decision that stands for a call.
func binding(all []algo.Decision) (at int) {
	for i := range all {
		if all[i].BindsMoreThan(&all[at]) {
			at = i
		}
	}
	return at
}
