package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/internal/accept"
)

func TestSlowWriter(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	for _, b := range []byte("*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\nPING\r\n") {
		c.send(string(b))
		time.Sleep(time.Millisecond)
	}
	c.expect("$5\r\nhello\r\n+PONG\r\n")
}

func TestHalfCommandThenGone(t *testing.T) {
	s, addr := startServer(t, Config{})
	for range 50 {
		c := dial(t, addr)
		c.send("*2\r\n$4\r\nECHO\r\n$500\r\nhel")
		c.Close()
	}
	eventually(t, "no connection", func() bool { return s.Stats().Clients == 0 })
	dial(t, addr).do("PING", "+PONG\r\n")
}

// Commands from before a half-close are answered.
func TestHalfClose(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.send("PING\r\ntest.work a\r\nECHO b\r\n")
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	all, err := io.ReadAll(c.r)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n$1\r\na\r\n$1\r\nb\r\n", string(all))
}

func TestHugePipeline(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	const n = 100_000
	go io.WriteString(c, strings.Repeat("*1\r\n$4\r\nPING\r\n", n))
	c.expect(strings.Repeat("+PONG\r\n", n))
}

// A client that never reads is no longer served once the kernel's buffer and the soft limit are
// full. It costs no more memory, and another client is served meanwhile.
func TestClientThatNeverReads(t *testing.T) {
	const soft, size = 64 << 10, 10_000
	s, addr := startServer(t, Config{OutputBufferSoft: soft})
	deaf := dial(t, addr)
	ask := []byte(strings.Repeat("test.big 10000\r\n", 100))
	var err error
	for err == nil {
		// A server that reads on takes this much in no time.
		require.NoError(t, deaf.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
		_, err = deaf.Write(ask)
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the server reads on")
	dial(t, addr).do("PING", "+PONG\r\n")
	require.Equal(t, 2, s.Stats().Clients)
	// The most that the kernel takes for the two ends of a connection.
	require.Less(t, s.Stats().Commands, uint64(32<<20/size), "commands are run for nobody")
	before := heapInUse()
	for range 20 {
		deaf.SetWriteDeadline(time.Now().Add(time.Millisecond))
		deaf.Write(ask)
	}
	require.Less(t, heapInUse()-before, int64(4<<20))
	// It may change its mind.
	require.NoError(t, deaf.SetReadDeadline(time.Now().Add(patience)))
	got, err := io.CopyN(io.Discard, deaf, 5<<20)
	require.NoError(t, err)
	require.EqualValues(t, 5<<20, got)
}

// The same without a kernel in between: what a connection runs is bounded by
// the soft limit to the command.
func TestUnreadOutputStallsAConnection(t *testing.T) {
	const soft, size = 64 << 10, 10_000
	s, m := testMachine(t, Config{OutputBufferSoft: soft}, new(committer))
	m.socket = 0
	m.feed(strings.Repeat("test.big 10000\r\n", 100))
	m.feed(strings.Repeat("test.big 10000\r\n", 100))
	require.Equal(t, stallOutput, m.stall)
	require.Less(t, m.out.Len(), soft+2*size)
	require.EqualValues(t, soft/size+1, s.Stats().Commands)
	m.socket = 1 << 30
	m.feed("")
	require.Zero(t, m.stall)
	require.EqualValues(t, 200, s.Stats().Commands)
}

func TestWriteTimeout(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		s := newTestServer(t, Config{OutputBufferSoft: 1 << 10, WriteTimeout: time.Second}, nil)
		ln, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"}[network])
		require.NoError(t, err)
		go s.Serve(ln)
		deaf := dial(t, ln.Addr().String())
		deaf.send(strings.Repeat("test.big 4000000\r\n", 4))
		eventually(t, "the deaf client to be closed", func() bool { return s.Stats().Clients == 0 && s.Stats().Received == 1 })
	}
}

func TestIdleTimeout(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{Timeout: 500 * time.Millisecond}})
	idle, subscriber := dial(t, addr), dial(t, addr)
	subscriber.do("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	idle.expectClosed()
	require.Equal(t, uint64(1), s.Stats().TimeoutKills)
	subscriber.do("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n")
}

func TestOutputBufferLimit(t *testing.T) {
	s, addr := startServer(t, Config{OutputBufferSoft: 1 << 10, OutputBufferLimit: 1 << 20})
	c := dial(t, addr)
	c.send("test.big 50000000\r\n")
	eventually(t, "the client to be closed", func() bool { return s.Stats().OutputKills == 1 && s.Stats().Clients == 0 })

	// A reply of many short texts counts when the peer does not take it.
	s, m := testMachine(t, Config{OutputBufferSoft: 100, OutputBufferLimit: 100}, nil)
	m.socket = 0
	m.feed("OBJECT HELP\r\n")
	require.True(t, m.killed)
	require.EqualValues(t, 1, s.Stats().OutputKills)
}

