package turns

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// patience is how long a test waits for something that should come at once.
	patience = 10 * time.Second
	// queue is how many jobs may wait.
	queue = 1024
)

// eventually waits for ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, time.Millisecond, what)
}

// anybody is a client.
var anybody = Client{new(Share), new(Share)}

// endless submits n steps that ask now and then until stop is set. It returns them once they
// run, and the errors that they end with.
func endless(t *testing.T, all *Turns, n int, stop *atomic.Bool) ([]*Turn, chan error) {
	t.Helper()
	steps, errs := make(chan *Turn, n), make(chan error, n)
	for range n {
		require.True(t, all.Submit(anybody, func() {
			x := all.Take(anybody)
			defer x.End()
			steps <- x
			for !stop.Load() {
				if err := x.Yield(); err != nil {
					errs <- err
					return
				}
			}
		}))
	}
	list := make([]*Turn, n)
	for i := range list {
		select {
		case list[i] = <-steps:
		case <-time.After(patience):
			t.Fatal("there is no room")
		}
	}
	return list, errs
}

// A new step goes before those that have run for long, and those divide the rest.
func TestTurnsAreTaken(t *testing.T) {
	all := New(1, queue)
	var stop atomic.Bool
	steps, errs := endless(t, all, 8, &stop)
	late := 0
	for range 20 {
		began, done := time.Now(), make(chan struct{})
		require.True(t, all.Submit(anybody, func() {
			x := all.Take(anybody)
			defer x.End()
			close(done)
		}))
		<-done
		time.Sleep(5 * time.Millisecond)
		if time.Since(began) >= patience/10 {
			late++
		}
	}
	require.LessOrEqual(t, late, 10, "a busy machine makes some late")
	eventually(t, "all to get on", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, x := range steps {
			if x.took < 5*turnSlice {
				return false
			}
		}
		return true
	})
	stop.Store(true)
	all.Close(context.Background())
	require.Empty(t, errs)
	require.Equal(t, 1, all.free)
	require.Zero(t, all.admitted)
	require.Empty(t, all.under)
}

// Steps that take longest make room when there are too many, and those that have
// just begun do not.
func TestCrowdedTurns(t *testing.T) {
	all := New(2, queue)
	var stop atomic.Bool
	_, errs := endless(t, all, maxTurns, &stop)
	_, late := endless(t, all, 3, &stop)
	for range 3 { // one makes room for another
		select {
		case err := <-errs:
			require.ErrorIs(t, err, ErrCrowded)
		case err := <-late:
			require.ErrorIs(t, err, ErrCrowded)
		}
	}
	require.Empty(t, errs)
	require.Empty(t, late)
	stop.Store(true)
	all.Close(context.Background())
	require.Equal(t, 2, all.free)
	require.Zero(t, all.ending)
}

// Few may have much memory, and the others go on while some wait for that.
func TestTurnsWithMuchMemory(t *testing.T) {
	all := New(1, queue)
	var stop atomic.Bool
	var large atomic.Int64
	errs := make(chan error, 2*maxBig)
	for range 2 * maxBig {
		require.True(t, all.Submit(anybody, func() {
			x := all.Take(anybody)
			defer x.End()
			err := x.Grow()
			if err == nil {
				defer large.Add(-1)
				if large.Add(1) > maxBig {
					t.Error("too many have much memory")
				}
			}
			for err == nil && !stop.Load() {
				err = x.Yield()
			}
			errs <- err
		}))
	}
	for range maxBig {
		require.ErrorIs(t, <-errs, ErrCrowded)
	}
	small := make(chan struct{})
	require.True(t, all.Submit(anybody, func() { all.Take(anybody).End(); close(small) }))
	<-small
	stop.Store(true)
	all.Close(context.Background())
	for range maxBig {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 1, all.free)
	require.Equal(t, maxBig, all.big)
}

