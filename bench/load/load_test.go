package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
)

// fakeServer speaks enough RESP to be loaded: it answers each command with
// what reply returns, after its pause.
type fakeServer struct {
	addr  string
	stop  func() // closes it with its connections
	reply func(args []string) string
	// stall, if set, is called before a batch of replies is written.
	stall func()
	seen  sync.Map // second argument -> true
	calls atomic.Int64
}

func (s *fakeServer) start(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = ln.Addr().String()
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	var conns sync.Map
	s.stop = func() {
		ln.Close()
		conns.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
	}
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, true)
			wg.Go(func() { defer conn.Close(); s.serve(conn) })
		}
	})
}

func (s *fakeServer) serve(conn net.Conn) {
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		s.calls.Add(1)
		if len(args) > 1 {
			s.seen.Store(args[1], true)
		}
		rep := s.reply(args)
		if rep == "" {
			return
		}
		out.WriteString(rep)
		if in.Buffered() == 0 {
			if s.stall != nil {
				s.stall()
			}
			if out.Flush() != nil {
				return
			}
		}
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number()
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(in, arg); err != nil {
			return nil, err
		}
		args[i] = string(arg[:size])
	}
	return args, nil
}

func config(addr string) Config {
	return Config{
		Addr: addr, Clients: 4, Pipeline: 1, Keys: 100, Duration: 300 * time.Millisecond,
		Command: []string{"CL.THROTTLE", "key:" + Placeholder, "15", "30", "60"},
	}
}

func TestClosedLoopCountsDecisions(t *testing.T) {
	var n atomic.Int64
	s := &fakeServer{reply: func([]string) string {
		return fmt.Sprintf("*5\r\n:%d\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", n.Add(1)%4/3) // every fourth is limited
	}}
	s.start(t)
	cfg := config(s.addr)
	cfg.Pipeline = 8
	cfg.Warmup = 50 * time.Millisecond
	res, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.Equal(t, res.Replies, res.Allowed+res.Denied)
	require.InDelta(t, 3, float64(res.Allowed)/float64(res.Denied), 0.05)
	require.Less(t, res.Replies, s.calls.Load(), "the warm-up must not count")
	require.InDelta(t, float64(res.Replies)/0.3, res.Rate, res.Rate/20)
	require.Zero(t, res.Unanswered)
	require.Empty(t, res.Errors)
	keys := 0
	s.seen.Range(func(k, _ any) bool {
		require.Len(t, k, len("key:")+len(Placeholder))
		keys++
		return true
	})
	require.Equal(t, 100, keys, "a thousand uniform draws meet every one of 100 keys")
}

func TestCountAndSequentialUseEveryKeyOnce(t *testing.T) {
	s := &fakeServer{reply: func([]string) string { return ":1\r\n" }}
	s.start(t)
	cfg := config(s.addr)
	cfg.Keys, cfg.Count, cfg.Sequential = 1003, 1003, true
	cfg.Pipeline, cfg.Duration = 16, time.Minute
	res, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.EqualValues(t, 1003, s.calls.Load())
	require.EqualValues(t, 1003, res.Replies)
	require.Less(t, res.Duration, 10*time.Second)
	keys := 0
	s.seen.Range(func(any, any) bool { keys++; return true })
	require.Equal(t, 1003, keys)
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	s := &fakeServer{reply: func([]string) string { return "+PONG\r\n" }}
	s.start(t)
	cfg := config(s.addr)
	cfg.Command = []string{"PING"}
	cfg.Rate = 2000
	cfg.Duration = time.Second
	res, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.EqualValues(t, 2000, s.calls.Load())
	require.InDelta(t, 2000, res.Rate, 400, "a reply after the end does not count, and a busy machine has some")
	require.Zero(t, res.Unsent+res.Unanswered)
}

// A server that stops once for 200 ms delays every command that is due in the
// pause. A generator that waited for replies before it sent would see a single
// slow reply per connection.
func TestOpenLoopDoesNotOmitDelays(t *testing.T) {
	var once sync.Once
	started := time.Now()
	var pause sync.RWMutex
	s := &fakeServer{reply: func([]string) string { return "+PONG\r\n" }}
	s.stall = func() {
		if time.Since(started) > 300*time.Millisecond {
			once.Do(func() {
				pause.Lock()
				time.Sleep(200 * time.Millisecond)
				pause.Unlock()
			})
		}
		pause.RLock()
		defer pause.RUnlock()
	}
	s.start(t)
	cfg := config(s.addr)
	cfg.Command = []string{"PING"}
	cfg.Rate = 1000
	cfg.Duration = time.Second
	res, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	// 200 of 1000 commands waited 100 ms on average, so the 90th percentile
	// lies in the middle of the pause. Of 4 slow replies it would show nothing.
	require.Greater(t, res.Latency.P90, 60*time.Millisecond)
	require.Greater(t, res.Latency.Max, 180*time.Millisecond)
}

