package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
)

// The charged batches of nodes are not keys: nobody sees, flushes, deletes or evicts
// them. A repeated batch is charged once, whatever users do.
func TestUsersCannotReachWhatNodesWereCharged(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	charges := []engine.Charge{{Key: []byte("k"), Limit: perMinute(algo.Fixed, 300), Units: 5}}
	harms := map[string]func(t *testing.T, n *node){
		"flush": func(t *testing.T, n *node) { require.NoError(t, n.s.Flush()) },
		"eviction": func(t *testing.T, n *node) {
			n.e.SetMemory(256<<10, true)
			for i := range 20_000 {
				_, err := n.s.Decide(start, fmt.Appendf(nil, "flood:%d", i), perMinute(algo.Fixed, 2), 2, &algo.Options{})
				require.NoError(t, err)
			}
		},
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, engine.Config{Shards: 1})
			n.r.Lead(start)
			chargeOnce(t, n.s, "n0", 7, charges)
			require.Equal(t, 1, n.e.Len(), "the key that was charged")
			harm(t, n)
			n.s.Delete(start, []byte("k"))
			chargeOnce(t, n.s, "n0", 7, charges)
			require.False(t, is(n.s.Exists(start, []byte("k"))), "charged again")
		})
	}
}

func TestDigestCoversSystemRecords(t *testing.T) {
	a, b := newNode(t, engine.Config{}), newNode(t, engine.Config{})
	a.r.Lead(start)
	empty := a.e.Digest(start)
	chargeOnce(t, a.s, "n0", 7, nil)
	require.NotEqual(t, empty.Sum, a.e.Digest(start).Sum)
	require.Zero(t, a.e.Digest(start).Keys)
	require.NoError(t, b.r.Apply(a.cut(), start))
	require.Equal(t, a.e.Digest(start), b.e.Digest(start))
	chargeOnce(t, a.s, "n0", 8, nil)
	require.NotEqual(t, b.e.Digest(start).Sum, a.e.Digest(start).Sum)
	a.depose()
	require.Equal(t, empty.Sum, a.e.Digest(start).Sum, "nothing was committed")
}

// A deposed leader has not charged an uncommitted batch: the next one charges it.
func TestDeposeTakesBackChargedNumbers(t *testing.T) {
	charges := []engine.Charge{{Key: []byte("k"), Limit: perMinute(algo.Fixed, 300), Units: 5}}
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	chargeOnce(t, n.s, "n0", 6, charges)
	n.cut()
	n.l.Commit()
	chargeOnce(t, n.s, "n0", 7, charges)
	n.cut()
	chargeOnce(t, n.s, "n0", 8, charges)
	var snap bytes.Buffer
	require.NoError(t, n.r.Snapshot().Persist(&snap))
	n.depose()
	restored := newNode(t, engine.Config{})
	restored.r.Lead(start)
	chargeOnce(t, restored.s, "other", 1, nil)
	require.NotNil(t, restored.cut())
	restored.l.Commit()
	restored.depose()
	require.NotEmpty(t, restored.table(start))
	require.NoError(t, restored.r.Restore(&snap, start))
	require.Equal(t, n.table(start), restored.table(start))
	for _, n := range []*node{n, restored} {
		n.r.Lead(start)
		chargeOnce(t, n.s, "n0", 6, charges)
		chargeOnce(t, n.s, "n0", 7, charges)
		x, _, _ := n.s.Explain(start, []byte("k"))
		require.Equal(t, int64(10), x.Used)
	}
}

// The numbers of nodes that nobody has charged for a month, or of too many, are
// forgotten.
func TestChargedNodesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	now := start
	for i := range 3 * engine.ChargedNodes {
		_, err := n.s.ChargeOnce(now, fmt.Sprint("n", i), 1, nil)
		require.NoError(t, err)
		now += second
		require.LessOrEqual(t, len(n.table(now)), engine.ChargedNodes)
	}
	require.NotContains(t, n.table(now), fmt.Sprintf("system record %d of n%d", effects.SystemCharged, 2*engine.ChargedNodes-1))
	require.Contains(t, n.table(now), fmt.Sprintf("system record %d of n%d", effects.SystemCharged, 2*engine.ChargedNodes))
	_, err := n.s.ChargeOnce(now+30*24*60*minute, "late", 1, nil)
	require.NoError(t, err)
	require.Len(t, n.table(now), 1)
	_, err = n.s.ChargeOnce(now, strings.Repeat("n", effects.MaxSystemName+1), 1, nil)
	require.ErrorIs(t, err, engine.ErrSystemName)
}
