package sdk_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/goredis"
	"github.com/headgate-io/headgate/clients/go/httplimit"
	adapter "github.com/headgate-io/headgate/clients/go/rueidis"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/linkfault"
)

// connects makes a client of nodes by each library.
var connects = map[string]func(addresses []string, o headgate.Options) *headgate.Client{
	"go-redis": func(addresses []string, o headgate.Options) *headgate.Client { return goredis.New(addresses, nil, o) },
	"rueidis": func(addresses []string, o headgate.Options) *headgate.Client {
		return adapter.New(rueidis.ClientOption{InitAddress: addresses}, o)
	},
}

var quiet = slog.New(slog.DiscardHandler)

// stalls measures for how long this process was not run when it was due.
type stalls struct {
	end   chan struct{}
	worst atomic.Int64
}

func watchStalls() *stalls {
	s := &stalls{end: make(chan struct{})}
	go func() {
		for last := time.Now(); ; {
			select {
			case <-s.end:
				return
			case <-time.After(time.Millisecond):
			}
			now := time.Now()
			s.worst.Store(max(s.worst.Load(), int64(now.Sub(last))))
			last = now
		}
	}()
	return s
}

func (s *stalls) stop() time.Duration {
	close(s.end)
	return time.Duration(s.worst.Load())
}

// seen is what the callers of a service got.
type seen struct {
	mu       sync.Mutex
	statuses map[int]int
	times    []time.Duration
}

