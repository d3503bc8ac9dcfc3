package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// do runs a command written as a line.
func (c *Caller) line(ctx context.Context, line string) (resp.Reply, error) {
	var args [][]byte
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	return c.Do(ctx, args...)
}

// says runs a command and returns its reply as text: a status, a string, a
// number or an error.
func says(t *testing.T, c *Caller, line string) string {
	t.Helper()
	r, err := c.line(t.Context(), line)
	require.NoError(t, err, line)
	switch {
	case r.Error() != "":
		return "-" + r.Error()
	case r.Type == ':':
		return fmt.Sprint(r.Int)
	}
	return r.Str
}

// perMinute is a call of one limit of n a minute.
func perMinute(key string, n int64) *LimitCall {
	return &LimitCall{Segs: []engine.Segment{{Key: []byte(key), Limit: algo.Limit{Limit: n, Period: int64(time.Minute)}, Cost: 1}}}
}

func TestCallerOnItsOwn(t *testing.T) {
	s := newTestServer(t, Config{Runtime: Runtime{RequirePass: "secret"}}, nil)
	c := s.Caller()
	require.Equal(t, "PONG", says(t, c, "PING"))
	require.Equal(t, "-ERR unknown command 'nosuch', with args beginning with: 'a' ", says(t, c, "nosuch a"))
	require.Equal(t, "-ERR wrong number of arguments for 'ttl' command", says(t, c, "TTL"))
	r, err := c.line(t.Context(), "RL.LIMIT k 10 60")
	require.NoError(t, err)
	require.Equal(t, int64(9), r.Field("remaining").Int)
	require.Equal(t, "1", says(t, c, "EXISTS k"))
	require.Equal(t, "w", says(t, c, "test.work w"), "a worker's")
	var out [1]algo.Decision
	a, err := c.Decide(t.Context(), perMinute("k", 10), out[:])
	require.NoError(t, err)
	require.Equal(t, LimitAnswer{}, a)
	require.Equal(t, int64(8), out[0].Remaining)
	passed, denied := s.stats.decisions()
	require.Equal(t, []uint64{2, 0}, []uint64{passed, denied})
	require.Empty(t, s.clients.list(), "no client")

	wrong := perMinute("k", 10)
	wrong.Segs[0].Limit.Algorithm = algo.Fixed
	_, err = c.Decide(t.Context(), wrong, out[:])
	require.EqualError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value")
	require.ErrorAs(t, err, new(ReplyError))
	_, err = c.Decide(t.Context(), &LimitCall{}, nil)
	require.EqualError(t, err, "ERR a call needs at least one limit")
}

func TestCallerRefusesCommandsAboutConnections(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	for _, line := range []string{"MULTI", "EXEC", "DISCARD", "WATCH k", "UNWATCH", "SUBSCRIBE a", "PSUBSCRIBE a", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE a", "SUNSUBSCRIBE",
		"MONITOR", "HELLO 3", "AUTH x", "SELECT 0", "QUIT", "RESET", "CLIENT REPLY OFF", "CLIENT ID", "SHUTDOWN", "RL.CHARGE n 1 k 1 1 1 1 1 1 1 1 1"} {
		_, err := s.Caller().line(t.Context(), line)
		require.ErrorIs(t, err, ErrNeedsConnection, line)
	}
	require.Equal(t, "PONG", says(t, s.Caller(), "PING"))
}

func TestCallerAllocatesNothing(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	q, out, ctx := perMinute("k", 1e6), make([]algo.Decision, 1), t.Context()
	call := func() {
		if _, err := s.Caller().Decide(ctx, q, out); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		call()
	}
	require.Zero(t, testing.AllocsPerRun(200, call))
}

