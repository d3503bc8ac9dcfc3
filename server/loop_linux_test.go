package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

// An idle loop is in no batch, which a handover would wait for.
func TestIdleTicksEndTheirBatch(t *testing.T) {
	s, _ := replicatedMachine(t, newFakeCluster(partition.Leading), Config{})
	lp, err := s.newLoop()
	require.NoError(t, err)
	for range 3 {
		lp.tick(true)
		require.Zero(t, lp.lane.beat.Load()&1)
	}
	lp.stop()
	lp.run()
}

// The first loop keeps its processor while other nodes send commands, and lets
// it go when none has for a moment.
func TestTheFirstLoopStaysAwakeWhileNodesSend(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{IOThreads: 2})
	require.True(t, leader.loops[0].first)
	require.False(t, leader.loops[1].first)
	lp, err := leader.newLoop()
	require.NoError(t, err)
	c := dial(t, leader.forward)
	for range 3 {
		c.do("PING", "+PONG\r\n")
		require.False(t, lp.wakeful(), "it is not the first")
		lp.first = true
		require.True(t, lp.wakeful())
		require.False(t, lp.wakeful(), "nothing has come since")
		lp.first = false
	}
	lp.stop()
	lp.run()
}

// A loop keeps the frames that were answered for later commands, of other
// connections too, unless they hold on to much.
func TestFramesAreUsedAgain(t *testing.T) {
	_, follower := pairOfNodes(t, Config{}, Config{ForwardTimeout: patience, IOThreads: 1})
	spare := func() (n, largest int) {
		done := make(chan struct{})
		l := follower.loops[0].lane
		l.post(nil, func() {
			n = len(l.frames)
			for _, f := range l.frames {
				largest = max(largest, f.Footprint())
			}
			close(done)
		})
		<-done
		return n, largest
	}
	a, b := dial(t, follower.addr), dial(t, follower.addr)
	for i := 1; i <= 5; i++ {
		a.do("INCREX a BYINT 2", fmt.Sprintf("*2\r\n:%d\r\n:2\r\n", 2*i))
		b.do("INCREX b", fmt.Sprintf("*2\r\n:%d\r\n:1\r\n", i))
		a.do("MULTI", "+OK\r\n")
		a.do("INCREX a BYINT 0", "+QUEUED\r\n")
		a.do("EXEC", fmt.Sprintf("*1\r\n*2\r\n:%d\r\n:0\r\n", 2*i))
	}
	n, _ := spare()
	require.Equal(t, 1, n)
	b.send(strings.Repeat("TTL b\r\n", 4000))
	b.expect(strings.Repeat(":-1\r\n", 4000))
	_, largest := spare()
	require.LessOrEqual(t, largest, frameKept, "a large one is not kept")
}