func TestQueryBufferLimit(t *testing.T) {
	s, addr := startServer(t, Config{QueryBufferLimit: 1 << 20, MaxBulk: 1 << 20})
	c := dial(t, addr)
	go c.Write([]byte("*2\r\n$4\r\nECHO\r\n$1048570\r\n" + strings.Repeat("x", 2<<20)))
	io.Copy(io.Discard, c.r)
	require.Equal(t, uint64(1), s.Stats().QueryBufferKills)
	// A transaction's queue counts as well.
	c = dial(t, addr)
	c.do("MULTI", "+OK\r\n")
	go c.Write([]byte(strings.Repeat("ECHO "+strings.Repeat("x", 1000)+"\r\n", 2000)))
	io.Copy(io.Discard, c.r)
	require.Equal(t, uint64(2), s.Stats().QueryBufferKills)
}

func TestBoundsBeforeAuthentication(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{RequirePass: "secret"}})
	f := func(in, want string) {
		t.Helper()
		c := dial(t, addr)
		c.send(in)
		c.expect("-ERR Protocol error: " + want + "\r\n")
		c.expectClosed()
	}
	f("*9223372036854775807\r\n", "invalid multibulk length")
	f("*11\r\n", "unauthenticated multibulk length")
	f("*2\r\n$4\r\nECHO\r\n$16385\r\n", "unauthenticated bulk length")
	f(strings.Repeat("x", 65<<10), "too big inline request")
	require.Equal(t, uint64(4), s.Stats().ProtocolErrors)
	c := dial(t, addr)
	c.do("PING", "-NOAUTH Authentication required.\r\n")
	c.do("AUTH secret", "+OK\r\n")
	c.send("*11\r\n" + strings.Repeat("$1\r\nx\r\n", 11))
	c.expect("-ERR unknown command 'x', with args beginning with: 'x' 'x' 'x' 'x' 'x' 'x' 'x' 'x' 'x' 'x' \r\n")
}

func TestHTTPRequestIsCutOff(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.send("POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n")
	c.expectClosed()
}

// Ten thousand idle connections hold no buffers.
func TestIdleConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of connections")
	}
	n := 10_000
	var lim syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim))
	if most := (int(lim.Cur) - 200) / 2; most < n {
		n = most // both ends are in this process
	}
	s, addr := startServer(t, Config{Runtime: Runtime{MaxClients: n + 10}})
	before := heapInUse()
	// The clients' ends are bare descriptors, to leave the memory to the
	// server's.
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	require.NoError(t, err)
	sa := &syscall.SockaddrInet4{Port: tcp.Port, Addr: [4]byte{127, 0, 0, 1}}
	fds := make([]int, 0, n)
	defer func() {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}()
	var reply [7]byte
	for i := range n {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		require.NoError(t, err)
		fds = append(fds, fd)
		require.NoError(t, syscall.Connect(fd, sa))
		if i%2 == 0 {
			_, err = syscall.Write(fd, []byte("PING\r\n"))
			require.NoError(t, err)
			_, err = syscall.Read(fd, reply[:])
			require.NoError(t, err)
		}
	}
	eventually(t, "all connected", func() bool { return s.Stats().Clients == n })
	each := (heapInUse() - before) / int64(n)
	t.Logf("%d connections, %d bytes each", n, each)
	require.Less(t, each, int64(2048))
	dial(t, addr).do("PING", "+PONG\r\n")
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMaxClients(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{MaxClients: 2}})
	a, b := dial(t, addr), dial(t, addr)
	a.do("PING", "+PONG\r\n")
	b.do("PING", "+PONG\r\n")
	c := dial(t, addr)
	c.expect("-ERR max number of clients reached\r\n")
	c.expectClosed()
	require.Equal(t, uint64(1), s.Stats().Rejected)
	b.Close()
	eventually(t, "a free place", func() bool { return s.Stats().Clients == 1 })
	dial(t, addr).do("PING", "+PONG\r\n")
}

// TestDescriptorsRunOut lowers the limit of descriptors in a process of its own and connects
// until accept fails. The server waits, lives, and accepts again when there is room.
func TestDescriptorsRunOut(t *testing.T) {
	const role = "HEADGATE_TEST_FEW_DESCRIPTORS"
	if os.Getenv(role) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorsRunOut$", "-test.v")
		cmd.Env = append(os.Environ(), role+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	s, addr := startServer(t, Config{})
	first := dial(t, addr)
	first.do("PING", "+PONG\r\n")
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 40}))
	var more []net.Conn
	for {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			break // our own end has run out; the last ones wait for accept
		}
		more = append(more, c)
	}
	eventually(t, "accept to fail", func() bool { return s.Stats().AcceptErrors > 0 })
	first.do("PING", "+PONG\r\n")
	for _, c := range more {
		c.Close()
	}
	eventually(t, "to be served again", func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			return false
		}
		b := make([]byte, 7)
		_, err = io.ReadFull(c, b)
		return err == nil && string(b) == "+PONG\r\n"
	})
}