// load has workers ask, each every so often, until end is closed.
func (s *seen) load(workers int, every time.Duration, end chan struct{}, ask func() int) {
	s.statuses = make(map[int]int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for {
				select {
				case <-end:
					return
				case <-ticker.C:
				}
				began := time.Now()
				status := ask()
				took := time.Since(began)
				s.mu.Lock()
				s.statuses[status]++
				s.times = append(s.times, took)
				s.mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(s.times)
}

func (s *seen) part(of float64) time.Duration { return s.times[int(of*float64(len(s.times)-1))] }

// back waits until a client has closed its breaker, and demands that it is soon.
func back(t *testing.T, c *headgate.Client, since time.Time) {
	for c.Stats().Away {
		if !assert.Less(t, time.Since(since), 3*time.Second, "the breaker is open after the server has come back") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestOutages has a service under load whose limiter is killed, stopped, and cut off.
func TestOutages(t *testing.T) {
	t.Parallel()
	for library, connect := range connects {
		for _, fault := range []string{"SIGKILL", "SIGSTOP", "cut"} {
			t.Run(library+"/"+fault, func(t *testing.T) {
				t.Parallel()
				outage(t, connect, fault)
			})
		}
	}
}

func outage(t *testing.T, connect func([]string, headgate.Options) *headgate.Client, fault string) {
	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop() }) // killed on purpose
	link, err := linkfault.New("127.0.0.1:0", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = link.Close() })
	c := connect([]string{link.Addr()}, headgate.Options{Logger: quiet})
	// A lease whose reply is lost takes units along, so the exact ones have none.
	limit := headgate.Limit{Units: 20_000, Period: 24 * time.Hour, NoLease: fault != "SIGKILL"}
	wrap, err := httplimit.New(c, httplimit.Options{Limit: limit, Name: "all", Key: func(*http.Request) string { return "" }})
	require.NoError(t, err)
	service := httptest.NewServer(wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
	defer service.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}
	ask := func() int {
		r, err := client.Get(service.URL)
		if err != nil {
			return 0
		}
		_ = r.Body.Close()
		return r.StatusCode
	}
	ask() // connects

	var got seen
	end, done := make(chan struct{}), make(chan struct{})
	watch := watchStalls()
	go func() {
		got.load(8, 25*time.Millisecond, end, ask)
		close(done)
	}()
	time.Sleep(time.Second)
	var heal func()
	switch fault {
	case "SIGKILL":
		s.Kill()
		heal = func() { require.NoError(t, s.Restart()) }
	case "SIGSTOP":
		require.NoError(t, s.Signal(syscall.SIGSTOP))
		heal = func() { require.NoError(t, s.Signal(syscall.SIGCONT)) }
	case "cut":
		link.Set(linkfault.Hold)
		heal = func() { link.Set(linkfault.Faults{}) }
	}
	time.Sleep(2 * time.Second)
	assert.True(t, c.Stats().Away, "the breaker is closed while the server is away")
	heal()
	back(t, c, time.Now())
	time.Sleep(time.Second)
	close(end)
	<-done
	stalled := watch.stop()
	if c.Stats().Away { // the machine was too slow for the server
		back(t, c, time.Now())
		time.Sleep(200 * time.Millisecond)
	}
	st := c.Stats()
	t.Logf("%v, p50 %v, p99 %v, worst %v, stalled %v; %+v", got.statuses, got.part(0.5), got.part(0.99), got.part(1), stalled, st)
	admitted := got.statuses[http.StatusNoContent] + 1
	assert.Len(t, got.statuses, 1, "all requests were admitted, since the share is large")
	assert.Less(t, got.part(0.99), 60*time.Millisecond+stalled)
	assert.Less(t, got.part(1), 60*time.Millisecond+3*stalled)
	assert.Positive(t, st.Opened)
	if stalled < 10*time.Millisecond {
		assert.Equal(t, int64(1), st.Opened)
	}
	assert.Positive(t, st.Fallback)

	// The outage is charged once. What was in flight as it began may be charged or not, but not twice.
	if fault == "SIGKILL" { // the server has forgotten what was before
		assert.InDelta(t, st.Fallback, st.ChargedBack, float64(st.Failures))
		require.NoError(t, c.Close(context.Background()))
		return
	}
	require.NoError(t, c.Close(context.Background()))
	reader := goredis.New([]string{s.Addr}, nil, headgate.Options{Timeout: 5 * time.Second})
	defer func() { _ = reader.Close(context.Background()) }()
	d, err := reader.Peek(context.Background(), "all:", limit, 1)
	require.NoError(t, err)
	require.Equal(t, headgate.Server, d.Source)
	assert.GreaterOrEqual(t, d.Remaining, int64(20_000-admitted-2), "what is left")
	assert.LessOrEqual(t, d.Remaining, 20_000-int64(admitted)+st.Failures+2, "what is left")
}

// TestLeaderKills has callers of a cluster whose leader dies twice.
func TestLeaderKills(t *testing.T) {
	t.Parallel()
	cluster, err := hgtest.StartCluster()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	for library, connect := range connects {
		t.Run(library, func(t *testing.T) {
			c := connect(cluster.Addrs(), headgate.Options{Logger: quiet})
			key := newKey()
			ask := func() int {
				d, err := c.Allow(context.Background(), key, headgate.Limit{Units: 100_000, Period: time.Hour, NoLease: library == "rueidis"}, 1)
				switch {
				case err != nil:
					t.Error(err)
					return 0
				case d.Allowed:
					return http.StatusOK
				}
				return http.StatusTooManyRequests
			}
			ask()
			var got seen
			end, done := make(chan struct{}), make(chan struct{})
			watch := watchStalls()
			go func() {
				got.load(8, 20*time.Millisecond, end, ask)
				close(done)
			}()
			for range 2 {
				time.Sleep(500 * time.Millisecond)
				_, err := cluster.KillLeader()
				require.NoError(t, err)
				_, err = cluster.Leader()
				require.NoError(t, err)
				back(t, c, time.Now())
				require.NoError(t, cluster.Restart())
			}
			time.Sleep(500 * time.Millisecond)
			close(end)
			<-done
			stalled := watch.stop()
			t.Logf("%v, p50 %v, p99 %v, worst %v, stalled %v; %+v", got.statuses, got.part(0.5), got.part(0.99), got.part(1), stalled, c.Stats())
			assert.Equal(t, map[int]int{http.StatusOK: len(got.times)}, got.statuses)
			assert.Less(t, got.part(1), 60*time.Millisecond+3*stalled)
			back(t, c, time.Now()) // on a busy machine the breaker may have opened again
			require.NoError(t, c.Close(context.Background()))
		})
	}
}

// TestCascade has ten processes that use up a limit, and ask for ten times as much from when
// the server stops. They have leases, so each knows its share.
func TestCascade(t *testing.T) {
	t.Parallel()
	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop() })
	const processes = 10
	limit := headgate.PerSecond(400)
	from := time.Now().Add(500 * time.Millisecond)
	const spike = 3 * time.Second // by then each has heard of all holders
	var waits []func() called
	for range processes {
		c := caller{Addr: s.Addr, Key: "cascade", Limit: limit, Rate: 40, Spike: spike, From: from, For: spike + 4*time.Second, Timeout: 50 * time.Millisecond}
		_, wait := c.start(t)
		waits = append(waits, wait)
	}
	time.Sleep(time.Until(from.Add(spike)))
	require.NoError(t, s.Signal(syscall.SIGSTOP))
	stopped := time.Since(from)
	time.Sleep(3 * time.Second)
	require.NoError(t, s.Signal(syscall.SIGCONT))
	resumed := time.Since(from)
	var sums [(spike+4*time.Second)/slot + 100]int64
	var worst, usual, spiked time.Duration
	asked := int64(0)
	for _, wait := range waits {
		r := wait()
		for i, n := range r.Admitted {
			sums[i] += n
		}
		worst, usual, spiked, asked = max(worst, r.Worst), max(usual, r.Usual), max(spiked, r.Spiked), asked+r.Asked
		// A machine that is late may open a breaker before, or after.
		assert.True(t, r.Stats.Opened == 1 || r.Late > 20*time.Millisecond && r.Stats.Opened > 1, "late by %v: %+v", r.Late, r.Stats)
		assert.Less(t, r.Worst, 60*time.Millisecond+3*r.Late)
	}
	admitted := int64(0)
	for i := stopped / slot; i < resumed/slot; i++ {
		admitted += sums[i]
	}
	// Ten shares of a tenth, and the leases that were out.
	most := float64(limit.Units)*(1+(resumed-stopped).Seconds()) + float64(limit.Units)/4
	t.Logf("%d asked, %d admitted in %v beside a stopped server, at most %.0f; p99 of a call %v before, %v in the spike, worst %v",
		asked, admitted, resumed-stopped, most, usual, spiked, worst)
	// The service's own time counts as 5 ms.
	assert.Less(t, spiked, 2*max(usual, 5*time.Millisecond), "p99 of a call in the spike")
	assert.Greater(t, float64(asked), 2*most, "there was a spike")
	assert.LessOrEqual(t, float64(admitted), most*1.05)
	assert.Greater(t, float64(admitted), float64(limit.Units)*(resumed-stopped).Seconds()*0.8, "a share is used")
}

