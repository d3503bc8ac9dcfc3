package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// modelKey is one key of a chain, by the definition of its algorithm.
type modelKey struct {
	l      algo.Limit
	bucket algotest.Bucket
	token  algo.State
	window algotest.Window
}

func newModelKey(l algo.Limit) *modelKey {
	k := &modelKey{l: l, window: algotest.Window{Limit: l}}
	if l.Algorithm <= algo.Leaky {
		k.bucket = algotest.NewBucket(l)
	}
	return k
}

// decide answers one check. The models of windows do not give RetryAfter.
func (k *modelKey) decide(t *rapid.T, now, cost int64, o algo.Options) algo.Decision {
	if k.l.Algorithm > algo.Leaky {
		return k.window.Decide(now, cost, o)
	}
	next, d, write, err := k.bucket.Decide(k.token, now, cost, o)
	require.NoError(t, err)
	if write {
		k.token = next
	}
	return d
}

// modelChain is DecideAll by its definition.
func modelChain(t *rapid.T, keys []*modelKey, costs []int64, now int64, o algo.Options) (out []algo.Decision, ok bool) {
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
			out[i] = k.decide(t, now, 0, algo.Options{Peek: true})
		case ok && !o.Peek:
			k.decide(t, now, costs[i], o)
		}
	}
	return out, ok
}

// Chains over every mixture of algorithms answer by the definition of each limit, also
// for limits that would have passed alone. They charge all limits or none.
func TestChainAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := engine.New(engine.Config{Shards: 4}).NewSession()
		defer s.Close()
		var all []*modelKey
		for range rapid.IntRange(2, 5).Draw(t, "keys") {
			l := algo.Limit{
				Algorithm: rapid.SampledFrom(eachAlgorithm).Draw(t, "algorithm"),
				Limit:     rapid.Int64Range(1, 10).Draw(t, "limit"),
				Period:    rapid.Int64Range(1, 100).Draw(t, "period") * second,
			}
			if l.Algorithm <= algo.Leaky && rapid.Bool().Draw(t, "with burst") {
				l.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
			}
			all = append(all, newModelKey(l))
		}
		now := start
		out := make([]algo.Decision, engine.MaxSegments)
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now += rapid.Int64Range(0, 20*second).Draw(t, "step")
			o := algo.Options{
				Peek:   rapid.IntRange(0, 7).Draw(t, "peek") == 0,
				AtMost: rapid.IntRange(0, 3).Draw(t, "atmost") == 0,
				Debt:   max(rapid.Int64Range(-9, 3).Draw(t, "debt"), 0),
				Wait:   max(rapid.Int64Range(-10, 10).Draw(t, "wait"), 0) * second,
			}
			cost := rapid.Int64Range(1, 6).Draw(t, "cost")
			var segs []engine.Segment
			var keys []*modelKey
			var costs []int64
			for i, k := range all {
				if rapid.IntRange(0, 3).Draw(t, "in") == 0 {
					continue
				}
				if !o.AtMost {
					cost = rapid.Int64Range(-2, 6).Draw(t, "cost")
				}
				segs = append(segs, engine.Segment{fmt.Appendf(nil, "k%d", i), k.l, cost})
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
				if k.l.Algorithm > algo.Leaky {
					require.Equal(t, got.OK, got.RetryAfter == 0)
					want[i].RetryAfter = got.RetryAfter
				}
				require.Equal(t, want[i], got, "%v, segment %d of %d, passes %v", k.l, i, len(segs), ok)
			}
		}
	})
}

func chainOf(segs ...engine.Segment) []engine.Segment { return segs }

func TestChainTakesAllOrNone(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	out := make([]algo.Decision, engine.MaxSegments)
	segs := chainOf(
		engine.Segment{[]byte("s"), algo.Limit{Limit: 10, Period: second}, 1},
		engine.Segment{[]byte("d"), algo.Limit{Algorithm: algo.Fixed, Limit: 3, Period: minute}, 1},
		engine.Segment{[]byte("l"), algo.Limit{Algorithm: algo.Log, Limit: 50, Period: minute}, 2},
	)
	for range 3 {
		binding, err := s.DecideAll(start, segs, &algo.Options{}, out)
		require.NoError(t, err)
		require.Equal(t, 1, binding, "the least remaining binds")
		require.True(t, out[binding].OK)
	}
	binding, err := s.DecideAll(start, segs, &algo.Options{}, out)
	require.NoError(t, err)
	require.Equal(t, 1, binding)
	require.False(t, out[1].OK)
	require.True(t, out[0].OK)
	require.Equal(t, int64(7), out[0].Remaining, "a denied chain takes nothing")
	require.Equal(t, int64(44), out[2].Remaining)
}

