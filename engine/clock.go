package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/internal/boottime"
)

const (
	// slewDivisor bounds the correction of the clock's rate: 1/2000 is 500 ppm, the rate
	// at which NTP daemons slew. A full second is closed in 2000 s.
	slewDivisor = 2000

	// MaxSlew is the largest gap to wall time that is closed by slewing. A larger gap
	// means that somebody set the machine's clock. Skew reports such a gap, and only Step
	// closes it.
	MaxSlew = time.Second

	// leastSleep is the shortest suspension of the machine that CatchUp corrects. It is
	// well above the error of a reading, and too short to matter to a limit.
	leastSleep = int64(time.Millisecond)
)

// Clock is the time of all decisions in unix ns. It starts at wall time, advances with
// the monotonic clock, and is slewed towards wall time by at most 500 ppm. Only an
// operator's Step makes it jump. It includes the time in which the machine was suspended,
// which the monotonic clock leaves out. Its methods are safe for concurrent use.
type Clock struct {
	// mono reads the monotonic clock; both reads it and the reference at once: wall time,
	// or another clock (see Follow).
	mono func() int64
	both func() (mono, wall int64)
	// asleep reads how long the machine has been suspended in total. ok is false if this
	// time cannot be read now.
	asleep func() (d int64, ok bool)

	line atomic.Pointer[timeline]

	// mu orders the changes of line, which readers load without a lock. It guards slept:
	// the suspension that line includes, -1 if unknown.
	mu    sync.Mutex
	slept int64
}

// timeline maps the monotonic clock to time. With d the time since mono, now is base + d
// + d/slewDivisor, but corrects no more than gap. So the correction ends when the gap is
// closed, however late the next Discipline is.
type timeline struct {
	mono, base, gap int64
}

func (l *timeline) at(mono int64) int64 {
	d := mono - l.mono
	closed := d / slewDivisor
	if l.gap < 0 {
		return l.base + d + max(-closed, l.gap)
	}
	return l.base + d + min(closed, l.gap)
}

// NewClock returns a clock that reads the wall time now.
func NewClock() *Clock {
	start := time.Now()
	return newClock(
		func() int64 { return int64(time.Since(start)) },
		func() (mono, wall int64) {
			t := time.Now()
			return int64(t.Sub(start)), t.UnixNano()
		},
		boottime.Asleep,
	)
}

// NewManualClock returns a clock that stands at now, in unix ns, and a function that sets
// it, for tests and simulations.
func NewManualClock(now int64) (c *Clock, set func(now int64)) {
	var at atomic.Int64
	at.Store(now)
	never := func() (int64, bool) { return 0, true }
	return newClock(at.Load, func() (mono, wall int64) { return at.Load(), at.Load() }, never), at.Store
}

func newClock(mono func() int64, both func() (mono, wall int64), asleep func() (int64, bool)) *Clock {
	c := &Clock{mono: mono, both: both, asleep: asleep}
	c.awake()
	m, w := both()
	c.line.Store(&timeline{mono: m, base: w})
	return c
}

// Now returns the time. It costs one read of the monotonic clock.
func (c *Clock) Now() int64 {
	l := c.line.Load()
	return l.at(c.mono())
}

// awake records that line counts all suspensions so far. mu must be held.
func (c *Clock) awake() {
	var ok bool
	if c.slept, ok = c.asleep(); !ok {
		c.slept = -1
	}
}

// CatchUp moves the clock forward by the time in which the machine was suspended since
// the last call, and returns that time. Call it after a possible suspension.
//
// On Linux, the monotonic clock stops during a suspension, but CLOCK_BOOTTIME continues.
// To read CLOCK_BOOTTIME for every decision would take a system call: 250 ns instead of
// 25. Until CatchUp corrects the clock, the clock is late, so limits refill later and no
// call passes too early. If a host stops a virtual machine without its knowledge, the
// lost time shows only as a difference to wall time.
func (c *Clock) CatchUp() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.catchUp()
}

// catchUp is CatchUp with mu held.
func (c *Clock) catchUp() time.Duration {
	before := c.slept
	total, ok := c.asleep()
	if !ok {
		return 0
	}
	d := total - before
	if before < 0 || d < 0 {
		c.slept = total
		return 0
	}
	if d < leastSleep {
		return 0
	}
	c.slept = total
	l := *c.line.Load()
	l.base += d
	c.line.Store(&l)
	return time.Duration(d)
}

// Follow replaces wall time by another clock in Discipline, Skew and Step. Call it before
// c is in use.
//
// A process has a clock for each Raft group, and all groups follow group 0. The node that
// leads group 0 disciplines the clock of group 0 to its wall clock. On another node, group
// 0's clock is that of the last batch applied there. It may be late by the time that a
// batch takes, but it is never ahead. So the other groups are a few milliseconds late. While group 0
// has no leader, its clock on each node goes on by the monotonic clock.
//
// NewEngines calls Follow. The leaders of all groups then call Discipline as for one group.
// If an operator has set the clock of group 0 by more than MaxSlew, the leader of each
// other group must call Step too.
func (c *Clock) Follow(first *Clock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.both = func() (mono, now int64) { return c.mono(), first.Now() }
}

// Discipline corrects for a suspension and compares the clock with wall time. It starts
// to close the gap, unless that is above MaxSlew. Call it about once a second.
func (c *Clock) Discipline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catchUp()
	m, w := c.both()
	now := c.line.Load().at(m)
	gap := w - now
	if gap > int64(MaxSlew) || gap < -int64(MaxSlew) {
		gap = 0
	}
	c.line.Store(&timeline{mono: m, base: now, gap: gap})
}

// Skew returns how far wall time is ahead of the clock. If it is beyond MaxSlew, in
// either direction, an operator should look.
func (c *Clock) Skew() time.Duration {
	m, w := c.both()
	return time.Duration(w - c.line.Load().at(m))
}

// Set makes the clock go on from now. A replica follows the cluster's clock, not its own
// wall clock.
func (c *Clock) Set(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awake()
	c.line.Store(&timeline{mono: c.mono(), base: now})
}

// Step sets the clock to wall time and returns how far it moved. A step forward refills
// all limits by that much at once; a step backward makes them wait that much longer.
func (c *Clock) Step() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awake()
	m, w := c.both()
	moved := w - c.line.Load().at(m)
	c.line.Store(&timeline{mono: m, base: w})
	return time.Duration(moved)
}
