package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// cutOff returns n nodes that hold the same table and follow nobody.
func cutOff(t *testing.T, n int, l algo.Limit, key string, used int64) ([]*node, []*engine.Local) {
	nodes, locals := make([]*node, n), make([]*engine.Local, n)
	for i := range nodes {
		nodes[i] = newNode(t, engine.Config{})
		nodes[i].r.Lead(start)
		if used > 0 {
			decide(t, nodes[i].s, start, key, l, used, algo.Options{})
		}
		nodes[i].cut()
		nodes[i].l.Commit()
		nodes[i].depose()
		locals[i] = engine.NewLocal(nodes[i].e)
		locals[i].Begin(n, i)
	}
	return nodes, locals
}

// admit calls a node until it denies, and returns how many calls it admitted.
func admit(l *engine.Local, now int64, key string, limit algo.Limit) int64 {
	out := make([]algo.Decision, 1)
	for n := int64(0); ; n++ {
		_, err := l.Decide(now, []engine.Segment{{[]byte(key), limit, 1}}, &algo.Options{}, out)
		if err != nil || !out[0].OK {
			return n
		}
	}
}

func TestNodesCutFromEachOtherSpendOneBudget(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		for _, limit := range []int64{1, 2, 3, 10, 100} {
			for _, used := range []int64{0, 1, 5, 99} {
				if used > limit {
					continue
				}
				l := perMinute(a, limit)
				_, locals := cutOff(t, 3, l, "k", used)
				total := int64(0)
				for _, local := range locals {
					total += admit(local, start, "k", l)
				}
				require.LessOrEqual(t, total, limit-used, "limit %d, used %d", limit, used)
				require.Greater(t, total, limit-used-3, "limit %d, used %d: at most the rounding is lost", limit, used)
				// Half a period later no more than that has refilled, and a period
				// after that no more than the limit.
				refilled := int64(0)
				if a == algo.Token || a == algo.Leaky {
					refilled = limit / 2
				}
				for _, local := range locals {
					total += admit(local, start+minute/2, "k", l)
				}
				require.LessOrEqual(t, total, limit-used+refilled, "limit %d, used %d, half a period later", limit, used)
				again := int64(0)
				for _, local := range locals {
					again += admit(local, start+minute+minute/2, "k", l)
				}
				require.LessOrEqual(t, again, limit, "limit %d, used %d", limit, used)
			}
		}
	})
}

func TestLocalRefusesWhatItCannotAccountFor(t *testing.T) {
	l := perMinute(algo.Token, 10)
	_, locals := cutOff(t, 3, l, "k", 0)
	out := make([]algo.Decision, 1)
	_, err := locals[0].Decide(start, []engine.Segment{{[]byte("k"), l, -1}}, &algo.Options{}, out)
	require.ErrorIs(t, err, engine.ErrNotLocal)
	_, err = locals[0].Decide(start, []engine.Segment{{[]byte("k"), l, 1}}, &algo.Options{Force: true}, out)
	require.ErrorIs(t, err, engine.ErrNotLocal)
	require.Empty(t, locals[0].Take(10))
}

func TestLocalLeavesTheReplicatedTableAlone(t *testing.T) {
	l := perMinute(algo.Sliding, 30)
	nodes, locals := cutOff(t, 3, l, "k", 6)
	before := nodes[0].table(start)
	require.Equal(t, int64(8), admit(locals[0], start, "k", l))
	require.Equal(t, before, nodes[0].table(start))
}

// chargeOnce charges a batch of which nothing is lost.
func chargeOnce(t *testing.T, s *engine.Session, node string, number int64, charges []engine.Charge) {
	lost, err := s.ChargeOnce(start, node, number, charges)
	require.NoError(t, err)
	require.Zero(t, lost)
}

func TestHealingChargesOnce(t *testing.T) {
	l := perMinute(algo.Fixed, 300)
	_, locals := cutOff(t, 3, l, "k", 0)
	leader := newNode(t, engine.Config{})
	leader.r.Lead(start)
	for i, local := range locals {
		require.Equal(t, int64(100), admit(local, start, "k", l))
		charges := local.Take(10)
		require.Len(t, charges, 1)
		require.Empty(t, local.Take(10))
		for range 3 { // the answer was lost, twice
			chargeOnce(t, leader.s, fmt.Sprint("n", i), 7, charges)
		}
		chargeOnce(t, leader.s, fmt.Sprint("n", i), 6, charges)
	}
	x, ok, _ := leader.s.Explain(start, []byte("k"))
	require.True(t, ok)
	require.Equal(t, int64(300), x.Used)
	chargeOnce(t, leader.s, "n0", 8, []engine.Charge{{Key: []byte("k"), Limit: l, Units: 5}})
	x, _, _ = leader.s.Explain(start, []byte("k"))
	require.Equal(t, int64(305), x.Used, "what was admitted is a fact, beyond the limit too")
}

func TestChargeOnceAfterASeal(t *testing.T) {
	n := newNode(t, engine.Config{})
	charges := []engine.Charge{{Key: []byte("k"), Limit: perMinute(algo.Fixed, 300), Units: 5}}
	_, err := n.s.ChargeOnce(start, "n0", 7, charges)
	require.ErrorIs(t, err, engine.ErrSealed)
	n.r.Lead(start)
	chargeOnce(t, n.s, "n0", 7, charges)
	n.depose()
	_, err = n.s.ChargeOnce(start, "n0", 8, charges)
	require.ErrorIs(t, err, engine.ErrSealed)
}