func TestCallerFromManyGoroutines(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			var out [1]algo.Decision
			for range 200 {
				_, err := s.Caller().Decide(t.Context(), perMinute("k", 2*16*200), out[:])
				require.NoError(t, err)
				_, err = s.Caller().line(t.Context(), "CL.THROTTLE cell 6399 6400 60")
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	r, err := s.Caller().line(t.Context(), "RL.LIMIT k 6400 60 PEEK COST 0")
	require.NoError(t, err)
	require.LessOrEqual(t, r.Field("remaining").Int, int64(3200+100))
}

// A reply waits for its commit, and is an error if that fails.
func TestCallerWaitsForCommits(t *testing.T) {
	for _, durable := range []bool{true, false} {
		n := startNode(t, partition.Leading, Config{})
		q := perMinute("k", 10)
		if durable {
			n.set(func(f *fakeCluster) { f.durable = true })
		} else {
			q.Sync = command.SyncCommit
		}
		for _, failure := range []error{nil, partition.ErrUncertain} {
			done := make(chan error, 1)
			ticket := n.ticket.Add(1)
			go func() {
				var out [1]algo.Decision
				_, err := n.Caller().Decide(t.Context(), q, out[:])
				done <- err
			}()
			select {
			case err := <-done:
				t.Fatalf("answered before its commit: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			n.Partition().Release(ticket, failure)
			if err := <-done; failure != nil {
				require.EqualError(t, err, failure.Error())
			} else {
				require.NoError(t, err)
			}
		}
	}
}

// A node that holds its replies for pace answers a Caller when they may leave.
func TestCallerWhileHolding(t *testing.T) {
	n := startNode(t, partition.Waiting, Config{})
	done := make(chan error, 1)
	go func() {
		_, err := n.Caller().line(t.Context(), "CL.THROTTLE k 1 1 1")
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("answered before its commit: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	n.Partition().Release(n.ticket.Load(), nil)
	require.NoError(t, <-done)
}

// On a follower commands and chains go to the leader.
func TestCallerForwards(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	c := follower.Caller()
	q := &LimitCall{Segs: []engine.Segment{
		{Key: []byte("a"), Limit: algo.Limit{Limit: 5, Period: int64(time.Hour), Algorithm: algo.Fixed}, Cost: 1},
		{Key: []byte("b"), Limit: algo.Limit{Limit: 2, Period: int64(time.Hour), Algorithm: algo.Fixed}, Cost: 1},
	}}
	var out [2]algo.Decision
	for i := range int64(3) {
		a, err := c.Decide(t.Context(), q, out[:])
		require.NoError(t, err)
		require.Equal(t, LimitAnswer{Binding: 1}, a)
		require.Equal(t, i < 2, out[1].OK)
		require.Equal(t, max(1-i, 0), out[1].Remaining)
	}
	require.Equal(t, "2", says(t, leader.Caller(), "EXISTS a b"))
	require.Equal(t, "2", says(t, c, "DEL a b"))
	require.Equal(t, "0", says(t, leader.Caller(), "EXISTS a b"))
}

// Without a leader the failure policy answers, in both forms.
func TestCallerWithoutLeader(t *testing.T) {
	for policy, want := range map[partition.OnFailure]string{
		partition.FailClosed: "CLUSTERDOWN no leader is known", partition.FailOpen: "", partition.FailLocal: "",
	} {
		n := startNode(t, partition.Orphaned, Config{OnFailure: policy})
		n.set(func(f *fakeCluster) { f.topology = threeNodes("n1") })
		var out [1]algo.Decision
		a, err := n.Caller().Decide(t.Context(), perMinute("k", 9), out[:])
		if want != "" {
			require.EqualError(t, err, want)
		} else {
			require.NoError(t, err)
			require.True(t, a.Degraded)
			require.True(t, out[0].OK)
		}
		require.Equal(t, "-CLUSTERDOWN no leader is known", says(t, n.Caller(), "TYPE k"))
	}
}

// A caller that gives up does not wait, and its call is in nobody's way.
func TestCallerIsCancelled(t *testing.T) {
	n := startNode(t, partition.Leading, Config{})
	n.set(func(f *fakeCluster) { f.durable = true })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := n.Caller().line(ctx, "CL.THROTTLE k 1 1 1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = n.Caller().line(ctx, "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded, "not begun")
	n.Partition().Release(n.ticket.Load(), nil)
	eventually(t, "the line is back", func() bool {
		c := n.Caller()
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.free) == c.made
	})
	require.Equal(t, "PONG", says(t, n.Caller(), "PING"))
}

func TestCallsAreBounded(t *testing.T) {
	n := startNode(t, partition.Leading, Config{})
	n.set(func(f *fakeCluster) { f.durable = true })
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range maxLines {
		all.Go(func() { _, _ = n.Caller().line(ctx, "CL.THROTTLE k 1 1 1") })
	}
	eventually(t, "all wait", func() bool { return n.Stats().Held == maxLines })
	_, err := n.Caller().line(t.Context(), "PING")
	require.ErrorIs(t, err, ErrBusy)
	cancel()
	all.Wait()
	n.Partition().Release(n.ticket.Load(), nil)
}

func TestCallerEndsWithItsServer(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	slow := make(chan error, 1)
	go func() {
		_, err := s.Caller().line(context.Background(), "test.work w")
		slow <- err
	}()
	eventually(t, "it runs", func() bool {
		c := s.Caller()
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.made == 1
	})
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-slow, "what was under way is finished")
	_, err := s.Caller().line(t.Context(), "PING")
	require.ErrorIs(t, err, ErrClosed)
}

func BenchmarkCaller(b *testing.B) {
	e := engine.New(engine.Config{})
	s := newTestServer(b, Config{Parts: One(e, nil)}, nil)
	q, out, ctx := perMinute("user:123", 1e9), make([]algo.Decision, 1), b.Context()
	b.Run("engine", func(b *testing.B) {
		sess := e.NewSession()
		defer sess.Close()
		seg := &q.Segs[0]
		b.ReportAllocs()
		for b.Loop() {
			_, _ = sess.Decide(e.Now(), seg.Key, seg.Limit, 1, &q.Opts)
		}
	})
	b.Run("decide", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Caller().Decide(ctx, q, out)
		}
	})
	b.Run("do", func(b *testing.B) {
		args := [][]byte{[]byte("CL.THROTTLE"), []byte("user:1"), []byte("15"), []byte("30"), []byte("60")}
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Caller().Do(ctx, args...)
		}
	})
}

