package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The newest entries stay, whatever the length is changed to.
func TestSlowlogKeepsTheNewest(t *testing.T) {
	s, m := testMachine(t, Config{Runtime: Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 4}}, new(committer))
	ids := func() (out []int64) {
		for _, e := range s.slow.latest(-1) {
			out = append(out, e.id)
		}
		return out
	}
	add := func(n int) {
		for range n {
			s.slow.observe(&m.conn, s.table.Find([][]byte{[]byte("ping")}), [][]byte{[]byte("ping")}, time.Second)
		}
	}
	s.slow.reset()
	s.slow.nextID = 0
	add(3)
	require.Equal(t, []int64{2, 1, 0}, ids())
	add(3)
	require.Equal(t, []int64{5, 4, 3, 2}, ids())
	s.slow.setMaxLen(2)
	require.Equal(t, []int64{5, 4}, ids())
	add(1)
	require.Equal(t, []int64{6, 5}, ids())
	s.slow.setMaxLen(3)
	add(2)
	require.Equal(t, []int64{8, 7, 6}, ids())
	require.Equal(t, 3, s.slow.len())
	s.slow.setMaxLen(0)
	add(1)
	require.Zero(t, s.slow.len())
}

// A full slow log, however long, costs a command no more than an empty one: it
// copied all its entries for each.
func TestLongSlowlogCostsNoMore(t *testing.T) {
	const entries = 1 << 15
	s, m := testMachine(t, Config{Runtime: Runtime{SlowlogThreshold: 1, SlowlogMaxLen: entries}}, new(committer))
	cmd, args := s.table.Find([][]byte{[]byte("ping")}), [][]byte{[]byte("ping")}
	for range entries {
		s.slow.observe(&m.conn, cmd, args, time.Second)
	}
	before := allocatedBytes()
	for range 1000 {
		s.slow.observe(&m.conn, cmd, args, time.Second)
	}
	require.Less(t, allocatedBytes()-before, uint64(10<<20))
}

// The reply of SLOWLOG GET is bounded while it is written.
func TestSlowlogReplyIsBounded(t *testing.T) {
	s, addr := startServer(t, Config{OutputBufferSoft: 64 << 10, OutputBufferLimit: 1 << 20,
		Runtime: Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 1 << 12}})
	c := dial(t, addr)
	arg := fmt.Sprintf(" %0128d", 1)
	for range 1 << 12 {
		c.call("EXISTS" + arg + arg + arg + arg)
	}
	require.Equal(t, int64(1<<12), c.call("SLOWLOG LEN"))
	require.ErrorContains(t, c.call("SLOWLOG GET -1").(error), "ERR the entries exceed client-output-buffer-limit")
	require.Len(t, c.call("SLOWLOG GET 3"), 3)
	require.Zero(t, s.Stats().OutputKills)
}
