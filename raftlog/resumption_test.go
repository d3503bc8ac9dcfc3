package raftlog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/internal/boottime"
)

func TestResume(t *testing.T) {
	const (
		last = int64(1_000_000 * time.Second)
		hour = int64(time.Hour)
		now  = last + hour // what an hour later is
		none = last        // the clock goes on from its last value
	)
	// saved is a node whose wall clock was slow when it saved, and is now slow by as much or something else.
	saved := func(slow, slowNow int64) ClockReport {
		return ClockReport{Saved: true, Offset: slow, SavedWall: last - slow, Wall: now - slowNow}
	}
	right, repaired, slow := saved(0, 0), saved(hour, 0), saved(hour, hour)
	set := saved(0, hour+int64(time.Second)) // back, while it was down
	kept := func(term uint64, clock int64) ClockReport {
		return ClockReport{Kept: true, Term: term, Now: clock, Saved: true, Offset: 5 * hour, SavedWall: last, Wall: now}
	}
	lost := ClockReport{Wall: now}
	for _, c := range []struct {
		name    string
		reports []ClockReport
		voters  int
		want    int64
		told    bool
	}{
		{"one has kept it", []ClockReport{right, kept(3, now-7), right}, 3, now - 7, true},
		{"two have: the closest bound", []ClockReport{kept(3, now-7), kept(3, now-5)}, 3, now - 5, true},
		{"the latest leader's", []ClockReport{kept(3, now), kept(4, now-20)}, 3, now - 20, true},
		{"never behind the log", []ClockReport{kept(3, last-1)}, 1, last, true},

		{"three, right", []ClockReport{right, right, right}, 3, now, true},
		{"two of three, one dead", []ClockReport{right, right}, 3, now, true},
		{"one of three knows its own clock only", []ClockReport{right}, 3, none, false},
		{"this node's was put right by an hour", []ClockReport{repaired, right, right}, 3, now, true},
		{"one of two that answer was put right", []ClockReport{right, repaired}, 3, none, false},
		{"an hour slow before and after, but alone", []ClockReport{slow, right}, 3, none, false},
		{"an hour slow before and after, all", []ClockReport{slow, slow, slow}, 3, now, true},
		{"one has lost its file", []ClockReport{lost, right, right}, 3, now, true},
		{"two have", []ClockReport{lost, lost, right}, 3, none, false},
		{"one was set back", []ClockReport{set, right}, 3, none, false},
		{"one was set ahead", []ClockReport{saved(0, -hour), right}, 3, none, false},
		{"one was set ahead, and two were not", []ClockReport{saved(0, -hour), right, right}, 3, now, true},
		{"one was wrong, and is wrong by something else", []ClockReport{repaired, right}, 3, none, false},
		{"all differ", []ClockReport{saved(-hour, -hour), right, slow}, 3, none, false},
		{"three of five", []ClockReport{right, repaired, right, slow, right}, 5, now, true},
		{"two of four are no majority", []ClockReport{right, right, repaired, repaired}, 4, none, false},
		{"the earliest of those that agree", []ClockReport{saved(int64(time.Second), 0), right, right}, 3, now, true},

		{"the only node", []ClockReport{right}, 1, now, true},
		{"the only node, an hour from its wall clock", []ClockReport{repaired}, 1, none, false},
		{"the only node, set back", []ClockReport{set}, 1, none, false},
		{"the only node, set back, and saved since the log's last", []ClockReport{{Saved: true, SavedWall: now + 1, Wall: now}}, 1, none, false},
		{"the only node, behind its log", []ClockReport{{Saved: true, SavedWall: last - hour, Wall: last - 1}}, 1, none, false},
		{"the only node, without its file", []ClockReport{lost}, 1, none, false},
	} {
		got, told := resume(c.reports, c.voters, last)
		require.Equal(t, c.told, told, c.name)
		require.Equal(t, time.Duration(c.want-last), time.Duration(got-last), c.name)
	}
}

// As long as a majority of the voters have wall clocks that were right and still are, those of the others, however wrong,
// and whoever answers, the clock is wrong by no more than wall clocks may differ, or not told at all.
func TestResumeTrustsNoMinority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const last = int64(1_000_000 * time.Second)
		now := last + rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "down")
		voters := rapid.IntRange(2, 7).Draw(t, "voters")
		wrong := rapid.IntRange(0, (voters-1)/2).Draw(t, "wrong")
		var reports []ClockReport
		answered := 0
		for i := range voters {
			if answered > voters/2 && rapid.Bool().Draw(t, "dead") {
				continue
			}
			answered++
			r := ClockReport{Saved: true, SavedWall: last, Wall: now}
			if i < wrong {
				hours := rapid.SampledFrom([]int64{-1, 0, 1})
				r.Offset = hours.Draw(t, "slow then") * int64(time.Hour)
				r.SavedWall -= r.Offset
				r.Wall -= hours.Draw(t, "slow now") * int64(time.Hour)
				r.Saved = rapid.Bool().Draw(t, "saved")
			} else {
				off := rapid.Int64Range(-clockAgreement/4, clockAgreement/4)
				r.Offset += off.Draw(t, "off then")
				r.Wall += off.Draw(t, "off now")
			}
			reports = append(reports, r)
		}
		got, told := resume(rapid.Permutation(reports).Draw(t, "order"), voters, last)
		require.LessOrEqual(t, got, now+2*clockAgreement)
		if told {
			require.GreaterOrEqual(t, got, now-2*clockAgreement)
		} else {
			require.Equal(t, last, got)
		}
	})
}

