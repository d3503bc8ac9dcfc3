package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelKey is one key of a chain, by the definition of its algorithm.
type modelKey struct {
	l      Limit
	bucket modelBucket
	token  tokenState
	window modelWindow
}

func newModelKey(l Limit) *modelKey {
	k := &modelKey{l: l, window: modelWindow{l: l}}
	if l.Algorithm <= Leaky {
		k.bucket = newModelBucket(l)
	}
	return k
}

// decide answers one check. The models of windows do not tell RetryAfter.
func (k *modelKey) decide(t *rapid.T, now, cost int64, o Options) Decision {
	if k.l.Algorithm > Leaky {
		return k.window.decide(now, cost, o)
	}
	next, d, write, err := k.bucket.token(k.token, now, cost, o)
	require.NoError(t, err)
	if write {
		k.token = next
	}
	return d
}

// modelChain is DecideAll by its definition.
func modelChain(t *rapid.T, keys []*modelKey, costs []int64, now int64, o Options) (out []Decision, ok bool) {
	look := o
	look.Peek = true
	ask := func() {
		out, ok = nil, true
		for i, k := range keys {
			d := k.decide(t, now, costs[i], look)
			out, ok = append(out, d), ok && d.OK
		}
	}
	ask()
	if ok && o.AtMost && costs[0] > 0 {
		least := costs[0]
		for _, d := range out {
			least = min(least, d.Allowed)
		}
		for i := range costs {
			costs[i] = least
		}
		ask()
	}
	for i, k := range keys {
		switch {
		case !ok && out[i].OK:
			out[i] = k.decide(t, now, 0, Options{Peek: true})
		case ok && !o.Peek:
			k.decide(t, now, costs[i], o)
		}
	}
	return out, ok
}

// Chains over every mixture of algorithms answer what the definitions say of
// each of their limits, also of those that would have passed alone, and charge
// all limits or none.
func TestChainAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Config{Shards: 4}).NewSession()
		defer s.Close()
		var all []*modelKey
		for range rapid.IntRange(2, 5).Draw(t, "keys") {
			l := Limit{
				Algorithm: rapid.SampledFrom(eachAlgorithm).Draw(t, "algorithm"),
				Limit:     rapid.Int64Range(1, 10).Draw(t, "limit"),
				Period:    rapid.Int64Range(1, 100).Draw(t, "period") * second,
			}
			if l.Algorithm <= Leaky && rapid.Bool().Draw(t, "with burst") {
				l.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
			}
			all = append(all, newModelKey(l))
		}
		now := start
		out := make([]Decision, MaxSegments)
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now += rapid.Int64Range(0, 20*second).Draw(t, "step")
			o := Options{
				Peek:   rapid.IntRange(0, 7).Draw(t, "peek") == 0,
				AtMost: rapid.IntRange(0, 3).Draw(t, "atmost") == 0,
				Debt:   max(rapid.Int64Range(-9, 3).Draw(t, "debt"), 0),
				Wait:   max(rapid.Int64Range(-10, 10).Draw(t, "wait"), 0) * second,
			}
			cost := rapid.Int64Range(1, 6).Draw(t, "cost")
			var segs []Segment
			var keys []*modelKey
			var costs []int64
			for i, k := range all {
				if rapid.IntRange(0, 3).Draw(t, "in") == 0 {
					continue
				}
				if !o.AtMost {
					cost = rapid.Int64Range(-2, 6).Draw(t, "cost")
				}
				segs = append(segs, Segment{fmt.Appendf(nil, "k%d", i), k.l, cost})
				keys, costs = append(keys, k), append(costs, cost)
			}
			if segs == nil {
				continue
			}
			binding, err := s.DecideAll(now, segs, &o, out)
			require.NoError(t, err)
			want, ok := modelChain(t, keys, costs, now, o)
			require.Equal(t, ok, out[binding].OK)
			for i, k := range keys {
				got := out[i]
				if k.l.Algorithm > Leaky {
					require.Equal(t, got.OK, got.RetryAfter == 0)
					want[i].RetryAfter = got.RetryAfter
				}
				require.Equal(t, want[i], got, "%v, segment %d of %d, passes %v", k.l, i, len(segs), ok)
			}
		}
	})
}