// TestHostileServers has servers that answer otherwise than Headgate does.
func TestHostileServers(t *testing.T) {
	blackhole, err := linkfault.New("127.0.0.1:0", servers.Plain.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = blackhole.Close() })
	blackhole.Set(linkfault.Hold)
	slow, err := linkfault.New("127.0.0.1:0", servers.Plain.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = slow.Close() })
	slow.Set(linkfault.Faults{FromTarget: linkfault.Flow{Delay: 60 * time.Millisecond}})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	full, err := hgtest.Start(hgtest.Config{Args: []string{"--maxclients", "1"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Stop() })
	one, err := net.Dial("tcp", full.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = one.Close() })
	for name, addr := range map[string]string{
		"nothing listens":        "127.0.0.1:1",
		"no route":               "192.0.2.1:7379",
		"hangs at connect":       blackhole.Addr(),
		"answers after 60 ms":    slow.Addr(),
		"wants a password":       servers.Auth.Addr,
		"speaks TLS":             servers.TLS.Addr,
		"is a web server":        web.Listener.Addr().String(),
		"is full":                full.Addr,
		"has no memory left":     answers(t, "-OOM command not allowed when used memory > 'maxmemory'."),
		"is no Headgate":         answers(t, "-ERR unknown command 'RL.LIMIT', with args beginning with: 'k'"),
		"answers in its own way": answers(t, "+OK"),
		"a name that is wrong":   "headgate.invalid:7379",
	} {
		for library, connect := range connects {
			t.Run(library+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := connect([]string{addr}, headgate.Options{Logger: quiet})
				requireFallback(t, c)
				began := time.Now()
				require.NoError(t, c.Close(context.Background()))
				assert.Less(t, time.Since(began), 2*time.Second)
			})
		}
	}
}