// A charge that fails does not prevent the others of its batch.
func TestChargeOncePassesOverWhatHasNoRoom(t *testing.T) {
	l := perMinute(algo.Fixed, 300)
	s := newTestSession(t, engine.Config{MaxBytes: 1 << 20})
	decide(t, s, start, "k", l, 1, algo.Options{})
	chargeOnce(t, s, "n0", 1, nil)
	large := func(i int) []byte { return append(make([]byte, 60<<10), fmt.Sprint(i)...) }
	full := 0
	for {
		if _, err := s.Decide(start, large(full), l, 1, &algo.Options{}); err != nil {
			require.ErrorIs(t, err, engine.ErrFull)
			break
		}
		full++
	}
	lost, err := s.ChargeOnce(start, "n0", 2, []engine.Charge{
		{Key: large(full), Limit: l, Units: 5},
		{Key: []byte("k"), Limit: l, Units: algo.MaxCount},
		{Key: []byte("k"), Limit: perMinute(algo.Token, 300), Units: 5},
		{Key: []byte("k"), Limit: l, Units: 5},
	})
	require.NoError(t, err)
	require.Equal(t, 3, lost)
	x, _, _ := s.Explain(start, []byte("k"))
	require.Equal(t, int64(6), x.Used)
}

func TestLocalChains(t *testing.T) {
	s, d := perMinute(algo.Token, 30), perMinute(algo.Fixed, 9)
	_, locals := cutOff(t, 3, d, "d", 3)
	out := make([]algo.Decision, 2)
	passed := 0
	for range 20 {
		binding, err := locals[1].Decide(start, chainOf(engine.Segment{[]byte("s"), s, 1}, engine.Segment{[]byte("d"), d, 1}), &algo.Options{}, out)
		require.NoError(t, err)
		if out[binding].OK {
			passed++
		}
	}
	require.Equal(t, 2, passed, "a third of what was left of the daily limit")
	require.Len(t, locals[1].Take(10), 2)
}

// A key whose callers use several limits by turns is remembered once for each.
func TestLocalRemembersEachLimitOfAKeyOnce(t *testing.T) {
	l, other := perMinute(algo.Fixed, 300), perMinute(algo.Fixed, 600)
	_, locals := cutOff(t, 3, l, "k", 0)
	out := make([]algo.Decision, 1)
	for i := range 40 {
		_, err := locals[0].Decide(start, []engine.Segment{{[]byte("k"), []algo.Limit{l, other}[i%2], 1}}, &algo.Options{}, out)
		require.NoError(t, err)
		require.True(t, out[0].OK)
	}
	require.Equal(t, []engine.Charge{{Key: []byte("k"), Limit: l, Units: 20}, {Key: []byte("k"), Limit: other, Units: 20}}, locals[0].Take(100))
}

// If a node's memory for local decisions is full, the error is that of any key that it
// cannot decide on. The table that clients know has room.
func TestLocalWithoutMemory(t *testing.T) {
	l := perMinute(algo.Token, 30)
	_, locals := cutOff(t, 3, l, "k", 0)
	locals[0].Overlay().SetMemory(1, false)
	out := make([]algo.Decision, 1)
	_, err := locals[0].Decide(start, []engine.Segment{{[]byte("k"), l, 1}}, &algo.Options{}, out)
	require.ErrorIs(t, err, engine.ErrNotLocal)
}

// A cost above a node's share waits for a leader, where it may pass later. A cost above
// the whole limit is denied for good, with and without a leader.
func TestLocalCostsAboveTheShare(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		l := perMinute(a, 30)
		_, locals := cutOff(t, 3, l, "k", 0)
		out := make([]algo.Decision, 2)
		for _, c := range []struct {
			cost  int64
			o     algo.Options
			never bool
			err   error
		}{
			{cost: 10},
			{cost: 11, err: engine.ErrNotLocal},
			{cost: 30, err: engine.ErrNotLocal},
			{cost: 30, o: algo.Options{Peek: true}, err: engine.ErrNotLocal},
			{cost: 31, never: true},
			{cost: 35, o: algo.Options{Debt: 5}, err: engine.ErrNotLocal},
			{cost: 36, o: algo.Options{Debt: 5}, never: true},
		} {
			_, err := locals[0].Decide(start, []engine.Segment{{[]byte("k"), l, c.cost}}, &c.o, out)
			require.ErrorIs(t, err, c.err, "cost %d", c.cost)
			if err == nil {
				require.Equal(t, c.never, out[0].RetryAfter == algo.Never, "cost %d", c.cost)
			}
			chain := chainOf(engine.Segment{[]byte("other"), l, 0}, engine.Segment{[]byte("chained"), l, c.cost})
			_, err = locals[0].Decide(start, chain, &c.o, out)
			require.ErrorIs(t, err, c.err, "cost %d in a chain", c.cost)
		}
		require.Len(t, locals[0].Take(10), 2, "the cost of 10, alone and in a chain")
	})
}

func TestAKindWithoutSharesIsNotDecidedLocally(t *testing.T) {
	l := engine.NewLocal(engine.New(engine.Config{}))
	l.Begin(3, 0)
	for _, a := range []algo.Algorithm{algo.Slots, algo.PolicySlots, algo.Counter, algo.PolicySlots + 1} {
		out := make([]algo.Decision, 1)
		_, err := l.Decide(start, chainOf(engine.Segment{[]byte("k"), algo.Limit{Algorithm: a, Limit: 9}, 1}), &algo.Options{}, out)
		require.ErrorIs(t, err, engine.ErrNotLocal, a)
	}
}