func TestChainReportsTheLongestWait(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	out := make([]algo.Decision, engine.MaxSegments)
	segs := chainOf(
		engine.Segment{[]byte("a"), algo.Limit{Limit: 1, Period: second}, 1},
		engine.Segment{[]byte("b"), algo.Limit{Limit: 1, Period: minute}, 1},
		engine.Segment{[]byte("c"), algo.Limit{Limit: 5, Period: minute}, 1},
	)
	_, err := s.DecideAll(start, segs, &algo.Options{}, out)
	require.NoError(t, err)
	binding, err := s.DecideAll(start, segs, &algo.Options{}, out)
	require.NoError(t, err)
	require.Equal(t, 1, binding)
	require.Equal(t, minute, out[binding].RetryAfter)

	segs[0].Cost = 2
	binding, err = s.DecideAll(start, segs, &algo.Options{}, out)
	require.NoError(t, err)
	require.Equal(t, 0, binding, "a wait that never ends is the longest")
}

func TestChainErrorsChangeNothing(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	out := make([]algo.Decision, engine.MaxSegments)
	l := algo.Limit{Limit: 5, Period: second}
	_, err := s.DecideAll(start, chainOf(engine.Segment{[]byte("a"), l, 1}, engine.Segment{[]byte("a"), l, 1}), &algo.Options{}, out)
	require.ErrorIs(t, err, engine.ErrDuplicateKey)
	decide(t, s, start, "w", perMinute(algo.Fixed, 1), 1, algo.Options{})
	_, err = s.DecideAll(start, chainOf(engine.Segment{[]byte("a"), l, 1}, engine.Segment{[]byte("w"), l, 1}), &algo.Options{}, out)
	require.ErrorIs(t, err, engine.ErrWrongType)
	_, err = s.DecideAll(start, make([]engine.Segment, engine.MaxSegments+1), &algo.Options{}, out)
	require.ErrorIs(t, err, engine.ErrTooManySegments)
	_, err = s.DecideAll(start, chainOf(engine.Segment{[]byte("a"), l, 1}, engine.Segment{[]byte("b"), l, 2}), &algo.Options{AtMost: true}, out)
	require.ErrorIs(t, err, engine.ErrAtMostCosts)
	require.False(t, is(s.Exists(start, []byte("a"))))
}

func TestChainAtMostGrantsWhatTheScarcestHas(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	out := make([]algo.Decision, engine.MaxSegments)
	segs := chainOf(
		engine.Segment{[]byte("a"), algo.Limit{Limit: 10, Period: minute}, 8},
		engine.Segment{[]byte("b"), algo.Limit{Algorithm: algo.Sliding, Limit: 5, Period: minute}, 8},
	)
	binding, err := s.DecideAll(start, segs, &algo.Options{AtMost: true}, out)
	require.NoError(t, err)
	require.Equal(t, int64(5), out[binding].Allowed)
	require.Equal(t, int64(5), out[0].Remaining)
	require.Equal(t, int64(0), out[1].Remaining)
	binding, err = s.DecideAll(start, segs, &algo.Options{AtMost: true}, out)
	require.NoError(t, err)
	require.Equal(t, 1, binding)
	require.False(t, out[1].OK)
	require.Equal(t, int64(5), decide(t, s, start, "a", segs[0].Limit, 0, algo.Options{}).Remaining)
}

