// Package turns divides processor time fairly between slow steps, such as slow scripts.
// A step may run while it has one of a few places. A server has one [Turns], and each
// step has a [Turn]. A running step gives its place up now and then, if another step
// should go first. Which step goes first? The step of the client address that has
// recently used the least time. Between connections of one address, the same rule
// decides, and again between steps of one connection. So a new step begins at once,
// whatever else is running, and long steps take turns. An endless script takes only its
// own share of the processors. A client gets no larger share by opening more
// connections.
//
// Two numbers are bounded: of running steps, and of steps that have taken much memory.
// When there are too many, the step that has run longest is ended, if it has run for a
// while. Otherwise new steps wait, and the steps that have run longest go first, so that
// they finish.
//
// A step's time is the time during which it has a place, but at most the processor time
// that the process got in that time. So if other processes keep the machine busy, no
// step is ended too early.
package turns

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/cputime"
)

// Turns holds the places, the steps that have a place, and the steps that wait. Its methods
// are safe for concurrent use.
type Turns struct {
	jobs sync.WaitGroup
	cpu  func() time.Duration // processor time of the process; 0 if unknown
	// mu guards the fields below. It also guards all fields of every Turn, except the
	// channel wake.
	mu sync.Mutex
	// queue holds the jobs that wait until a running job ends; most bounds their number.
	queue    []queued
	most     int
	of       map[string]*Share // shares, by client address
	admitted int               // jobs that have a goroutine
	free     int               // free places
	under    []*Turn           // steps that have begun and not ended
	ready    []*Turn           // steps in under that wait for a place
	big      int               // free places for steps with much memory
	hungry   []*Turn           // steps that wait for a place in big
	ending   int               // number of steps that are being ended to make room
}

const (
	// maxTurns bounds the number of running steps, and so their memory. Each step has up to
	// SmallStep bytes, and maxBig of them may have much more.
	maxTurns = 64
	maxBig   = 4
	// SmallStep is the memory, in bytes, that a step may use without Grow.
	SmallStep = 4 << 20
	// turnSlice is how much more time than a waiting step a running step may have had
	// before it must give up its place.
	turnSlice = time.Millisecond
	// shareUnit is the step in which shares are compared: a client must have had that much
	// less time to go before another. shareMost is the largest share that counts.
	shareUnit = 10 * time.Millisecond
	shareMost = 10 * time.Second
	// shareBack is the part of passing time that is deducted from a client's share: one in
	// shareBack. So a client that uses less of a processor than that part waits for nobody.
	shareBack = 4
	// sharesKept is how many addresses are remembered. Beyond that number, addresses
	// without recent use are forgotten.
	sharesKept = 1024
	// crowdedTime is how long a step must have run before it may be ended to make room for
	// others.
	crowdedTime = 100 * time.Millisecond
)

// ErrCrowded ends a step to make room for others.
var ErrCrowded = errors.New("too many slow scripts and transactions are running, and this one ran longest")

// Share is how much time an address or a connection has had recently. The mu of its Turns
// guards it.
type Share struct {
	had time.Duration // at
	at  time.Time
}

// add adds d to the share at the time now.
func (s *Share) add(d time.Duration, now time.Time) {
	s.had = min(max(s.had-now.Sub(s.at)/shareBack, 0)+d, shareMost)
	s.at = now
}

// units returns the share at the time now, in units of shareUnit.
func (s *Share) units(now time.Time) time.Duration {
	return max(s.had-now.Sub(s.at)/shareBack, 0) / shareUnit
}

// Client is the client of a step, as the shares of its address and of its connection.
type Client struct{ address, connection *Share }

// Client returns the client with an address. connection is the share of its connection.
func (t *Turns) Client(address string, connection *Share) Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of[address]
	if a == nil {
		if len(t.of) >= sharesKept {
			now := time.Now()
			maps.DeleteFunc(t.of, func(_ string, s *Share) bool { return s.units(now) == 0 })
		}
		a = new(Share)
		t.of[address] = a
	}
	return Client{a, connection}
}

// compare returns -1 if c has had less time than other, 1 if it has had more, else 0.
func (c Client) compare(other Client, now time.Time) int {
	return cmp.Or(cmp.Compare(c.address.units(now), other.address.units(now)), cmp.Compare(c.connection.units(now), other.connection.units(now)))
}

// queued is a job that waits, and its client.
type queued struct {
	who Client
	job func()
}

