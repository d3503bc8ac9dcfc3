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

// endless submits n steps that ask now and then until stop is set, and returns
// them once they run, and the errors that they end with.
func endless(t *testing.T, all *turns, n int, stop *atomic.Bool) ([]*turn, chan error) {
	t.Helper()
	steps, errs := make(chan *turn, n), make(chan error, n)
	for range n {
		require.True(t, all.submit(func() {
			x := all.take()
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
		require.True(t, all.submit(func() {
			x := all.take()
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
		require.True(t, all.submit(func() {
			x := all.take()
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
	require.True(t, all.submit(func() { all.take().end(); close(small) }))
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
	require.True(t, all.submit(func() { all.take().end(); close(waits) }))
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
	require.True(t, all.submit(func() {}), "this one looks who is to make room too")
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
	x := all.take()
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