// An overloaded server gets what it can take; the rest is accounted for.
func TestOpenLoopOverload(t *testing.T) {
	s := &fakeServer{
		reply: func([]string) string { return "+PONG\r\n" },
		stall: func() { time.Sleep(50 * time.Millisecond) },
	}
	s.start(t)
	cfg := config(s.addr)
	cfg.Command = []string{"ECHO", strings.Repeat("x", 32<<10)}
	cfg.Rate = 20_000
	cfg.Duration = 500 * time.Millisecond
	cfg.Drain = 300 * time.Millisecond
	started := time.Now()
	res, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.Less(t, time.Since(started), 3*time.Second)
	require.Empty(t, res.Errors, "a slow server is not a broken one")
	require.Positive(t, res.Unsent)
	require.Less(t, res.Unsent, int64(10_000))
	require.LessOrEqual(t, s.calls.Load(), 10_000-res.Unsent, "what was sent covers what arrived")
	require.Greater(t, res.Latency.Max, 50*time.Millisecond)
}

func TestErrorsByKind(t *testing.T) {
	var n atomic.Int64
	s := &fakeServer{reply: func([]string) string {
		switch k := n.Add(1); {
		case k%2 == 0:
			return "-OOM command not allowed\r\n"
		case k > 500 && k < 520:
			return "" // close the connection
		}
		return ":1\r\n"
	}}
	s.start(t)
	res, err := Run(context.Background(), config(s.addr))
	require.NoError(t, err)
	require.Greater(t, res.Errors["OOM"], int64(200))
	require.EqualValues(t, 10, res.Errors["closed"])
	require.Equal(t, res.Failures(), res.Errors["OOM"]+10)
	require.Equal(t, map[string]string{"OOM": "OOM command not allowed", "closed": "EOF"}, res.Causes)
}

// A server that closes every connection, as one that hands over does, costs
// what was under way and nothing else.
func TestReconnect(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		var n atomic.Int64
		s := &fakeServer{reply: func(args []string) string {
			if k := n.Add(1); args[0] != "AUTH" && k > 100 && k <= 104 {
				return ""
			}
			return "+OK\r\n"
		}}
		s.start(t)
		cfg := config(s.addr)
		cfg.Password, cfg.Rate, cfg.Duration = "sesame", rate, time.Second
		res, err := Run(context.Background(), cfg)
		require.NoError(t, err)
		lost := res.Failures()
		require.Positive(t, lost)
		require.LessOrEqual(t, lost, int64(4))
		require.Zero(t, res.Errors["connect"])
		require.GreaterOrEqual(t, res.Unanswered, lost)
		require.Less(t, res.Unsent, int64(200), "a connection's share of the rest is 225")
		require.Greater(t, res.Replies, int64(500))
	}
}

// A server that is gone is asked for again and again, and the seconds before
// count.
func TestServerGone(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		s := &fakeServer{reply: func([]string) string { return "+OK\r\n" }}
		s.start(t)
		time.AfterFunc(300*time.Millisecond, s.stop)
		cfg := config(s.addr)
		cfg.Duration, cfg.Warmup, cfg.Clients, cfg.Rate = time.Second, 0, 2, rate
		res, err := Run(context.Background(), cfg)
		require.ErrorIs(t, err, errAllBroken)
		require.Greater(t, res.Replies, int64(100))
		require.EqualValues(t, 2, res.Failures()-res.Errors["connect"])
		require.Greater(t, res.Errors["connect"], int64(4))
		require.Less(t, res.Errors["connect"], int64(20), "ever longer pauses")
		require.Contains(t, res.Causes["connect"], "connection refused")
	}
}

func TestGarbageIsAnError(t *testing.T) {
	s := &fakeServer{reply: func([]string) string { return "HTTP/1.1 400 Bad Request\r\n" }}
	s.start(t)
	res, err := Run(context.Background(), config(s.addr))
	require.ErrorIs(t, err, errAllBroken)
	require.ErrorIs(t, err, errProtocol)
	require.GreaterOrEqual(t, res.Errors["protocol"], int64(4))
	require.Less(t, res.Errors["protocol"], int64(40), "ever longer pauses")
}

func TestCancelEndsARun(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		s := &fakeServer{reply: func([]string) string { return "+OK\r\n" }}
		s.start(t)
		cfg := config(s.addr)
		cfg.Rate, cfg.Duration = rate, time.Minute
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		res, err := Run(ctx, cfg)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Positive(t, res.Replies)
		require.Less(t, res.Duration, 5*time.Second)
		require.Empty(t, res.Errors, "an interrupt is not the server's fault")
	}
}

func TestAuthentication(t *testing.T) {
	s := &fakeServer{reply: func(args []string) string {
		if args[0] == "AUTH" && args[1] != "sesame" {
			return "-WRONGPASS invalid username-password pair\r\n"
		}
		return "+OK\r\n"
	}}
	s.start(t)
	cfg := config(s.addr)
	cfg.Password = "sesame"
	_, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	cfg.Password = "wrong"
	_, err = Run(context.Background(), cfg)
	require.ErrorContains(t, err, "WRONGPASS")
}