// Turn is the state of one step in a Turns. Only the step's goroutine may call its methods.
type Turn struct {
	of    *Turns
	who   Client
	paid  time.Time     // the step's time up to paid has been added to its client's shares
	took  time.Duration // time for which the step has had a place, before since
	since time.Time     // when the step got its place; zero if it has none
	got   time.Duration // processor time that the process got during took
	cpu   time.Duration // processor time of the process at since
	seen  time.Time     // when the step last asked whether it may go on
	large bool          // the step has a place for much memory
	ended bool          // the step must end
	wake  chan struct{} // capacity 1
}

// New returns Turns with a number of places, and with a queue for a number of jobs.
func New(places, queue int) *Turns {
	return &Turns{cpu: cputime.Process, most: queue, free: places, big: maxBig, of: make(map[string]*Share)}
}

// Submit runs a client's job on a goroutine of its own, at once or when there is room. It
// returns false if too many jobs wait. job must call Take.
func (t *Turns) Submit(who Client, job func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admitted == maxTurns && len(t.queue) == t.most {
		return false
	}
	next := queued{who, job}
	if t.admitted < maxTurns {
		t.admitted++
		t.jobs.Go(func() {
			for ok := true; ok; next, ok = t.next() {
				next.job()
			}
		})
		return true
	}
	t.queue = append(t.queue, next)
	t.makeRoom(t.under)
	return true
}

// next returns the job to run next on the goroutine of a job that has ended. It is a job of
// the client that has had the least time; among these, the job that has waited longest.
func (t *Turns) next() (queued, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.admitted--
		return queued{}, false
	}
	first, now := 0, time.Now()
	for i := range t.queue {
		if t.queue[i].who.compare(t.queue[first].who, now) < 0 {
			first = i
		}
	}
	next := t.queue[first]
	t.queue = slices.Delete(t.queue, first, first+1)
	return next, true
}

// Take begins a step. It blocks until the step has a place.
func (t *Turns) Take(who Client) *Turn {
	x := &Turn{of: t, who: who, wake: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.under = append(t.under, x)
	x.wait()
	return x
}

// End ends a step. The step must have a place, or was told to end.
func (x *Turn) End() {
	t := x.of
	t.mu.Lock()
	defer t.mu.Unlock()
	t.under = without(t.under, x)
	if x.ended {
		t.ending--
	}
	if x.large {
		t.passBig()
	}
	if !x.since.IsZero() {
		x.pay(time.Now())
		t.pass()
	}
}

// pay adds the step's time since the last payment to its client's shares. The caller holds
// mu.
func (x *Turn) pay(now time.Time) {
	d := now.Sub(x.paid)
	x.paid = now
	x.who.address.add(d, now)
	x.who.connection.add(d, now)
}

// Yield lets another step go first, if that step has had less time. It returns when this
// step may continue, or with ErrCrowded if it must end.
func (x *Turn) Yield() error {
	t := x.of
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	x.seen = now
	x.pay(now)
	if !x.ended && (len(t.queue) > t.ending || x.large && len(t.hungry) > t.ending) && x.HasRun(crowdedTime, now) {
		if len(t.queue) > t.ending {
			t.makeRoom(t.under)
		} else {
			t.makeRoom(t.large())
		}
	}
	if next := t.first(); !x.ended && next != nil && t.giveWay(x, next, now) {
		x.leave(now)
		x.wait()
	}
	return x.verdict()
}

// giveWay reports whether x must leave its place to next. The caller holds mu.
func (t *Turns) giveWay(x, next *Turn, now time.Time) bool {
	if t.goesOn(next) {
		return false
	}
	if c := next.who.compare(x.who, now); c != 0 {
		return c < 0
	}
	return next.took+turnSlice <= x.wall(now)
}

// Grow asks for permission to take much memory; a step calls it once. It blocks until a
// place for much memory is free, while other steps run. The error is ErrCrowded.
func (x *Turn) Grow() error {
	t := x.of
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case x.large || x.ended:
	case t.big > 0:
		t.big--
		x.large = true
	default:
		x.leave(time.Now())
		t.hungry = append(t.hungry, x)
		t.makeRoom(t.large())
		x.sleep()
	}
	return x.verdict()
}

// large returns the steps that have a place for much memory. The caller holds mu.
func (t *Turns) large() (list []*Turn) {
	for _, x := range t.under {
		if x.large {
			list = append(list, x)
		}
	}
	return list
}

// wall returns how long the step has had a place.
func (x *Turn) wall(now time.Time) time.Duration {
	if x.since.IsZero() {
		return x.took
	}
	return x.took + now.Sub(x.since)
}

// Ran returns the step's time that counts: the time with a place, but at most the processor
// time of the process.
func (x *Turn) Ran(now time.Time) time.Duration {
	got := x.got
	if !x.since.IsZero() {
		got += x.processor(now)
	}
	return min(x.wall(now), got)
}