// Transfers over random pairs of many keys, from many sessions, in both orders: nothing
// deadlocks, and the total use stays the same.
func TestChainsOverManyShardsConserveTheSum(t *testing.T) {
	e := engine.New(engine.Config{})
	l := algo.Limit{Algorithm: algo.Fixed, Align: algo.First, Limit: 1000, Period: 100 * minute}
	const keys = 32
	name := func(i int) []byte { return fmt.Appendf(nil, "account:%d", i) }
	setup := e.NewSession()
	for i := range keys {
		_, err := setup.Decide(start, name(i), l, 500, &algo.Options{})
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			s := e.NewSession()
			defer s.Close()
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			out := make([]algo.Decision, 2)
			for range 2000 {
				i, j := rnd.IntN(keys), rnd.IntN(keys)
				if i == j {
					continue
				}
				if _, err := s.DecideAll(start, chainOf(engine.Segment{name(i), l, 1}, engine.Segment{name(j), l, -1}), &algo.Options{}, out); err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for i := range keys {
		d, err := setup.Decide(start, name(i), l, 0, &algo.Options{})
		require.NoError(t, err)
		total += l.Limit - d.Remaining
	}
	require.Equal(t, int64(keys*500), total)
}

// A chain makes room first. If there is none for the last key, no key is charged and no
// key is created.
func TestChainThatFindsTheTableFullChargesNothing(t *testing.T) {
	e := engine.New(engine.Config{MaxBytes: 1 << 20, Shards: 1})
	s := e.NewSession()
	l := algo.Limit{Limit: 5, Period: minute}
	decide(t, s, start, "first", l, 1, algo.Options{})
	full := false
	filled := 0
	for ; filled < 1_000_000 && !full; filled++ {
		_, err := s.Decide(start, fmt.Appendf(nil, "fill:%08d", filled), l, 1, &algo.Options{})
		full = err != nil
		if full {
			require.ErrorIs(t, err, engine.ErrFull)
		}
	}
	require.True(t, full, "the bound holds")
	// Room for one of them.
	require.True(t, is(s.Delete(start, fmt.Appendf(nil, "fill:%08d", filled/2))))
	keys := e.Len()
	// A key whose segment need not be split for it: a split takes memory too.
	var born []byte
	for i := 0; ; i++ {
		born = fmt.Appendf(nil, "born:%08d", i)
		if _, err := s.Decide(start, born, l, 1, &algo.Options{}); err == nil {
			break
		}
	}
	require.True(t, is(s.Delete(start, born)))
	long := make([]byte, 4000)
	other := perMinute(algo.Sliding, 7)
	for _, segs := range [][]engine.Segment{
		chainOf(engine.Segment{[]byte("first"), l, 1}, engine.Segment{long, l, 1}),
		chainOf(engine.Segment{born, l, 1}, engine.Segment{[]byte("first"), l, 1}, engine.Segment{long, other, 1}),
		chainOf(engine.Segment{born, l, 1}, engine.Segment{long, l, 1}),
	} {
		_, err := s.DecideAll(start, segs, &algo.Options{}, make([]algo.Decision, 3))
		require.ErrorIs(t, err, engine.ErrFull)
		require.Equal(t, int64(4), decide(t, s, start, "first", l, 0, algo.Options{}).Remaining)
		require.False(t, is(s.Exists(start, born)), "created for a chain that failed")
		require.Equal(t, keys, e.Len())
	}
	require.True(t, decide(t, s, start, string(born), l, 1, algo.Options{}).OK, "there is room for it")
	s.Close()
	require.Equal(t, 1, e.LimitsInUse(), "the limits of the failed chain are given back")
}

// Locks are taken in one order, whatever the order of the keys: a chain that waits for
// the first shard holds no later one.
func TestShardsAreLockedInOrder(t *testing.T) {
	n := newNode(t, engine.Config{Shards: 4})
	n.r.Lead(start)
	l := perMinute(algo.Fixed, 10)
	first, last := n.keyOf(0), n.keyOf(3)
	for name, both := range map[string]func(){
		"chain": func() {
			_, _ = n.s.DecideAll(start, chainOf(engine.Segment{last, l, 1}, engine.Segment{first, l, 1}), &algo.Options{}, make([]algo.Decision, 2))
		},
		"hold": func() { step := n.s.Isolate(start, [][]byte{last, first}, 0); step.Commit() },
	} {
		sh := n.e.Table().Shard(0)
		sh.Lock()
		done, free := make(chan struct{}), make(chan struct{})
		go func() { both(); close(done) }()
		time.Sleep(20 * time.Millisecond)
		go func() {
			behind := n.e.Table().Shard(3)
			defer close(free)
			behind.Lock()
			defer behind.Unlock()
		}()
		select {
		case <-free:
		case <-time.After(5 * time.Second):
			t.Errorf("%s has locked the last shard before the first", name)
		}
		sh.Unlock()
		<-done
		<-free
	}
}

// A session that isolates keys is alone with them until the step ends.
func TestHoldKeepsOthersOut(t *testing.T) {
	e := engine.New(engine.Config{})
	l := perMinute(algo.Fixed, 10)
	s := e.NewSession()
	others := map[string]func(s *engine.Session){
		"decide": func(s *engine.Session) { _, _ = s.Decide(start, []byte("b"), l, 1, &algo.Options{}) },
		"chain": func(s *engine.Session) {
			_, _ = s.DecideAll(start, chainOf(engine.Segment{[]byte("c"), l, 1}, engine.Segment{[]byte("b"), l, 1}), &algo.Options{}, make([]algo.Decision, 2))
		},
		"hold":   func(s *engine.Session) { step := s.Isolate(start, [][]byte{[]byte("b")}, 0); step.Commit() },
		"delete": func(s *engine.Session) { s.Delete(start, []byte("b")) },
	}
	for name, other := range others {
		step := s.Isolate(start, [][]byte{[]byte("a"), []byte("b"), []byte("a")}, 0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			another := e.NewSession()
			defer another.Close()
			other(another)
		}()
		select {
		case <-done:
			t.Errorf("%s came in between", name)
		case <-time.After(20 * time.Millisecond):
		}
		decide(t, s, start, "b", l, 0, algo.Options{})
		step.Commit()
		<-done
	}
}

func TestHoldIsolatesSeveralCalls(t *testing.T) {
	e := engine.New(engine.Config{})
	l := algo.Limit{Limit: 1000, Period: minute}
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("a")}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s := e.NewSession()
			defer s.Close()
			for range 100 {
				step := s.Isolate(start, keys, 0)
				x, _ := s.Decide(start, keys[0], l, 0, &algo.Options{})
				_, _ = s.Decide(start, keys[0], l, 1, &algo.Options{})
				_, _ = s.Decide(start, keys[1], l, 1, &algo.Options{})
				y, _ := s.Decide(start, keys[0], l, 0, &algo.Options{})
				step.Commit()
				if x.Remaining != y.Remaining+1 {
					panic("somebody came in between")
				}
			}
		})
	}
	wg.Wait()
	s := e.NewSession()
	require.Equal(t, int64(600), decide(t, s, start, "b", l, 0, algo.Options{}).Remaining)
}
