package cluster

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

// Decisions from before a handover are committed before commands begin to wait
// for it.
func TestHandoverCommitsBeforeCommandsWait(t *testing.T) {
	t.Parallel()
	l := leading(t, open(t, 3))
	l.node.stop() // nobody looks for effects any more
	l.take(t, 1)
	ticket := l.Ticket()
	committed := false
	l.front.batches = func() { committed = l.ledger.Settled() >= ticket }
	require.NoError(t, l.Handover(t.Context(), ""))
	require.True(t, committed)
}

// Before a handover all nodes have connections to the next leader.
func TestConnectionsToTheNextLeader(t *testing.T) {
	t.Parallel()
	rigs := openGroups(t, 3, 1, homeAfter, patient)[0]
	l := leading(t, rigs)
	var next, third *rig
	for _, r := range rigs {
		if r != l {
			next, third = r, next
		}
	}
	ready := func(r *rig) int {
		r.streams.mu.Lock()
		defer r.streams.mu.Unlock()
		return len(r.streams.ahead)
	}
	third.streams.use(nil)
	require.Eventually(t, func() bool { // a busy machine may not have time for all of them
		l.prepare(t.Context(), prepareArgs{Next: next.node.cfg.NodeID})
		return ready(l) == leastAhead && ready(third) == leastAhead
	}, waitLimit, waitTick)
	require.Zero(t, ready(next))
	for _, r := range rigs {
		require.Positive(t, r.front.noted.Load(), "what is under way waits for the outcome")
	}
	c, err := third.DialLeader(t.Context())
	require.NoError(t, err)
	require.Equal(t, leastAhead, ready(third), "they are for another node")
	require.NoError(t, c.Close())
	_ = c.Close() // counts once

	noted := l.front.noted.Load()
	require.NoError(t, l.Handover(t.Context(), next.node.cfg.NodeID))
	require.Same(t, next, leading(t, rigs))
	require.Equal(t, noted+1, l.front.noted.Load(), "it prepares, too")
	for _, r := range []*rig{l, third} {
		r.dialAhead(t.Context(), next.node.cfg.Listener.Addr().String())
		for left := leastAhead - 1; left >= 0; left-- {
			c, err := r.DialLeader(t.Context())
			require.NoError(t, err)
			defer c.Close()
			require.Equal(t, left, ready(r))
		}
		c, err := r.DialLeader(t.Context())
		require.NoError(t, err, "and more are made")
		defer c.Close()
	}
	require.Equal(t, 6, third.streams.wanted(), "as many as it has")
	third.streams.keep("", []net.Conn{c}, 0)
	require.Eventually(t, func() bool { return ready(third) == 0 }, waitLimit, waitTick, "unless nobody takes them")

	_, err = third.prepared(t.Context(), json.RawMessage(`{"next":"nobody"}`))
	require.NoError(t, err)
	_, err = third.prepared(t.Context(), json.RawMessage(`[]`))
	require.ErrorContains(t, err, opPrepare)
	require.Equal(t, partition.Following, third.Role())
}

// All groups of a node together make a few connections to a node at a time. A node that does
// not answer holds up no connection to another node.
func TestFewConnectionsAreMadeAtOnce(t *testing.T) {
	t.Parallel()
	var hang atomic.Bool
	var now, most atomic.Int32
	all := openGroups(t, 3, 3, homeAfter, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if !hang.Load() {
				return dial(ctx, addr)
			}
			n := now.Add(1)
			defer now.Add(-1)
			for {
				if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	var groups []*rig
	leader := leading(t, all[0])
	from := all[0][0]
	if from == leader {
		from = all[0][1]
	}
	for _, g := range all {
		leading(t, g)
		for _, r := range g {
			if r.node == from.node && r.Role() == partition.Following {
				groups = append(groups, r)
			}
		}
	}
	hang.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 60 {
		for _, r := range groups {
			wg.Go(func() {
				_, err := r.DialLeader(ctx)
				assert.Error(t, err)
			})
		}
	}
	wg.Wait()
	hang.Store(false)
	// Each of the two other nodes, and a few of Raft and of the polls.
	require.Less(t, most.Load(), int32(2*dialsAtOnce+40))
}