// answers runs a server of RESP that answers each command in the same way, but for those by which
// libraries begin, and returns its address.
func answers(t *testing.T, reply string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for r := bufio.NewReader(conn); ; {
					args, err := command(r)
					if err != nil {
						return
					}
					answer := reply + "\r\n"
					switch args[0] {
					case "HELLO":
						answer = "%1\r\n$5\r\nproto\r\n:3\r\n"
					case "CLIENT", "client":
						answer = "+OK\r\n"
					}
					if _, err := conn.Write([]byte(answer)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// command reads a command of RESP.
func command(r *bufio.Reader) (args []string, err error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		args = append(args, string(arg[:size]))
	}
	return args, nil
}

// requireFallback checks that a client whose server is away answers by its share, and soon.
func requireFallback(t *testing.T, c *headgate.Client) {
	t.Helper()
	watch := watchStalls()
	worst := time.Duration(0)
	key := newKey()
	for range 8 {
		began := time.Now()
		d, err := c.Allow(context.Background(), key, headgate.PerSecond(1000), 1)
		worst = max(worst, time.Since(began))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, headgate.Fallback, d.Source)
	}
	stalled := watch.stop()
	assert.True(t, c.Stats().Away)
	assert.Less(t, worst, 60*time.Millisecond+3*stalled)
}

// TestHungDNS has a name server that never answers.
func TestHungDNS(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	asked := make(chan struct{}, 1000)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked <- struct{}{}
		return net.Dial("udp", silent.LocalAddr().String())
	}}
	for library, connect := range connects {
		t.Run(library, func(t *testing.T) {
			began := time.Now()
			c := connect([]string{"headgate.example:7379"}, headgate.Options{Logger: quiet})
			assert.Less(t, time.Since(began), 50*time.Millisecond, "New does not wait")
			requireFallback(t, c)
			<-asked
			began = time.Now()
			require.NoError(t, c.Close(context.Background()))
			assert.Less(t, time.Since(began), 2*time.Second)
		})
	}
}

// TestWarnings has clients of go-redis as an application makes them.
func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		options  redis.Options
		warnings int
	}{
		"as it comes": {redis.Options{}, 2},
		"one option":  {redis.Options{ContextTimeoutEnabled: true}, 1},
		"safe":        {redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := redis.NewClient(&test.options)
			defer func() { _ = c.Close() }()
			assert.Len(t, goredis.Warnings(c), test.warnings)
		})
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _ = cluster.Close() }()
	assert.Len(t, goredis.Warnings(cluster), 2)
}

