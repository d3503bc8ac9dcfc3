package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// fakeTime drives a Clock: wall time may run off the monotonic clock.
type fakeTime struct {
	mono, wall, asleep int64
	busy               bool // what the machine has slept cannot be told
}

func (f *fakeTime) clock() *Clock {
	return newClock(
		func() int64 { return f.mono },
		func() (mono, wall int64) { return f.mono, f.wall },
		func() (int64, bool) { return f.asleep, !f.busy },
	)
}

// suspend lets time pass that the monotonic clock leaves out.
func (f *fakeTime) suspend(d time.Duration) {
	f.asleep += int64(d)
	f.wall += int64(d)
}

func (f *fakeTime) pass(d time.Duration) {
	f.mono += int64(d)
	f.wall += int64(d)
}

func TestClockFollowsTheMonotonicClock(t *testing.T) {
	f := &fakeTime{mono: 5, wall: start}
	c := f.clock()
	require.EqualValues(t, start, c.Now())
	f.pass(time.Hour)
	require.Equal(t, start+int64(time.Hour), c.Now())
	f.wall -= int64(time.Minute)
	require.Equal(t, start+int64(time.Hour), c.Now(), "wall time alone moves nothing")
	require.Equal(t, -time.Minute, c.Skew())
}

func TestClockSlewsTowardsWallTime(t *testing.T) {
	for _, gap := range []time.Duration{100 * time.Millisecond, -100 * time.Millisecond} {
		f := &fakeTime{wall: start}
		c := f.clock()
		f.wall += int64(gap)
		seconds := 0
		for ; c.Skew() != 0; seconds++ {
			c.Discipline()
			before := c.Now()
			f.pass(time.Second)
			moved := c.Now() - before
			require.InDelta(t, float64(time.Second), float64(moved), 500_000, "500 ppm")
		}
		require.Equal(t, 200, seconds)
	}
}

func TestClockCorrectionEndsByItself(t *testing.T) {
	f := &fakeTime{wall: start}
	c := f.clock()
	f.wall += int64(time.Millisecond)
	c.Discipline()
	f.pass(24 * time.Hour)
	require.Equal(t, f.wall, c.Now(), "a late Discipline overshoots nothing")
}

func TestClockLargeGapWaitsForStep(t *testing.T) {
	for _, gap := range []time.Duration{MaxSlew + 1, -MaxSlew - 1, 24 * time.Hour} {
		f := &fakeTime{wall: start}
		c := f.clock()
		f.wall += int64(gap)
		for range 10 {
			c.Discipline()
			f.pass(time.Second)
		}
		require.Equal(t, gap, c.Skew())
		require.Equal(t, gap, c.Step())
		require.Zero(t, c.Skew())
		require.Equal(t, f.wall, c.Now())
	}
}

// Without Step the clock never goes back, and never faster or slower than
// 500 ppm off, whatever wall time does.
func TestClockNeverJumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fakeTime{wall: start}
		c := f.clock()
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			f.wall += algotest.Wide(t, "jump", -int64(2*time.Second), int64(2*time.Second))
			if rapid.Bool().Draw(t, "discipline") {
				before := c.Now()
				c.Discipline()
				require.Equal(t, before, c.Now())
			}
			before := c.Now()
			d := rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pass")
			f.pass(time.Duration(d))
			moved := c.Now() - before
			require.GreaterOrEqual(t, moved, d-d/slewDivisor-1)
			require.LessOrEqual(t, moved, d+d/slewDivisor+1)
		}
	})
}

// The monotonic clock leaves out the time in which the machine is suspended, but the
// Clock counts it.
func TestClockCountsSuspensions(t *testing.T) {
	for name, wake := range map[string]func(*Clock){
		"CatchUp":    func(c *Clock) { require.Equal(t, time.Hour, c.CatchUp()) },
		"Discipline": func(c *Clock) { c.Discipline() },
	} {
		f := &fakeTime{wall: start}
		c := f.clock()
		f.pass(time.Minute)
		f.suspend(time.Hour)
		wake(c)
		require.Equal(t, f.wall, c.Now(), name)
		require.Zero(t, c.CatchUp(), "counted once")
	}
	// A gap to wall time stays what it was.
	f := &fakeTime{wall: start}
	c := f.clock()
	f.wall += int64(time.Minute)
	f.suspend(time.Hour)
	c.Discipline()
	require.Equal(t, time.Minute, c.Skew())
}

// The time that the clock is set to includes every suspension before.
func TestClockCountsNoSuspensionTwice(t *testing.T) {
	for name, set := range map[string]func(*Clock){
		"Set":  func(c *Clock) { c.Set(start) },
		"Step": func(c *Clock) { c.Step() },
	} {
		for _, busy := range []bool{false, true} {
			f := &fakeTime{wall: start}
			c := f.clock()
			f.suspend(time.Hour)
			f.busy = busy
			set(c)
			before := c.Now()
			f.busy = false
			require.Zero(t, c.CatchUp(), name)
			require.Equal(t, before, c.Now(), name)
			f.suspend(time.Hour)
			require.Equal(t, time.Hour, c.CatchUp(), name)
		}
	}
	f := &fakeTime{wall: start}
	c := f.clock()
	f.asleep += leastSleep - 1
	require.Zero(t, c.CatchUp(), "as far as a reading may be off")
}

