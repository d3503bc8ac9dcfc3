package server

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// A loop, a stream or a worker that hangs shows, and a stop abandons it.
func TestWhatHangsShowsAndDoesNotHoldTheStop(t *testing.T) {
	s, err := newServer(Config{Parts: One(engine.New(engine.Config{}), nil), IOThreads: 1}, testCommands(nil))
	require.NoError(t, err)
	addr := serveOn(t, s)
	c := dial(t, addr)
	c.do("PING", "+PONG\r\n")
	time.Sleep(3 * heartbeatInterval)
	require.Less(t, s.Busy(), heartbeatInterval, "an idle server is not busy")
	c.send("test.hang 20s\r\n")
	eventually(t, "the loop to show", func() bool { return s.Busy() > 3*heartbeatInterval })

	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = s.Shutdown(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "is abandoned")
	require.Less(t, time.Since(begin), abandonAfter+patience)
}

func TestBusyLoopsAreNotStuck(t *testing.T) {
	s, addr := startServer(t, Config{IOThreads: 1})
	c := dial(t, addr)
	looks, late := 0, 0
	for begin := time.Now(); time.Since(begin) < 8*heartbeatInterval; looks++ {
		c.do("test.hang 5ms", "+OK\r\n")
		if s.Busy() >= 3*heartbeatInterval {
			late++
		}
	}
	require.LessOrEqual(t, late, looks/2, "of %d", looks)
}

func TestJobsAreCounted(t *testing.T) {
	p := newWorkers(1)
	free := make(chan struct{})
	require.True(t, p.submit(workBrief, false, func() { <-free }))
	require.True(t, p.submit(workLong, false, func() { <-free }))
	eventually(t, "the job to begin", func() bool { return p.began[0].Load() != 0 && p.began[1].Load() != 0 })
	require.InDelta(t, time.Hour, p.busy(time.Now().Add(time.Hour)), float64(time.Minute))
	p.began[0].Store(0)
	require.Zero(t, p.busy(time.Now()), "a long job may take a while")
	require.InDelta(t, time.Hour-longJob, p.busy(time.Now().Add(time.Hour)), float64(time.Second))
	close(free)
	p.close(context.Background())
	require.Zero(t, p.busy(time.Now().Add(time.Hour)))
}

// Of a thousand requests over HTTP some are not scheduled for a while; that is no
// reason to restart the process.
func TestCallsAreNotBusy(t *testing.T) {
	s := newTestServer(t, Config{IOThreads: 1}, nil)
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := s.Caller().line(t.Context(), "test.hang 600ms")
		require.NoError(t, err)
	})
	for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; time.Sleep(heartbeatInterval / 4) {
		require.Less(t, s.Busy(), heartbeatInterval)
	}
	calls.Wait()
}

// A file of policies of megabytes is no reason to start a node again.
func TestFilesOfPoliciesMayTakeLong(t *testing.T) {
	s, _ := startServer(t, Config{})
	for _, sub := range []string{"CHECK", "LOAD", "FILE", "RESET"} {
		cmd := s.table.Find([][]byte{[]byte("RL.POLICY"), []byte(sub), []byte("x")})
		require.NotNil(t, cmd, sub)
		require.Equal(t, workLong, workKind(cmd), sub)
	}
}