func TestScanReply(t *testing.T) {
	for _, tc := range []struct {
		in    string
		n     int
		first int64
		err   bool
	}{
		{in: "+OK\r\n:1\r\n", n: 5},
		{in: ":-7\r\n", n: 5, first: -7},
		{in: "$-1\r\n", n: 5},
		{in: "$3\r\nabc\r\n", n: 9},
		{in: "$3\r\nabc"},
		{in: "*-1\r\n", n: 5},
		{in: "*0\r\n", n: 4},
		{in: "*2\r\n:1\r\n*1\r\n:5\r\n", n: 16, first: 1},
		{in: "*2\r\n:1\r\n"},
		{in: ":12\r"},
		{in: "", n: 0},
		{in: "%1\r\n"},
		{in: "?1\r\n", err: true},
		{in: "\n", err: true},
		{in: ":x\r\n", err: true},
		{in: "*-2\r\n", err: true},
		{in: strings.Repeat("*1\r\n", 1<<20)},
	} {
		rep, n, err := scanReply([]byte(tc.in))
		require.Equal(t, tc.err, err != nil, "%q", tc.in)
		require.Equal(t, tc.n, n, "%q", tc.in)
		require.Equal(t, tc.first, rep.first, "%q", tc.in)
	}
}

func BenchmarkScanReply(b *testing.B) {
	in := []byte("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
	for b.Loop() {
		_, _, _ = scanReply(in)
	}
}

func FuzzScanReply(f *testing.F) {
	f.Add([]byte("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n"))
	f.Add([]byte("-ERR x\r\n"))
	f.Add([]byte("$9223372036854775807\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, n, err := scanReply(b)
		require.True(t, n >= 0 && n <= len(b))
		require.True(t, err == nil || n == 0)
	})
}

func TestTemplate(t *testing.T) {
	cmd := compile([]string{"X", "a" + Placeholder + "b" + Placeholder})
	require.Equal(t, "*2\r\n$1\r\nX\r\n$26\r\na000000000042b000000000042\r\n", string(cmd.append(nil, 42)))
	require.Equal(t, "999999999999", string(cmd.append(nil, maxKeys-1))[17:29])
}

func TestKeysAreDrawn(t *testing.T) {
	draw := func(cfg Config) map[uint64]int {
		pick, seen := picker(&cfg, 0, new(atomic.Uint64)), map[uint64]int{}
		for range 10_000 {
			seen[pick()]++
		}
		return seen
	}
	uniform := draw(Config{Keys: 10})
	require.Len(t, uniform, 10)
	require.InDelta(t, 1000, uniform[3], 150)
	require.Equal(t, draw(Config{Keys: 1000, Seed: 5}), draw(Config{Keys: 1000, Seed: 5}))
	require.NotEqual(t, draw(Config{Keys: 1000, Seed: 5}), draw(Config{Keys: 1000, Seed: 6}))
}

func TestScheduleCoversEveryBatchOnce(t *testing.T) {
	plan := newSchedule(&Config{Pipeline: 3, Rate: 300, Clients: 7})
	for _, n := range []int64{0, 1, 6, 7, 8, 700, 701} {
		var sum int64
		for i := range plan.clients {
			sum += plan.share(n, i)
		}
		require.Equal(t, n, sum)
	}
	require.EqualValues(t, 1, plan.due(0))
	require.EqualValues(t, 101, plan.due(time.Second))
	require.Equal(t, plan.at(7+2), plan.dueAt(3, 2), "the fourth command of connection 2 opens its second batch")
}

func TestConfigErrorsNameTheSetting(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"addr":     func(c *Config) { c.Addr = "" },
		"clients":  func(c *Config) { c.Clients = 0 },
		"pipeline": func(c *Config) { c.Pipeline = 0 },
		"command":  func(c *Config) { c.Command = nil },
		"keys":     func(c *Config) { c.Keys = maxKeys + 1 },
		"rate":     func(c *Config) { c.Rate = -1 },
		"duration": func(c *Config) { c.Duration = 0 },
		"warmup":   func(c *Config) { c.Warmup = -1 },
	} {
		cfg := config("127.0.0.1:1")
		change(&cfg)
		_, err := Run(context.Background(), cfg)
		require.ErrorContains(t, err, want+":")
	}
}

// TestRedis loads a real server, so that the fake one cannot share a
// misunderstanding with the generator.
func TestRedis(t *testing.T) {
	addr := redistest.Start(t, "--requirepass", "sesame")
	for _, rate := range []float64{0, 5000} {
		cfg := config(addr)
		cfg.Command, cfg.Password, cfg.Rate, cfg.Pipeline = []string{"PING"}, "sesame", rate, 4
		res, err := Run(context.Background(), cfg)
		require.NoError(t, err)
		require.Empty(t, res.Errors)
		require.Positive(t, res.Replies)
		require.Zero(t, res.Unanswered)
	}
	cfg := config(addr)
	cfg.Command, cfg.Password = []string{"NOSUCH", Placeholder}, "sesame"
	res, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.Equal(t, res.Replies, res.Errors["ERR"])
}