// Only processor time counts. Steps that have had a place for long, on a machine that has given
// the process next to no time, are not ended for others.
func TestStarvedTurnsAreNotCrowded(t *testing.T) {
	all := New(2, queue)
	var cpu atomic.Int64
	cpu.Store(1)
	all.cpu = func() time.Duration { return time.Duration(cpu.Load()) }
	var stop atomic.Bool
	steps, errs := endless(t, all, maxTurns, &stop)
	waits := make(chan struct{})
	require.True(t, all.Submit(anybody, func() { all.Take(anybody).End(); close(waits) }))
	eventually(t, "one to have a place for long", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, x := range steps {
			if x.wall(time.Now()) > 3*crowdedTime {
				return true
			}
		}
		return false
	})
	require.True(t, all.Submit(anybody, func() {}), "this one looks who is to make room too")
	require.Empty(t, errs)
	select {
	case <-waits:
		t.Fatal("who has made room?")
	default:
	}
	cpu.Add(int64(2 * maxTurns * crowdedTime))
	<-waits
	require.ErrorIs(t, <-errs, ErrCrowded)
	stop.Store(true)
	all.Close(context.Background())
	require.Equal(t, 2, all.free)
}

// Where the processor time is unknown the time itself counts.
func TestTurnsWithoutProcessorTime(t *testing.T) {
	all := New(1, queue)
	all.cpu = func() time.Duration { return 0 }
	x := all.Take(anybody)
	time.Sleep(2 * time.Millisecond)
	require.GreaterOrEqual(t, x.Ran(time.Now()), 2*time.Millisecond)
	require.True(t, x.HasRun(2*time.Millisecond, time.Now()))
	all.mu.Lock()
	x.leave(time.Now())
	all.mu.Unlock()
	require.GreaterOrEqual(t, x.Ran(time.Now()), 2*time.Millisecond)
	all.mu.Lock()
	x.wait()
	all.mu.Unlock()
	x.End()
}

// A client with many connections, each of which has one short step after another,
// gets no more than another client with one.
func TestTurnsAreTheClients(t *testing.T) {
	all := New(1, queue)
	work := func(x *Turn, d time.Duration) {
		for {
			all.mu.Lock()
			had := x.wall(time.Now())
			all.mu.Unlock()
			if had >= d || x.Yield() != nil {
				return
			}
		}
	}
	var stop atomic.Bool
	var done atomic.Int64
	var clients sync.WaitGroup
	for range 30 {
		who := all.Client("many", new(Share))
		clients.Go(func() {
			for !stop.Load() {
				over := make(chan struct{})
				all.Submit(who, func() {
					defer close(over)
					x := all.Take(who)
					defer x.End()
					work(x, 2*time.Millisecond)
					done.Add(1)
				})
				<-over
			}
		})
	}
	eventually(t, "many steps have run", func() bool { return done.Load() > 50 })
	one := all.Client("one", new(Share))
	over := make(chan int64)
	require.True(t, all.Submit(one, func() {
		x := all.Take(one)
		defer x.End()
		before := done.Load()
		work(x, 20*time.Millisecond)
		over <- done.Load() - before
	}))
	require.Less(t, <-over, int64(60), "as many steps of the other client have gone first")
	stop.Store(true)
	clients.Wait()
	all.Close(context.Background())
}

// Waiting jobs begin in the order of what their clients have had.
func TestTheQueueIsTheClients(t *testing.T) {
	all := New(1, queue)
	all.admitted = maxTurns
	many, one := all.Client("many", new(Share)), all.Client("one", new(Share))
	many.address.add(time.Second, time.Now())
	began := ""
	for range 3 {
		require.True(t, all.Submit(many, func() { began += "m" }))
	}
	require.True(t, all.Submit(one, func() { began += "o" }))
	for {
		next, ok := all.next()
		if !ok {
			break
		}
		next.job()
	}
	require.Equal(t, "ommm", began)
	require.Equal(t, maxTurns-1, all.admitted)
}

// A step that has its place and does not ask is busy, one that waits is not.
func TestStepsThatDoNotAskAreBusy(t *testing.T) {
	all := New(1, queue)
	x := all.Take(anybody)
	waits := make(chan struct{})
	require.True(t, all.Submit(anybody, func() { all.Take(anybody).End(); close(waits) }))
	eventually(t, "the other to wait", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.ready) == 1
	})
	now := time.Now()
	require.Less(t, all.Busy(now), patience/2)
	require.GreaterOrEqual(t, all.Busy(now.Add(patience)), patience/2)
	x.End()
	<-waits
	require.Zero(t, all.Busy(now.Add(patience)))
}