// Commands of calls that Shutdown has cut off are refused, or end with them: the server is gone
// by then.
func TestShutdownCutsCallsOff(t *testing.T) {
	for range 10 {
		s := newTestServer(t, Config{}, nil)
		ctx, cut := context.WithCancel(context.Background())
		var calls sync.WaitGroup
		for _, line := range []string{"KEYS *", "INFO", "EVAL return(1) 0", "EVAL while(true)do(redis.call)('get',KEYS[1])end 1 k", "PING"} {
			calls.Go(func() {
				for {
					if _, err := s.Caller().line(ctx, line); err != nil {
						return
					}
				}
			})
		}
		time.Sleep(time.Millisecond)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(over)
		cut()
		calls.Wait()
	}
}

func TestJobsOfAClosedServerAreRefused(t *testing.T) {
	p := newWorkers(1)
	p.close(context.Background())
	for _, kind := range []int{workBrief, workLong, workTurns} {
		require.False(t, p.submit(kind, true, func() {}))
	}
	require.Zero(t, p.deciding.Load())
}

// A call whose job Shutdown has dropped or abandoned ends with the server, however long it
// would wait.
func TestCallsEndWithTheirServer(t *testing.T) {
	s := newTestServer(t, Config{Workers: 1}, nil)
	release := make(chan struct{})
	require.True(t, s.workers.submit(workBrief, false, func() { <-release }))
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() {
			_, err := s.Caller().line(context.Background(), "test.work w")
			ended <- err
		}()
	}
	eventually(t, "they wait", func() bool { return len(s.workers.kinds[workBrief]) == cap(ended) })
	over, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, s.Shutdown(over))
	for range cap(ended) {
		select {
		case err := <-ended:
			require.ErrorIs(t, err, ErrCutOff)
		case <-time.After(patience):
			t.Fatal("the call does not end")
		}
	}
	close(release)
}