// rebooted makes a node's saved clock one of an earlier boot of its machine, at which its wall clock was slow by so much.
func (n *testNode) rebooted(slow time.Duration) {
	n.saved(func(s *savedClock) {
		s.BootID = "an earlier boot"
		s.Wall -= int64(slow)
	})
}

func (n *testNode) saved(change func(*savedClock)) {
	t := n.c.t
	path := filepath.Join(n.cfg.dir(), "clock.json")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var s savedClock
	require.NoError(t, json.Unmarshal(b, &s))
	change(&s)
	b, err = json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o644))
}

// stopped runs a cluster for a moment, stops all its nodes, and returns what its clock was then, by the test's own.
func stopped(t *testing.T, size int) (c *testCluster, ahead time.Duration) {
	c = newCluster(t, size, nil)
	c.leader().set("a", "1")
	c.converge()
	for _, n := range c.nodes {
		waitFor(t, "the clock is saved", func() bool { _, ok := n.g.clocks.last(); return ok })
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

// aheadOfWall is how far the cluster clock is ahead of the wall clock, on the leader.
func (n *testNode) aheadOfWall() time.Duration {
	return time.Duration(n.m.Now() - time.Now().UnixNano())
}

// A restart of all processes costs the clock a millisecond, whatever has been done to the wall clocks meanwhile.
func TestRestartGoesByTheTimeSinceBoot(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		c, before := stopped(t, size)
		for _, n := range c.nodes {
			n.saved(func(s *savedClock) { s.Wall -= int64(time.Hour) }) // slow by an hour then
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

// After a reboot of all machines the wall clocks of those count that agree, also with one of three dead, and not the
// leader's that has been put right by an hour.
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

// Where nobody can tell an hour of rest from an hour's repair, no limit refills, and the operator is asked.
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
				waitFor(t, "it is saved", func() bool { s, _ := c.nodes[i].g.clocks.last(); return s.Unset })
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
				waitFor(t, "so it is saved", func() bool { s, _ := c.nodes[i].g.clocks.last(); return !s.Unset })
			}
		})
	}
}

// aheadLocked is how far the clock is ahead of wall time. Must be called with mu held.
func (m *mapMachine) aheadLocked() time.Duration {
	return time.Duration(m.base + int64(time.Since(m.since)) - time.Now().UnixNano())
}

// A node that has heard nobody since it was started goes on by what the others keep, not by its own clocks.
func TestARestartedNodeAsks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("a", "1")
	c.converge()
	l.m.mu.Lock()
	l.m.base += int64(time.Hour) // as by set-clock, an hour ahead of what any node has saved
	l.m.mu.Unlock()
	l.set("b", "2")
	c.converge()
	before := l.aheadOfWall()
	f := c.nodes[(l.n+1)%3]
	ago := sighting{l.m.Now() - int64(2*time.Hour), f.g.fsm.now()}
	for name, known := range map[string]*clockBound{
		"nothing":       nil,
		"what it saved": {term: 1, best: ago, next: ago, saved: true},
	} {
		waitFor(t, name, func() bool {
			f.g.fsm.bound.Store(known)
			f.g.resumeClock(testContext(t), always)
			return f.g.keeper.resumed.Load() != nil // else an entry came meanwhile
		})
		require.True(t, f.g.keeper.resumed.Load().told)
		after := time.Duration(f.g.resumed() - time.Now().UnixNano())
		require.LessOrEqual(t, after, before+time.Millisecond, name)
		require.Greater(t, after, before-10*time.Second, "what entries and answers have travelled, on a busy machine; it knew "+name)
	}
}

// A node that is killed as soon as it has begun to serve has saved the clock by then.
func TestTheClockIsSavedBeforeItServes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	s, ok := n.g.clocks.last()
	require.True(t, ok)
	require.Equal(t, boottime.ID(), s.BootID)
	require.InDelta(t, n.m.Now()-boottime.Now(), s.Clock-s.Boot, float64(time.Second))
}
