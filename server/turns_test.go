package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// anybody is a client.
var anybody = turnClient{new(share), new(share)}

// endless submits n steps that ask now and then until stop is set, and returns
// them once they run, and the errors that they end with.
func endless(t *testing.T, all *turns, n int, stop *atomic.Bool) ([]*turn, chan error) {
	t.Helper()
	steps, errs := make(chan *turn, n), make(chan error, n)
	for range n {
		require.True(t, all.submit(anybody, func() {
			x := all.take(anybody)
			defer x.end()
			steps <- x
			for !stop.Load() {
				if err := x.yield(); err != nil {
					errs <- err
					return
				}
			}
		}))
	}
	list := make([]*turn, n)
	for i := range list {
		select {
		case list[i] = <-steps:
		case <-time.After(patience):
			t.Fatal("there is no room")
		}
	}
	return list, errs
}

// What is new goes before what has run for long, and those that run for long
// share what there is.
func TestTurnsAreTaken(t *testing.T) {
	all := newTurns(1)
	var stop atomic.Bool
	steps, errs := endless(t, all, 8, &stop)
	mostly(t, 20, patience/10, func(int) {
		done := make(chan struct{})
		require.True(t, all.submit(anybody, func() {
			x := all.take(anybody)
			defer x.end()
			close(done)
		}))
		<-done
		time.Sleep(5 * time.Millisecond)
	})
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
	all.close(context.Background())
	require.Empty(t, errs)
	require.Equal(t, 1, all.free)
	require.Zero(t, all.admitted)
	require.Empty(t, all.under)
}

// Steps that take longest make room when there are too many, and those that have
// just begun do not.
func TestCrowdedTurns(t *testing.T) {
	all := newTurns(2)
	var stop atomic.Bool
	_, errs := endless(t, all, maxTurns, &stop)
	_, late := endless(t, all, 3, &stop)
	for range 3 { // one makes room for another
		select {
		case err := <-errs:
			require.ErrorIs(t, err, errCrowded)
		case err := <-late:
			require.ErrorIs(t, err, errCrowded)
		}
	}
	require.Empty(t, errs)
	require.Empty(t, late)
	stop.Store(true)
	all.close(context.Background())
	require.Equal(t, 2, all.free)
	require.Zero(t, all.ending)
}

// Few may have much memory, and the others go on while some wait for that.
func TestTurnsWithMuchMemory(t *testing.T) {
	all := newTurns(1)
	var stop atomic.Bool
	var large atomic.Int64
	errs := make(chan error, 2*maxBig)
	for range 2 * maxBig {
		require.True(t, all.submit(anybody, func() {
			x := all.take(anybody)
			defer x.end()
			err := x.grow()
			if err == nil {
				defer large.Add(-1)
				if large.Add(1) > maxBig {
					t.Error("too many have much memory")
				}
			}
			for err == nil && !stop.Load() {
				err = x.yield()
			}
			errs <- err
		}))
	}
	for range maxBig {
		require.ErrorIs(t, <-errs, errCrowded)
	}
	small := make(chan struct{})
	require.True(t, all.submit(anybody, func() { all.take(anybody).end(); close(small) }))
	<-small
	stop.Store(true)
	all.close(context.Background())
	for range maxBig {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 1, all.free)
	require.Equal(t, maxBig, all.big)
}