// A pipeline is answered in order, and has no commands about connections.
func TestCallerPipeline(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	commands := func(lines ...string) (b []byte) {
		for _, line := range lines {
			b = resp.AppendCommand(b, strings.Fields(line))
		}
		return b
	}
	out, err := s.Caller().Pipeline(t.Context(), nil, []byte("x"), commands("SET k 1", "INCR k", "test.work w", "GET k", "nosuch", "MULTI", "INCR k", "SELECT 1", "CLIENT NO-EVICT on", "GET k"))
	require.NoError(t, err)
	require.Equal(t, "x+OK\r\n:2\r\n$1\r\nw\r\n$1\r\n2\r\n-ERR unknown command 'nosuch', with args beginning with: \r\n"+
		"-ERR unknown command 'MULTI', with args beginning with: \r\n:3\r\n-ERR unknown command 'SELECT', with args beginning with: '1' \r\n"+
		"-ERR unknown subcommand 'NO-EVICT'. Try CLIENT HELP.\r\n$1\r\n3\r\n", string(out))

	// More than fits into a connection's buffers at once.
	many := commands("PING")
	for range 49 {
		many = append(many, commands("test.big 100000")...)
	}
	out, err = s.Caller().Pipeline(t.Context(), nil, nil, many)
	require.NoError(t, err)
	require.Equal(t, len("+PONG\r\n")+49*len("$100000\r\n\r\n")+49*100000, len(out))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err = s.Caller().Pipeline(ctx, nil, []byte("x"), commands("INCR k"))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "x", string(out))
	require.Equal(t, "3", says(t, s.Caller(), "GET k"))

	allocs := testing.AllocsPerRun(200, func() {
		if out, err = s.Caller().Pipeline(t.Context(), nil, out[:0], many[:len("*1\r\n$4\r\nPING\r\n")]); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, allocs)
}

// A call whose replies are too long ends, although later commands of it have not run, and
// leaves no memory in the account.
func TestAKilledCallEnds(t *testing.T) {
	one := startGroups(t, Config{OutputBufferSoft: 256 << 10, OutputBufferLimit: 256 << 10}, partition.Leading, partition.Following)
	two := startGroups(t, Config{}, partition.Following, partition.Leading)
	one.follow(1, two)
	dial(t, one.addr).do("SETRANGE "+low+" 99999 x", ":100000\r\n")
	dial(t, two.addr).do("SETRANGE "+high+" 99999 x", ":100000\r\n")
	one.groups[0].set(func(f *fakeCluster) { f.durable = true })
	commands := []byte(strings.Repeat("GET "+low+"\r\n", 2) + strings.Repeat("GET "+high+"\r\n", 2) + "PING\r\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := one.Caller().Pipeline(ctx, nil, nil, commands)
	require.EqualError(t, err, "ERR the reply exceeds client-output-buffer-limit")
	require.Zero(t, one.Caller().made)
	require.Zero(t, one.memory.Total())
	require.Zero(t, one.Stats().Held)
}

// A call that is cut off for lack of memory says so, and the next one is answered.
func TestACallWithoutMemoryIsCutOff(t *testing.T) {
	s := newTestServer(t, Config{Runtime: Runtime{ClientMemory: 8 << 20}}, nil)
	require.Equal(t, "100000", says(t, s.Caller(), "SETRANGE k 99999 x"))
	const others = 16 << 20
	require.True(t, s.memory.Borrow(others))
	_, err := s.Caller().line(t.Context(), "GET k")
	require.EqualError(t, err, "ERR the call was cut off: all clients together take more memory than maxmemory-clients")
	s.memory.Add(-others)
	require.Len(t, says(t, s.Caller(), "GET k"), 100000)
	require.Zero(t, s.memory.Total())
}
