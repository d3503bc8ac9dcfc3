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
