package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/pubsub"
)

// machine is a connection with a driver that keeps its output in memory: the
// state machine without sockets.
type machine struct {
	conn
	out    strings.Builder
	gone   bool
	socket int // output bytes that the peer will still take
}

func newMachine(s *Server) *machine {
	m := &machine{socket: 1 << 30}
	l := s.newLane(func() {})
	s.clients.admitted.Add(1)
	s.initConn(&m.conn, l, m, -1, "test", "test")
	return m
}

func (m *machine) settle() {
	if m.gone {
		return
	}
	for {
		m.unpark()
		m.out.Write(m.lane.takeOutput())
		m.queued(max(0, m.out.Len()-m.socket))
		if m.killed || !m.runnable() {
			break
		}
		m.resume()
	}
	if m.departs() {
		m.leave()
		m.out.Write(m.lane.takeOutput())
	}
	if m.done() {
		m.gone = true
		m.release()
	}
}

// feed feeds bytes whose room is another's as soon as input returns.
func (m *machine) feed(s string) {
	m.lane.begin()
	room := []byte(s)
	m.input(room)
	for i := range room {
		room[i] = '~'
	}
	m.settle()
	m.lane.end()
	for m.stall&stallTurn != 0 && !m.gone {
		m.lane.runPosts()
	}
}

// take returns the output so far and forgets it.
func (m *machine) take() string {
	s := m.out.String()
	m.out.Reset()
	return s
}

func testMachine(t testing.TB, cfg Config, c *committer) (*Server, *machine) {
	s := newTestServer(t, cfg, c.next)
	return s, newMachine(s)
}

func TestHeldRepliesKeepTheirPlace(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{}, c)
	m.feed("PING\r\ntest.hold a\r\nPING\r\ntest.hold b\r\nECHO c\r\n")
	require.Equal(t, "+PONG\r\n", m.take(), "what comes before the first held reply leaves")
	require.Equal(t, 4, m.parkedReplies)
	s.Partition().Release(1, nil)
	require.Empty(t, m.take(), "only the driver's thread touches the connection")
	m.lane.runPosts()
	require.Equal(t, bulk("a")+"+PONG\r\n", m.take())
	s.Partition().Release(2, nil)
	m.lane.runPosts()
	require.Equal(t, bulk("b")+bulk("c"), m.take())
	require.Zero(t, m.parkedReplies)
	require.Empty(t, m.lane.parked)
	require.Zero(t, m.lane.waiting.Load())
	m.feed("PING\r\n")
	require.Equal(t, "+PONG\r\n", m.take())
}

func TestFailedTicketsReplaceTheirReplies(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{}, c)
	m.feed("test.hold a\r\nPING\r\ntest.hold b\r\ntest.hold c\r\n")
	s.Partition().Release(2, errors.New("UNCERTAIN the decision may have been taken"))
	s.Partition().Release(3, nil)
	m.lane.runPosts()
	const uncertain = "-UNCERTAIN the decision may have been taken\r\n"
	require.Equal(t, uncertain+"+PONG\r\n"+uncertain+bulk("c"), m.take())
}

// A release that comes between a decision and the hold of its reply is found
// when the connection is settled.
func TestReleaseBeforeHold(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{}, c)
	s.Partition().Release(1, nil)
	m.feed("test.hold a\r\n")
	require.Equal(t, bulk("a"), m.take())
	s.Partition().Release(2, errors.New("UNCERTAIN late"))
	m.feed("test.hold b\r\n")
	require.Equal(t, "-UNCERTAIN late\r\n", m.take())
}

// A release that comes late, of tickets that are complete, changes nothing.
func TestReleasesDoNotGoBack(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{}, c)
	s.Partition().Release(3, nil)
	s.Partition().Release(2, errors.New("UNCERTAIN late"))
	m.feed("test.hold a\r\ntest.hold b\r\ntest.hold c\r\n")
	require.Equal(t, bulk("a")+bulk("b")+bulk("c"), m.take())
}

func TestHeldRepliesAreBounded(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{MaxWaitingReplies: 10}, c)
	var in, want strings.Builder
	for i := range 35 {
		fmt.Fprintf(&in, "test.hold %d\r\n", i)
		want.WriteString(bulk(fmt.Sprint(i)))
	}
	m.feed(in.String())
	var got strings.Builder
	for round := range 4 {
		require.Equal(t, min(10, 35-10*round), m.parkedReplies)
		require.Equal(t, round < 3, m.stall == stallParked, "reading stops at the bound")
		s.Partition().Release(c.ticket.Load(), nil)
		m.lane.runPosts()
		got.WriteString(m.take())
	}
	require.Equal(t, want.String(), got.String())
	require.Zero(t, m.stall)
	require.Nil(t, m.in)
}

func TestQuitAndEndOfInputWaitForHeldReplies(t *testing.T) {
	for _, end := range []func(*machine){
		func(m *machine) { m.feed("QUIT\r\nPING\r\n") },
		func(m *machine) { m.endOfInput(); m.settle() },
	} {
		c := new(committer)
		s, m := testMachine(t, Config{}, c)
		m.feed("test.hold a\r\n")
		end(m)
		require.False(t, m.gone)
		s.Partition().Release(1, nil)
		m.lane.runPosts()
		require.True(t, m.gone)
		require.True(t, strings.HasPrefix(m.take(), bulk("a")))
	}
}