// processor returns the processor time of the process since the step got its place. If it
// is unknown, it returns the elapsed time.
func (x *Turn) processor(now time.Time) time.Duration {
	cpu := x.of.cpu()
	if cpu == 0 {
		return now.Sub(x.since)
	}
	return cpu - x.cpu
}

// HasRun reports whether Ran is at least d. It asks the system for processor time only if
// that can matter.
func (x *Turn) HasRun(d time.Duration, now time.Time) bool {
	return x.wall(now) >= d && x.Ran(now) >= d
}

// verdict returns nil if the step may go on, and ErrCrowded if it must end. The caller
// holds mu.
func (x *Turn) verdict() error {
	if x.ended {
		return ErrCrowded
	}
	return nil
}

// leave gives up the step's place. The caller holds mu.
func (x *Turn) leave(now time.Time) {
	x.pay(now)
	x.took += now.Sub(x.since)
	x.got += x.processor(now)
	x.since = time.Time{}
	x.of.pass()
}

// wait blocks until the step gets a place or is ended. The caller holds mu; wait releases
// mu while it blocks.
func (x *Turn) wait() {
	t := x.of
	if t.free > 0 {
		t.free--
		x.enter()
		return
	}
	t.ready = append(t.ready, x)
	x.sleep()
}

func (x *Turn) sleep() {
	x.of.mu.Unlock()
	<-x.wake
	x.of.mu.Lock()
}

// enter gives the step its place. The caller holds mu.
func (x *Turn) enter() {
	x.since, x.cpu = time.Now(), x.of.cpu()
	x.seen, x.paid = x.since, x.since
}

// first returns the step that gets the next place, or nil. The caller holds mu.
func (t *Turns) first() *Turn {
	var first *Turn
	now := time.Now()
	for _, x := range t.ready {
		if first == nil || t.before(x, first, now) {
			first = x
		}
	}
	return first
}

// before reports whether a gets a place before b does. The caller holds mu.
func (t *Turns) before(a, b *Turn, now time.Time) bool {
	switch c := a.who.compare(b.who, now); {
	case c != 0:
		return c < 0
	case t.goesOn(a) && t.goesOn(b):
		return a.took > b.took
	}
	return a.took < b.took
}

// goesOn reports whether x should finish rather than take turns: jobs wait, and x is not
// new. Among such steps the longest goes first. The caller holds mu.
func (t *Turns) goesOn(x *Turn) bool { return len(t.queue) > 0 && x.took >= turnSlice }

// pass gives a free place to the step that is next. The caller holds mu.
func (t *Turns) pass() {
	x := t.first()
	if x == nil {
		t.free++
		return
	}
	t.ready = without(t.ready, x)
	x.enter()
	x.wake <- struct{}{}
}

// passBig gives a place for much memory to the step that has waited longest. The caller
// holds mu.
func (t *Turns) passBig() {
	if len(t.hungry) == 0 {
		t.big++
		return
	}
	x := t.hungry[0]
	t.hungry = without(t.hungry, x)
	x.large = true
	if t.free > 0 {
		t.free--
		x.enter()
		x.wake <- struct{}{}
		return
	}
	t.ready = append(t.ready, x)
}

// makeRoom ends one step of all, if it has run for crowdedTime: the step that has run
// longest, of the client that has had the most time. The caller holds mu.
func (t *Turns) makeRoom(all []*Turn) {
	var longest *Turn
	now := time.Now()
	for _, x := range all {
		if x.ended || !x.HasRun(crowdedTime, now) {
			continue
		}
		c := 1
		if longest != nil {
			c = cmp.Or(x.who.compare(longest.who, now), cmp.Compare(x.Ran(now), longest.Ran(now)))
		}
		if c > 0 {
			longest = x
		}
	}
	if longest == nil {
		return
	}
	longest.ended = true
	t.ending++
	if longest.since.IsZero() { // the step waits for a place, so it ends now
		t.ready, t.hungry = without(t.ready, longest), without(t.hungry, longest)
		longest.wake <- struct{}{}
	}
}

// Busy returns the longest time for which a running step has not asked whether it may go
// on.
func (t *Turns) Busy(now time.Time) (longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.under {
		if !x.since.IsZero() {
			longest = max(longest, now.Sub(x.seen))
		}
	}
	return longest
}

// Close waits for all jobs. When ctx is done, it drops the jobs that still wait in the
// queue. Nobody may call Submit any more.
func (t *Turns) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.queue = nil
	})
	defer stop()
	t.jobs.Wait()
}

// without returns list without x.
func without(list []*Turn, x *Turn) []*Turn {
	for i, other := range list {
		if other == x {
			copy(list[i:], list[i+1:])
			list[len(list)-1] = nil
			return list[:len(list)-1]
		}
	}
	return list
}
