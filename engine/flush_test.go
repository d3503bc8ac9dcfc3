package engine_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/effects/effectstest"
)

// fill charges keys 0..n-1 one unit each.
func (n *node) fill(t *testing.T, keys int) {
	for i := range keys {
		decide(t, n.s, start, fmt.Sprint("k", i), perMinute(algo.Fixed, 100), 1, algo.Options{})
	}
}

func TestAFlushIsOneRecord(t *testing.T) {
	for _, shards := range []int{1, 256} {
		leader, follower := newNode(t, engine.Config{Shards: shards}), newNode(t, engine.Config{Shards: 4})
		leader.r.Lead(start)
		leader.fill(t, 3000)
		require.NoError(t, follower.r.Apply(leader.cut(), start))
		require.NoError(t, leader.s.Flush())
		require.Zero(t, leader.e.Len())
		parts := leader.cut()
		require.Equal(t, flushPayload(), parts)
		require.NoError(t, follower.r.Apply(parts, start))
		require.Zero(t, follower.e.Len())
		require.Nil(t, leader.cut(), "once")
	}
}

// What a session decides in one step with a flush is in one cut with it: the cut
// waits for the step's end.
func TestAFlushIsInOneCutWithItsStep(t *testing.T) {
	n := newNode(t, engine.Config{Shards: 4})
	n.r.Lead(start)
	l := perMinute(algo.Fixed, 100)
	decide(t, n.s, start, "before", l, 1, algo.Options{})
	step := n.s.Join()
	decide(t, n.s, start, "a", l, 1, algo.Options{})
	require.NoError(t, n.s.Flush())
	decide(t, n.s, start, "b", l, 1, algo.Options{})
	cut := make(chan [][]byte, 1)
	go func() { cut <- n.cut() }()
	select {
	case <-cut:
		t.Fatal("cut in the middle of a step")
	case <-time.After(50 * time.Millisecond):
	}
	segs := chainOf(engine.Segment{[]byte("c"), l, 1}, engine.Segment{[]byte("d"), l, 1})
	_, err := n.s.DecideAll(start, segs, &algo.Options{}, make([]algo.Decision, 2))
	require.NoError(t, err)
	step.Commit()
	parts := <-cut
	require.Len(t, parts, 1)
	list, flushes := effectstest.Read(t, parts[0])
	require.Equal(t, 1, flushes)
	keys := make(map[string]bool)
	for _, ef := range list {
		require.True(t, ef.Present)
		keys[ef.Key] = true
	}
	require.Equal(t, map[string]bool{"b": true, "c": true, "d": true}, keys)
}

// An uncommitted flush is taken back with the decisions before and after it. It is in no
// snapshot, not even while it is taken back.
func TestAFlushIsUndone(t *testing.T) {
	for name, flushes := range map[string]func(n *node){
		"dirty":     func(n *node) { require.NoError(t, n.s.Flush()) },
		"in flight": func(n *node) { require.NoError(t, n.s.Flush()); n.cut() },
		"twice":     func(n *node) { require.NoError(t, n.s.Flush()); n.fill(t, 50); require.NoError(t, n.s.Flush()) },
		"both": func(n *node) {
			require.NoError(t, n.s.Flush())
			n.fill(t, 50)
			n.cut()
			n.fill(t, 60)
			require.NoError(t, n.s.Flush())
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, restored := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{})
			n.r.Lead(start)
			n.e.Clock().Set(start)
			n.fill(t, 200) // of which some are not touched again
			// Many keys go before the flush and come back after it, which moves the
			// others about.
			const gone = 3000
			for i := range gone {
				decide(t, n.s, start, fmt.Sprint("gone", i), perMinute(algo.Fixed, 100), 1, algo.Options{})
			}
			n.cut()
			n.l.Commit()
			before, bytesBefore := n.table(start), n.e.Stats().Bytes
			n.fill(t, 110)
			for i := range gone {
				require.True(t, is(n.s.Delete(start, fmt.Appendf(nil, "gone%d", i))))
			}
			n.reap(start)
			n.cut()
			n.fill(t, 120)
			flushes(n)
			n.fill(t, 30)

			var snap bytes.Buffer
			require.NoError(t, n.r.Snapshot().Persist(&snap))
			require.NoError(t, restored.r.Restore(&snap, start))
			require.Equal(t, before, restored.table(start), "snapshot")

			const held = 2
			n.e.Table().Shard(held).Lock()
			deposed := n.deposing(t)
			require.NoError(t, restored.r.Restore(bytes.NewReader([]byte{0}), start))
			persist := func(i int) {
				require.NoError(t, restored.r.Apply(n.r.CommittedOf(i, start), start))
			}
			require.Eventually(t, func() bool { return n.r.Undone() == held }, 10*time.Second, time.Millisecond)
			for i := range held {
				persist(i)
			}
			n.e.Table().Shard(held).Unlock()
			<-deposed
			for i := held; i < n.e.Table().Shards(); i++ {
				persist(i)
			}
			require.Equal(t, before, restored.table(start), "snapshot while deposing")
			require.Equal(t, before, n.table(start))
			require.Less(t, n.e.Stats().Bytes, 2*bytesBefore, "accounted once")
			n.r.Lead(start)
			n.fill(t, 230)
			require.NotNil(t, n.cut(), "and goes on")
			require.Equal(t, gone+230, n.e.Len())
		})
	}
}

// The limits of flushed keys are forgotten once the flush is committed, and not
// before.
func TestAFlushGivesLimitsBack(t *testing.T) {
	n, follower := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 4})
	n.r.Lead(start)
	const keys = 5000
	for i := range int64(keys) {
		decide(t, n.s, start, fmt.Sprint("k", i), numbered(i), 1, algo.Options{})
	}
	require.NoError(t, follower.r.Apply(n.cut(), start))
	n.l.Commit()
	decide(t, n.s, start, "k7", numbered(keys), 1, algo.Options{Force: true})
	require.NoError(t, n.s.Flush())
	parts := n.cut()
	n.e.CollectLimits()
	n.e.CollectLimits()
	require.Equal(t, keys+1, n.e.Stats().Limits)
	n.l.Commit()
	require.NoError(t, follower.r.Apply(parts, start))
	for _, n := range []*node{n, follower} {
		require.Eventually(t, func() bool {
			n.e.CollectLimits()
			return n.e.Stats().Limits <= engine.RuleCacheSize+1
		}, 10*time.Second, time.Millisecond)
	}
}

// flushPayload is the effects of a flush alone.
func flushPayload() [][]byte {
	enc := effects.NewEncoder(nil, effects.FirstFormats, 1<<10, 0)
	enc.Flush()
	return enc.Finish()
}