func TestClientKill(t *testing.T) {
	s, addr := startServer(t, Config{})
	victim, killer := dial(t, addr), dial(t, addr)
	id := victim.call("CLIENT ID").(int64)
	// In mid-reply: more than the socket takes is on its way.
	victim.send(strings.Repeat("test.big 100000\r\n", 300))
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, int64(1), killer.call(fmt.Sprintf("CLIENT KILL ID %d", id)))
	_, err := io.Copy(io.Discard, victim.r)
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	eventually(t, "the victim to be gone", func() bool { return s.Stats().Clients == 1 })
	require.EqualError(t, killer.call("CLIENT KILL 1.2.3.4:5").(error), "ERR No such client")
	require.Equal(t, int64(0), killer.call("CLIENT KILL TYPE normal"), "not itself")
	require.Equal(t, int64(1), killer.call("CLIENT KILL SKIPME no"))
	killer.expectClosed()
}

func TestShutdownFinishesWhatIsInFlight(t *testing.T) {
	c := new(committer)
	s := newTestServer(t, Config{}, c.next)
	addr := serveOn(t, s)
	held, idle := dial(t, addr), dial(t, addr)
	idle.do("PING", "+PONG\r\n")
	held.send("PING\r\ntest.hold a\r\ntest.work b\r\n")
	held.expect("+PONG\r\n")
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- s.Shutdown(ctx)
	}()
	idle.expectClosed()
	_, err := net.Dial("tcp", addr)
	require.Error(t, err, "no new connections")
	s.Partition().Release(1, nil)
	held.expect(bulk("a") + bulk("b"))
	held.expectClosed()
	require.NoError(t, <-done)
	require.ErrorIs(t, s.Shutdown(context.Background()), ErrClosed)
}

func TestShutdownIsBounded(t *testing.T) {
	s, addr := startServer(t, Config{})
	stuck := dial(t, addr)
	stuck.send("test.hold a\r\n") // nobody will release it
	eventually(t, "held", func() bool { return s.Stats().Held == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
	stuck.expectClosed()
}

// Half a command, a job that nobody waits for, and a leader that does not answer hold up no
// shutdown.
func TestShutdownIsBoundedByWhatHasNotBegun(t *testing.T) {
	cut := func(t *testing.T, s *Server) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_ = s.Shutdown(ctx)
		require.Less(t, time.Since(begin), patience/2)
	}
	listen := func(t *testing.T) net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	t.Run("handshake", func(t *testing.T) {
		s := newTestServer(t, Config{}, nil)
		ln := listen(t)
		go s.ServeStreams(accept.NewListener(ln, new(tls.Config), func(net.Addr, error) {}))
		silent := dial(t, ln.Addr().String())
		cut(t, s)
		silent.expectClosed()
	})
	t.Run("jobs", func(t *testing.T) {
		s := newTestServer(t, Config{Workers: 1}, nil)
		var ran atomic.Int64
		for range 50 {
			require.True(t, s.workers.submit(workBrief, false, func() {
				time.Sleep(patience / 50)
				ran.Add(1)
			}))
		}
		cut(t, s)
		require.Less(t, ran.Load(), int64(50))
	})
	t.Run("charges", func(t *testing.T) {
		silent := listen(t)
		f := newFakeCluster(partition.Orphaned)
		f.topology = threeVoters
		s, m := replicatedMachine(t, f, Config{OnFailure: partition.FailLocal})
		m.feed("RL.LIMIT k 9 1h\r\n")
		(&node{Server: s, fakeCluster: f}).follow(silent.Addr().String())
		eventually(t, "a charge", func() bool { return f.dials.Load() > 0 })
		cut(t, s)
	})
}

// The hot path does not allocate: one batch of sixteen commands through the
// state machine.
func TestNoAllocations(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	m := newMachine(s)
	f := func(command string) {
		batch := bytes.Repeat([]byte(command), 16)
		run := func() {
			m.lane.begin()
			m.input(batch)
			m.lane.takeOutput()
			m.lane.end()
		}
		run()
		require.Zero(t, testing.AllocsPerRun(1000, run), command)
	}
	f("*1\r\n$4\r\nPING\r\n")
	f("*2\r\n$4\r\necho\r\n$5\r\nhello\r\n")
	f("*6\r\n$11\r\nCL.THROTTLE\r\n$3\r\nkey\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n")
}

func BenchmarkBatch(b *testing.B) {
	s := newTestServer(b, Config{}, nil)
	for _, command := range []string{"*1\r\n$4\r\nPING\r\n", "*6\r\n$11\r\nCL.THROTTLE\r\n$3\r\nkey\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n"} {
		b.Run(strconv.Quote(command[8:12]), func(b *testing.B) {
			m := newMachine(s)
			batch := bytes.Repeat([]byte(command), 16)
			b.ReportAllocs()
			for b.Loop() {
				m.lane.begin()
				m.input(batch)
				m.lane.takeOutput()
				m.lane.end()
			}
		})
	}
}