func TestKilledWhileParked(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{}, c)
	m.feed("test.hold a\r\ntest.work b\r\n")
	m.lane.post(&m.conn, m.kill)
	m.lane.runPosts()
	require.True(t, m.gone)
	s.Partition().Release(1, nil)
	time.Sleep(5 * time.Millisecond) // for the job, which finds nobody
	m.lane.runPosts()
	require.Empty(t, m.take())
	require.Empty(t, m.lane.parked)
}

func TestMessagesQueueBehindHeldReplies(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{}, c)
	m.feed("HELLO 3\r\nSUBSCRIBE news\r\n")
	m.take()
	m.feed("test.hold a\r\n")
	s.pubsub.Publish(pubsub.Channels, "news", []byte("x"))
	m.lane.runPosts()
	require.Empty(t, m.take())
	s.Partition().Release(1, errors.New("UNCERTAIN lost"))
	m.lane.runPosts()
	require.Equal(t, "-UNCERTAIN lost\r\n>3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n", m.take(), "a message is nobody's reply")
}

// Whatever is held, blocked, cut into pieces or failed, there is one reply for
// each command, in order.
func TestEveryCommandHasItsReply(t *testing.T) {
	eng := engine.New(engine.Config{})
	rapid.Check(t, func(rt *rapid.T) {
		c := new(committer)
		s, err := newServer(Config{Parts: One(eng, nil), IOThreads: 1, MaxWaitingReplies: rapid.IntRange(1, 8).Draw(rt, "bound")},
			testCommands(c.next))
		require.NoError(rt, err)
		defer s.Shutdown(t.Context())
		m := newMachine(s)
		var in, want strings.Builder
		for i := range rapid.IntRange(1, 30).Draw(rt, "commands") {
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				fmt.Fprintf(&in, "ECHO %d\r\n", i)
			case 1:
				fmt.Fprintf(&in, "test.work %d\r\n", i)
			default:
				fmt.Fprintf(&in, "test.hold %d\r\n", i)
			}
			want.WriteString(bulk(fmt.Sprint(i)))
		}
		for rest := in.String(); rest != ""; {
			n := min(len(rest), rapid.IntRange(1, 60).Draw(rt, "piece"))
			m.feed(rest[:n])
			rest = rest[n:]
			if rapid.Bool().Draw(rt, "release") {
				s.Partition().Release(c.ticket.Load(), nil)
			}
			m.lane.runPosts()
		}
		for deadline := time.Now().Add(patience); m.out.Len() < want.Len() && time.Now().Before(deadline); {
			s.Partition().Release(c.ticket.Load(), nil)
			m.lane.runPosts()
		}
		require.Equal(rt, want.String(), m.out.String())
	})
}

// The whole way over TCP, with pipelines of a thousand commands and a
// committer that takes 5 ms, on both drivers.
func TestParkedPipelines(t *testing.T) {
	f := func(name string, listen func(t *testing.T, s *Server) string) {
		t.Run(name, func(t *testing.T) {
			c := new(committer)
			s := newTestServer(t, Config{MaxWaitingReplies: 300}, c.next)
			addr := listen(t, s)
			c.run(t, s, 5*time.Millisecond, nil)
			const clients, commands = 8, 1000
			done := make(chan error, clients)
			for n := range clients {
				go func() {
					done <- pipelineOnce(addr, n, commands)
				}()
			}
			for range clients {
				require.NoError(t, <-done)
			}
			// One that goes away with everything still held.
			quitter := dial(t, addr)
			quitter.send(strings.Repeat("test.hold x\r\n", 200))
			quitter.Close()
			eventually(t, "the last connection to be gone", func() bool { return s.Stats().Clients == 0 })
			require.Zero(t, s.Stats().Held)
		})
	}
	f("loop", func(t *testing.T, s *Server) string { return serveOn(t, s) })
	f("stream", func(t *testing.T, s *Server) string { return serveOnUnix(t, s) })
}

func pipelineOnce(addr string, n, commands int) error {
	network := "tcp"
	if addr[0] == '/' {
		network = "unix"
	}
	nc, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	var in, want strings.Builder
	for i := range commands {
		text := fmt.Sprintf("%d-%d", n, i)
		fmt.Fprintf(&in, "test.hold %s\r\n", text)
		want.WriteString(bulk(text))
		if i%100 == 0 {
			in.WriteString("PING\r\ntest.work w\r\n")
			want.WriteString("+PONG\r\n" + bulk("w"))
		}
	}
	go nc.Write([]byte(in.String()))
	got := make([]byte, want.Len())
	for read := 0; read < len(got); {
		k, err := nc.Read(got[read:])
		if err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", read, len(got), err)
		}
		read += k
	}
	if string(got) != want.String() {
		return errors.New("replies differ")
	}
	return nil
}

func TestTransactionIsHeldAsOneReply(t *testing.T) {
	c := new(committer)
	s, m := testMachine(t, Config{}, c)
	m.feed("MULTI\r\ntest.hold a\r\ntest.hold b\r\nEXEC\r\n")
	require.Equal(t, "+OK\r\n+QUEUED\r\n+QUEUED\r\n", m.take())
	s.Partition().Release(1, nil)
	m.lane.runPosts()
	require.Empty(t, m.take(), "waits for the highest ticket")
	s.Partition().Release(2, errors.New("UNCERTAIN lost"))
	m.lane.runPosts()
	require.Equal(t, "-UNCERTAIN lost\r\n", m.take())
}
