package raftlog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/boottime"
	"github.com/headgate-io/headgate/raftlog/clock"
)

// rebooted makes a node's saved clock one of an earlier boot of its machine, at
// which its wall clock was slow by so much.
func (n *testNode) rebooted(slow time.Duration) {
	n.saved(func(s *clock.Saved) {
		s.BootID = "an earlier boot"
		s.Wall -= int64(slow)
	})
}

func (n *testNode) saved(change func(*clock.Saved)) {
	t := n.c.t
	path := filepath.Join(n.cfg.dir(), clock.FileName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var s clock.Saved
	require.NoError(t, json.Unmarshal(b, &s))
	change(&s)
	b, err = json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o644))
}

// stopped runs a cluster for a moment, stops all its nodes, and returns what
// its clock was then, by the test's own.
func stopped(t *testing.T, size int) (c *testCluster, ahead time.Duration) {
	c = newCluster(t, size, nil)
	c.leader().set("a", "1")
	c.converge()
	for _, n := range c.nodes {
		waitFor(t, "the clock is saved", func() bool { _, ok := n.g.clocks.Last(); return ok })
	}
	l := c.leader()
	ahead = l.aheadOfWall()
	for _, n := range c.nodes {
		n.crash()
	}
	for _, n := range c.nodes {
		n.g.saveClock() // as a second later
	}
	return c, ahead
}

// aheadOfWall is how far the cluster clock is ahead of the wall clock, on the
// leader.
func (n *testNode) aheadOfWall() time.Duration {
	return time.Duration(n.m.Now() - time.Now().UnixNano())
}

// A restart of all processes costs the clock a millisecond, whatever has been
// done to the wall clocks meanwhile.
func TestRestartGoesByTheTimeSinceBoot(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		c, before := stopped(t, size)
		for _, n := range c.nodes {
			n.saved(func(s *clock.Saved) { s.Wall -= int64(time.Hour) }) // slow by an hour then
		}
		for _, n := range c.nodes {
			n.start()
		}
		l := c.leader()
		moved := l.aheadOfWall() - before
		require.LessOrEqual(t, moved, time.Millisecond)
		require.Greater(t, moved, -10*time.Second, "what entries and answers have travelled, on a busy machine")
		require.False(t, l.g.Status().ClockUnset)
	}
}

// After a reboot of all machines, the wall clocks that agree count, also if one
// of three is dead. The leader's, which was put right by an hour, does not.
func TestRebootGoesByWhatAMajoritySaved(t *testing.T) {
	t.Parallel()
	for name, up := range map[string][]int{"all": {0, 1, 2}, "one dead": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, before := stopped(t, 3)
			for i, n := range c.nodes {
				slow := time.Duration(0)
				if i == 0 {
					slow = time.Hour
				}
				n.rebooted(slow)
			}
			for _, i := range up {
				c.nodes[i].start()
			}
			l := c.leader()
			require.InDelta(t, before, l.aheadOfWall(), float64(time.Second))
			if len(up) == 3 {
				c.nodes[0].lead()
				require.InDelta(t, before, c.nodes[0].aheadOfWall(), float64(time.Second))
			}
			require.False(t, l.g.Status().ClockUnset)
		})
	}
}

// If an hour of rest looks like an hour's repair, no limit refills, and the
// operator is asked.
func TestRebootWithoutAgreementAsksForSetClock(t *testing.T) {
	t.Parallel()
	for name, up := range map[string][]int{"two of three": {0, 1}, "the only node": {0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := 3
			if len(up) == 1 {
				size = 1
			}
			c, before := stopped(t, size)
			c.nodes[0].rebooted(time.Hour)
			for _, n := range c.nodes[1:] {
				n.rebooted(0)
			}
			time.Sleep(1200 * time.Millisecond) // what the clock loses, above what a leader slews
			for _, i := range up {
				c.nodes[i].start()
			}
			l := c.leader()
			require.Less(t, l.aheadOfWall()-before, -time.Second, "time spent down does not count")
			require.True(t, l.g.Status().ClockUnset)
			for _, i := range up {
				waitFor(t, "all say so", func() bool { return c.nodes[i].g.Status().ClockUnset })
			}
			if len(up) > 1 { // and the next leader, who keeps the clock
				require.NoError(t, l.g.Transfer(testContext(t), ""))
				l = c.leader(l)
				require.True(t, l.g.Status().ClockUnset)
			}
			for _, i := range up { // and all of them, when their processes are started again
				waitFor(t, "it is saved", func() bool { s, _ := c.nodes[i].g.clocks.Last(); return s.Unset })
				c.nodes[i].crash()
			}
			for _, i := range up {
				c.nodes[i].start()
			}
			l = c.leader()
			require.True(t, l.g.Status().ClockUnset)
			l.m.mu.Lock()
			l.m.base -= int64(l.m.aheadLocked()) // set-clock
			l.m.mu.Unlock()
			for _, i := range up {
				waitFor(t, "the alarm ends", func() bool { return !c.nodes[i].g.Status().ClockUnset })
				waitFor(t, "so it is saved", func() bool { s, _ := c.nodes[i].g.clocks.Last(); return !s.Unset })
			}
		})
	}
}

// aheadLocked is how far the clock is ahead of wall time. Must be called with
// mu held.
func (m *mapMachine) aheadLocked() time.Duration {
	return time.Duration(m.base + int64(time.Since(m.since)) - time.Now().UnixNano())
}

// A node that has heard nobody since its start uses the clock that the others
// keep, not its own clocks.
func TestARestartedNodeAsks(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	l.m.mu.Lock()
	l.m.base += int64(time.Hour) // as by set-clock, an hour ahead of what any node has saved
	l.m.mu.Unlock()
	l.set("b", "2")
	c.converge()
	before := l.aheadOfWall()
	f := l.other(1)
	file, err := clock.Open(t.TempDir(), nil, c.log)
	require.NoError(t, err)
	require.NoError(t, file.Save(l.m.Now()-int64(2*time.Hour), 1, false))
	for name, known := range map[string]*clock.Bound{
		"nothing":       nil,
		"what it saved": file.Bound(),
	} {
		waitFor(t, name, func() bool {
			f.g.fsm.bound.Store(known)
			f.g.resumeClock(testContext(t), always)
			return f.g.keeper.resumed.Load() != nil // else an entry came meanwhile
		})
		require.True(t, f.g.keeper.resumed.Load().known)
		after := time.Duration(f.g.resumed() - time.Now().UnixNano())
		require.LessOrEqual(t, after, before+time.Millisecond, name)
		require.Greater(t, after, before-10*time.Second, "what entries and answers have travelled, on a busy machine; it knew "+name)
	}
}

// A node that is killed as soon as it has begun to serve has saved the clock by
// then.
func TestTheClockIsSavedBeforeItServes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	s, ok := n.g.clocks.Last()
	require.True(t, ok)
	require.Equal(t, boottime.ID(), s.BootID)
	require.InDelta(t, n.m.Now()-boottime.Now(), s.Clock-s.Boot, float64(time.Second))
}
