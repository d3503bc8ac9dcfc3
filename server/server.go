package server

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/accept"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/policies"
	"github.com/headgate-io/headgate/server/pubsub"
	"github.com/headgate-io/headgate/server/scripts"
)

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("server closed")

// Server is the front for the Redis protocol: connections, commands, replies. New makes a
// Server, Serve gives it listeners, and Shutdown ends it.
type Server struct {
	cfg       Config
	log       *slog.Logger
	engine    *engine.Engine         // engine of the first partition, which has the policies and scripts
	parts     []*partition.Partition // in the order of their slots
	table     *command.Table
	fromNodes *command.Table // the part of table that other nodes may send
	// unconnected is the part of table that a Caller may run.
	unconnected *command.Table
	limitSpec   *command.Spec // RL.LIMIT

	caller Caller
	legs   legSlots

	terms     atomic.Uint64   // counts changes of the partitions' terms, from 1; see wait.go
	redirects []atomic.Uint64 // clients sent to the leader, by partition
	workers   *workers
	scripts   *scripts.Scripts
	policies  *policies.Book
	checks    *checks.Checker
	events    *events.Log
	runID     string
	started   time.Time

	loops    []*loop
	nextLoop atomic.Uint64
	heard    atomic.Uint64 // number of batches that other nodes have sent
	heavy    chan struct{} // holds the streams that run heavy input; see stream

	// State that Configure and commands change while commands run.
	mode    atomic.Uint32 // mode bits that are set for all connections
	runtime atomic.Pointer[Runtime]

	limits resp.Limits // bounds for clients that have authenticated
	stats  serverStats
	slow   slowlog
	gate   *access.Gate
	beat   heartbeat
	memory clientMemory
	rate   rate
	pubsub *pubsub.Hub
	others outboxes
	pauses pauses

	masters  masterNames
	electing time.Duration // how long an election may take before standIn gives up
	execTime time.Duration // command.ExecTime

	lanesMu sync.Mutex
	lanes   map[*lane]struct{} // guarded by lanesMu

	clients registry

	lifetime
}

// Policies returns figures about the policies in force.
func (s *Server) Policies() policies.Stats { return s.policies.Stats() }

// PolicyCounts returns how often the limits of policies were asked on this node.
func (s *Server) PolicyCounts() []checks.LimitCount { return s.checks.Counts() }

// UnknownPolicies returns how many checks named a policy that does not exist.
func (s *Server) UnknownPolicies() uint64 { return s.checks.Unknown() }

// ScriptRuns returns the counts of script runs on this node, including scripts that are no
// longer cached, and the number of cached scripts.
func (s *Server) ScriptRuns() (runs script.RunTotals, known int) {
	known, _ = s.scripts.Cached()
	return s.scripts.Runs(), known
}

// Partitions returns the partitions of the server's keys, in the order of Config.Parts. The
// cluster's node tells them about changes of their roles.
func (s *Server) Partitions() []*partition.Partition { return s.parts }

func (s *Server) closePartitions() {
	for _, p := range s.parts {
		p.Close()
	}
}

// acceptEach calls use with the connections of ln.
func (s *Server) acceptEach(ln net.Listener, use func(net.Conn)) error {
	var backoff acceptBackoff
	for {
		nc, err := ln.Accept()
		if err != nil {
			if err := s.acceptFailed(err, &backoff); err != nil {
				return err
			}
			continue
		}
		backoff.reset()
		use(nc)
	}
}

// acceptStreams accepts connections that goroutines serve. moves is as in conn.
func (s *Server) acceptStreams(ln net.Listener, moves bool) error {
	return s.acceptEach(ln, func(nc net.Conn) {
		if refusal := s.admit(loopback(nc.RemoteAddr())); refusal != "" {
			go refuseStream(nc, refusal)
			return
		}
		s.streamsWG.Go(func() { s.serveStream(&stream{nc: nc, conn: conn{moves: moves}}) })
	})
}

// refuseStream writes why a connection is not served. It runs on a goroutine and has a
// deadline, because the client may not read.
func refuseStream(nc net.Conn, refusal string) {
	_ = nc.SetDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write([]byte(refusal))
	_ = accept.Abandon(nc)
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// Redis's texts for clients that are not served.
const (
	refusedFull   = "-ERR max number of clients reached\r\n"
	refusedDenied = "-DENIED Headgate is running in protected mode because protected mode is enabled and no password is set for the default user. " +
		"In this mode connections are only accepted from the loopback interface. " +
		"If you want to connect from external computers, set a password with requirepass, " +
		"or disable protected mode with 'CONFIG SET protected-mode no' from the loopback interface " +
		"if the server is not reachable from the internet.\r\n"
)

// admit counts a new client, or returns why it is refused. The caller must call leave when
// an admitted client has gone.
func (s *Server) admit(local bool) (refusal string) {
	s.stats.counts[countReceived].Add(1)
	r := s.runtime.Load()
	if !local && r.Protected && r.RequirePass == "" {
		s.stats.counts[countRejectedClients].Add(1)
		return refusedDenied
	}
	if n := s.clients.admitted.Add(1); r.MaxClients > 0 && n > int64(r.MaxClients) {
		s.leave()
		s.stats.counts[countRejectedClients].Add(1)
		return refusedFull
	}
	return ""
}

// leave stops counting a client.
func (s *Server) leave() { s.clients.admitted.Add(-1) }

// acceptBackoff is a pause that grows with each consecutive failure.
type acceptBackoff struct{ wait time.Duration }

func (b *acceptBackoff) reset() { b.wait = 0 }

// acceptFailed returns nil if the acceptor should continue. If a connection was gone before
// it was accepted, acceptFailed returns at once. If descriptors or memory have run out, it
// returns after a pause.
func (s *Server) acceptFailed(err error, b *acceptBackoff) error {
	select {
	case <-s.end:
		return err
	default:
	}
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	if connectionGone(err) {
		return nil
	}
	s.stats.counts[countAcceptErrors].Add(1)
	if b.wait == 0 {
		s.log.Error("accept connection", "error", err)
	}
	b.wait = min(max(2*b.wait, 5*time.Millisecond), time.Second)
	select {
	case <-s.end:
		return err
	case <-time.After(b.wait):
		return nil
	}
}

// initConn prepares a new connection that was admitted. fd is -1 for a connection without a
// descriptor of its own. From then on other threads can see the connection.
func (s *Server) initConn(c *conn, l *lane, d driver, fd int, addr, laddr string) {
	s.bindConn(c, l, d, fd, addr, laddr)
	s.clients.add(c)
}

// bindConn does the same as initConn for a connection that other threads do not see.
func (s *Server) bindConn(c *conn, l *lane, d driver, fd int, addr, laddr string) {
	c.srv, c.lane, c.drv, c.w = s, l, d, &l.w
	c.addr, c.laddr = addr, laddr
	c.created = time.Now().UnixNano()
	c.meta.Store(&clientMeta{})
	c.subscriber.Init(s.pubsub, c)
	c.inbox.account = s.memory.Account
	c.lastActive.Store(s.engine.Now())
	c.fd = fd
	c.resetSession()
}

// forget removes a closed connection.
func (s *Server) forget(c *conn) {
	s.clients.remove(c)
	if !c.relayed {
		s.leave()
	}
}

// subscriber implements pubsub.Config.Find.
func (s *Server) subscriber(id uint64) *pubsub.Subscriber {
	if c := s.clients.get(id); c != nil {
		return &c.subscriber
	}
	return nil
}