// Endless scripts hold up neither other slow scripts nor first EVALs of long
// texts, and can be killed.
func TestEndlessScriptsLeaveRoom(t *testing.T) {
	s, addr := startServer(t, Config{})
	const endless = 8
	var clients []*client
	for range endless {
		c := dial(t, addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
		c.send("EVAL \"local n = 0 while true do n = n + 1 end\" 0\r\n")
		clients = append(clients, c)
	}
	eventually(t, "the scripts to leave their loops", func() bool { return s.scripts.count() == endless })
	c := dial(t, addr)
	mostly(t, 10, time.Second, func(i int) {
		require.Equal(t, int64(30000), c.call(`EVAL "local n = 0 for i = 1, 30000 do n = n + 1 end redis.call('set', KEYS[1], n) return n" 1 k`))
		long := fmt.Sprintf("return %d --%s", i, strings.Repeat("x", 2*compileInline))
		require.Equal(t, int64(i), c.call(`EVAL "`+long+`" 0`))
	})
	require.Equal(t, "30000", c.call("GET k"))
	require.Equal(t, endless, s.scripts.count())
	require.Equal(t, "OK", c.call("SCRIPT KILL"))
	for _, c := range clients {
		err, isErr := c.reply().(error)
		require.True(t, isErr)
		require.ErrorContains(t, err, "Script killed by user with SCRIPT KILL.")
	}
}

// More slow scripts than go on at a time: all of them end, and each as it should.
// On a machine that is busy some may have to make room.
func TestManySlowScripts(t *testing.T) {
	_, addr := startServer(t, Config{})
	const scripts = maxTurns + 36
	var wg sync.WaitGroup
	var done, ended atomic.Int64
	for i := range scripts {
		c := dial(t, addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
		wg.Go(func() {
			switch reply := c.call(fmt.Sprintf(`EVAL "local n = 0 for i = 1, 100000 do n = n + 1 end return redis.call('incrby', KEYS[1], 1)" 1 k%d`, i)).(type) {
			case int64:
				done.Add(reply)
			case error:
				require.ErrorContains(t, reply, "BUSY "+errCrowded.Error())
				ended.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, scripts, done.Load()+ended.Load())
	require.GreaterOrEqual(t, done.Load(), int64(maxTurns))
	require.EqualValues(t, done.Load(), dial(t, addr).call("DBSIZE"))
}

// Steps that have had a place for long, on a machine that has given the process
// next to no time, are not ended for others: only what they have run counts.
func TestStarvedTurnsAreNotCrowded(t *testing.T) {
	all := newTurns(2)
	var cpu atomic.Int64
	cpu.Store(1)
	all.cpu = func() time.Duration { return time.Duration(cpu.Load()) }
	var stop atomic.Bool
	steps, errs := endless(t, all, maxTurns, &stop)
	waits := make(chan struct{})
	require.True(t, all.submit(anybody, func() { all.take(anybody).end(); close(waits) }))
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
	require.True(t, all.submit(anybody, func() {}), "this one looks who is to make room too")
	require.Empty(t, errs)
	select {
	case <-waits:
		t.Fatal("who has made room?")
	default:
	}
	cpu.Add(int64(2 * maxTurns * crowdedTime))
	<-waits
	require.ErrorIs(t, <-errs, errCrowded)
	stop.Store(true)
	all.close(context.Background())
	require.Equal(t, 2, all.free)
}

// Where the processor time is unknown the time itself counts.
func TestTurnsWithoutProcessorTime(t *testing.T) {
	all := newTurns(1)
	all.cpu = func() time.Duration { return 0 }
	x := all.take(anybody)
	time.Sleep(2 * time.Millisecond)
	require.GreaterOrEqual(t, x.ran(time.Now()), 2*time.Millisecond)
	require.True(t, x.hasRun(2*time.Millisecond, time.Now()))
	all.mu.Lock()
	x.leave(time.Now())
	all.mu.Unlock()
	require.GreaterOrEqual(t, x.ran(time.Now()), 2*time.Millisecond)
	all.mu.Lock()
	x.wait()
	all.mu.Unlock()
	x.end()
}

// A client with many connections, each of which has one short step after another,
// gets no more than another client with one.
func TestTurnsAreTheClients(t *testing.T) {
	all := newTurns(1)
	work := func(x *turn, d time.Duration) {
		for {
			all.mu.Lock()
			had := x.wall(time.Now())
			all.mu.Unlock()
			if had >= d || x.yield() != nil {
				return
			}
		}
	}
	var stop atomic.Bool
	var done atomic.Int64
	var clients sync.WaitGroup
	for range 30 {
		who := all.client("many", new(share))
		clients.Go(func() {
			for !stop.Load() {
				over := make(chan struct{})
				all.submit(who, func() {
					defer close(over)
					x := all.take(who)
					defer x.end()
					work(x, 2*time.Millisecond)
					done.Add(1)
				})
				<-over
			}
		})
	}
	eventually(t, "many steps have run", func() bool { return done.Load() > 50 })
	one := all.client("one", new(share))
	over := make(chan int64)
	require.True(t, all.submit(one, func() {
		x := all.take(one)
		defer x.end()
		before := done.Load()
		work(x, 20*time.Millisecond)
		over <- done.Load() - before
	}))
	require.Less(t, <-over, int64(60), "as many steps of the other client have gone first")
	stop.Store(true)
	clients.Wait()
	all.close(context.Background())
}

// What waits for room begins in the order of what clients have had.
func TestTheQueueIsTheClients(t *testing.T) {
	all := newTurns(1)
	all.admitted = maxTurns
	many, one := all.client("many", new(share)), all.client("one", new(share))
	many.address.add(time.Second, time.Now())
	began := ""
	for range 3 {
		require.True(t, all.submit(many, func() { began += "m" }))
	}
	require.True(t, all.submit(one, func() { began += "o" }))
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

// A step that has its place and does not ask shows at once, not after the minute
// that jobs may take; one that waits does not.
func TestStepsThatDoNotAskAreBusy(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	x := s.workers.turns.take(anybody)
	require.Less(t, s.Busy(), patience/2)
	s.workers.turns.mu.Lock()
	x.seen = x.seen.Add(-patience)
	s.workers.turns.mu.Unlock()
	require.GreaterOrEqual(t, s.Busy(), patience)
	require.NoError(t, x.yield())
	require.Less(t, s.Busy(), patience/2)
	x.end()
}