// TestConstructors connects by TLS and with a password.
func TestConstructors(t *testing.T) {
	config := &tls.Config{RootCAs: servers.Cert.Pool}
	for name, c := range map[string]*headgate.Client{
		"go-redis, TLS":                    goredis.New([]string{servers.TLS.Addr}, &redis.Options{TLSConfig: config}, headgate.Options{}),
		"go-redis, password":               goredis.New([]string{servers.Auth.Addr}, &redis.Options{Password: hgtest.Password}, headgate.Options{}),
		"rueidis, TLS":                     adapter.New(rueidis.ClientOption{InitAddress: []string{servers.TLS.Addr}, TLSConfig: config}, headgate.Options{}),
		"rueidis, password":                adapter.New(rueidis.ClientOption{InitAddress: []string{servers.Auth.Addr}, Password: hgtest.Password}, headgate.Options{}),
		"go-redis, the first node is dead": goredis.New([]string{"127.0.0.1:1", servers.Plain.Addr}, nil, headgate.Options{}),
		"rueidis, the first node is dead":  adapter.New(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1", servers.Plain.Addr}}, headgate.Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			var d headgate.Decision
			var err error
			for range 20 { // the machine may be slow for the first ones
				d, err = c.Allow(context.Background(), newKey(), headgate.PerSecond(1000), 1)
				require.NoError(t, err)
				if d.Source == headgate.Server {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			assert.Equal(t, headgate.Server, d.Source)
			require.NoError(t, c.Close(context.Background()))
		})
	}
}

// TestVerbs asks a real server by each verb.
func TestVerbs(t *testing.T) {
	ctx := context.Background()
	for library, connect := range connects {
		t.Run(library, func(t *testing.T) {
			c := connect([]string{servers.Plain.Addr}, headgate.Options{Timeout: 5 * time.Second})
			defer func() { require.NoError(t, c.Close(ctx)) }()
			key := newKey()
			limit := headgate.Limit{Units: 10, Period: time.Hour}
			d, err := c.Allow(ctx, key, limit, 4)
			require.NoError(t, err)
			require.Equal(t, int64(6), d.Remaining)
			d, err = c.Refund(ctx, key, limit, 2)
			require.NoError(t, err)
			require.Equal(t, int64(8), d.Remaining)
			d, err = c.Peek(ctx, key, limit, 9)
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.NoError(t, c.Reset(ctx, key))
			d, err = c.Wait(ctx, key, headgate.PerSecond(10), 10, time.Second)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			began := time.Now()
			d, err = c.Wait(ctx, key, headgate.PerSecond(10), 1, time.Second)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Greater(t, time.Since(began), 50*time.Millisecond)

			slot, err := c.Acquire(ctx, newKey(), 1, 30*time.Second, headgate.Local)
			require.NoError(t, err)
			require.True(t, slot.Allowed)
			require.NoError(t, slot.Release(ctx))

			conn := newGoRedis(servers.Plain.Addr, "", nil, 2)
			defer func() { _ = conn.Close() }()
			name := fmt.Sprintf("sdk%d", os.Getpid())
			require.NoError(t, conn.Do(ctx, "RL.POLICY", "SET", name, "{limits: {user: {by: user, rate: 100/h}}}").Err())
			p := headgate.Policy{Name: name}
			d, err = c.Check(ctx, p, headgate.Attributes{"user": key}, 5)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, "user", d.Name)
			require.Equal(t, time.Hour, d.Limits["user"].Window)
			require.Equal(t, int64(95), d.Limits["user"].Remaining)
			r, err := c.Reserve(ctx, p, headgate.Attributes{"user": key}, 40, 30*time.Second)
			require.NoError(t, err)
			require.NotEmpty(t, r.Hold)
			d, err = r.Commit(ctx, 12)
			require.NoError(t, err)
			require.Equal(t, "committed", d.Reason)
			require.Equal(t, int64(83), d.Remaining)
			_, err = c.Check(ctx, headgate.Policy{Name: "nobody"}, nil, 1)
			require.ErrorContains(t, err, "NOPOLICY")
			_, err = c.Acquire(ctx, key, 1, time.Second, headgate.Local)
			require.ErrorContains(t, err, "WRONGTYPE")
			_, err = c.Allow(ctx, newKey(), headgate.Limit{Units: 1 << 60, Period: time.Millisecond, NoLease: true}, 1)
			require.ErrorContains(t, err, "ERR ")
			require.Equal(t, int64(3), c.Stats().Mistakes)
			own := connect([]string{answers(t, "-ERR BURST must be at least 1")}, headgate.Options{Timeout: 5 * time.Second})
			_, err = own.Allow(ctx, key, limit, 1)
			require.ErrorContains(t, err, "ERR BURST must be at least 1")
			require.NoError(t, own.Close(ctx))
		})
	}
}