// groupClocks simulates a node. The clock of group 0 is that of a leader elsewhere, as far
// as this node has heard of it. The clock of another group follows it.
type groupClocks struct {
	f            *fakeTime // of this node
	first, other *Clock
	leader       int64 // what group 0's leader shows
}

func newGroupClocks() *groupClocks {
	g := &groupClocks{f: &fakeTime{wall: start}, leader: start}
	g.first, g.other = g.f.clock(), g.f.clock()
	g.other.Follow(g.first)
	return g
}

// run lets time pass, a second at a time. The leader's clock is off by some ppm. It hears
// of that clock late, by up to 20 ms, if heard is set.
func (g *groupClocks) run(t *testing.T, seconds int, ppm float64, heard bool) {
	for i := range seconds {
		before := g.other.Now()
		g.f.pass(time.Second)
		g.leader += int64(1e9 + ppm*1000)
		if heard {
			g.first.Set(g.leader - int64(i%5)*int64(5*time.Millisecond))
		}
		require.InDelta(t, float64(time.Second), float64(g.other.Now()-before), 500_001, "500 ppm")
		g.other.Discipline()
	}
}

// off is how far the group's clock is behind group 0's.
func (g *groupClocks) off() time.Duration { return time.Duration(g.leader - g.other.Now()) }

// A group on another node follows the clock of group 0 with a delay of milliseconds,
// also if the two machines run apart by 500 ppm.
func TestClockFollowsGroup0(t *testing.T) {
	for _, ppm := range []float64{500, -500, 20, 0} {
		g := newGroupClocks()
		for range 100 {
			g.run(t, 60, ppm, true)
			require.InDelta(t, 0, g.off(), float64(30*time.Millisecond), "%v ppm", ppm)
		}
		drift := time.Duration(6000 * ppm * 1000)
		require.InDelta(t, drift, g.leader-g.f.wall, 1e6, "wall time is not followed")
	}
}

// Where the node leads group 0 too, both clocks are one.
func TestClockFollowsGroup0Here(t *testing.T) {
	g := newGroupClocks()
	g.f.wall += int64(900 * time.Millisecond)
	for range 4000 {
		g.f.pass(time.Second)
		g.first.Discipline()
		g.other.Discipline()
		require.InDelta(t, g.first.Now(), g.other.Now(), 1e6)
	}
	require.Equal(t, g.f.wall, g.other.Now())
	require.Zero(t, g.other.Skew())
}

// A step of the wall clock moves no group. It shows in group 0's skew alone.
func TestClockOfAGroupIgnoresTheWall(t *testing.T) {
	g := newGroupClocks()
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, 500 * time.Millisecond} {
		g.f.wall += int64(step)
		g.run(t, 100, 0, true)
		require.InDelta(t, 0, g.off(), float64(30*time.Millisecond))
		require.InDelta(t, 0, g.other.Skew(), float64(30*time.Millisecond))
	}
	require.Less(t, g.first.Skew(), -time.Minute)
}

// While group 0 has no leader, groups go on together by the monotonic clock. The next
// leader of group 0 may have an earlier clock. Then they slew back to it.
func TestClockWithoutALeaderOfGroup0(t *testing.T) {
	g := newGroupClocks()
	g.run(t, 100, 0, true)
	g.run(t, 3600, 100, false)
	require.InDelta(t, g.first.Now(), g.other.Now(), 1e6)
	require.InDelta(t, 360*time.Millisecond, g.off(), float64(30*time.Millisecond), "by this machine's rate")
	g.leader = g.first.Now() - int64(200*time.Millisecond)
	g.run(t, 10, 0, true)
	require.Less(t, g.off(), -190*time.Millisecond, "slewed, not set")
	g.run(t, 500, 0, true)
	require.InDelta(t, 0, g.off(), float64(30*time.Millisecond))
}

// An operator's step of group 0's clock moves no other group before the operator's step
// there.
func TestClockOfAGroupWaitsForStep(t *testing.T) {
	g := newGroupClocks()
	g.leader += int64(time.Hour)
	g.run(t, 100, 0, true)
	require.InDelta(t, time.Hour, g.other.Skew(), float64(30*time.Millisecond))
	require.InDelta(t, time.Hour, g.other.Step(), float64(30*time.Millisecond))
	require.InDelta(t, 0, g.off(), float64(30*time.Millisecond))
}

// The engines of a process follow the first.
func TestEnginesFollowTheFirstClock(t *testing.T) {
	engines := NewEngines(Config{}, 3)
	engines[0].clock.Set(engines[0].Now() + int64(time.Hour))
	for _, e := range engines[1:] {
		require.InDelta(t, time.Hour, e.clock.Skew(), float64(time.Minute))
		e.clock.Step()
		require.InDelta(t, engines[0].Now(), e.Now(), float64(time.Minute))
	}
}

func TestNewClockReadsWallTime(t *testing.T) {
	c := NewClock()
	require.InDelta(t, time.Now().UnixNano(), c.Now(), float64(100*time.Millisecond))
	last := c.Now()
	for range 1000 {
		now := c.Now()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}

func BenchmarkClock(b *testing.B) {
	c := NewClock()
	for b.Loop() {
		c.Now()
	}
}
