package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
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
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/policies"
	"github.com/headgate-io/headgate/server/pubsub"
	"github.com/headgate-io/headgate/server/scripts"
)

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("server closed")

// Server is the Redis-protocol front: connections, commands, replies. Make one
// with New, give it listeners with Serve, and end it with Shutdown.
type Server struct {
	cfg       Config
	log       *slog.Logger
	engine    *engine.Engine
	parts     []*partition.Partition // by their slots
	table     *command.Table
	fromNodes *command.Table // what of it other nodes may send
	// unconnected is what of it a Caller may run.
	unconnected *command.Table
	limitSpec   *command.Spec // RL.LIMIT

	caller   Caller
	workers  *workers
	scripts  *scripts.Scripts
	policies *policies.Book
	checks   *checks.Checker
	events   *events.Log
	runID    string
	started  time.Time

	loops    []*loop
	nextLoop atomic.Uint64
	heard    atomic.Uint64 // batches that other nodes have sent
	heavy    chan struct{} // has the streams that run heavy input: see stream

	// What Configure and commands change while commands run.
	mode    atomic.Uint32 // bits of mode that apply to every connection
	runtime atomic.Pointer[Runtime]

	limits resp.Limits // after authentication
	stats  serverStats
	slow   slowlog
	gate   *access.Gate
	beat   heartbeat
	memory clientMemory
	rate   rate
	pubsub *pubsub.Hub
	pauses pauses

	masters  masterNames
	electing time.Duration // how long an election is believed in: see standIn

	lanesMu sync.Mutex
	lanes   map[*lane]struct{} // guarded by lanesMu

	clients atomic.Int64 // admitted and not yet gone
	nextID  atomic.Uint64
	connsMu sync.Mutex
	conns   map[uint64]*conn // guarded by connsMu

	endMu     sync.Mutex
	ended     bool                  // guarded by endMu
	listeners map[net.Listener]bool // guarded by endMu
	streams   map[*stream]bool      // guarded by endMu
	serving   sync.WaitGroup        // calls of Serve
	streamsWG sync.WaitGroup
	end       chan struct{} // closed when Shutdown begins
	ending    context.Context
	cancel    context.CancelFunc // of ending
}

// New returns a server that has its loops and workers running and no listener
// yet. Shutdown must be called to end them.
func New(cfg Config) (*Server, error) { return newServer(cfg, nil) }

// newServer is New with more commands.
func newServer(cfg Config, more []command.Spec) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("server config: %w", err)
	}
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	s := &Server{
		cfg:       cfg,
		log:       cfg.Logger,
		engine:    cfg.Engine,
		runID:     hex.EncodeToString(id),
		started:   time.Now(),
		electing:  electing,
		limits:    resp.Limits{MaxArgs: cfg.MaxArgs, MaxBulk: cfg.MaxBulk},
		lanes:     make(map[*lane]struct{}),
		conns:     make(map[uint64]*conn),
		listeners: make(map[net.Listener]bool),
		streams:   make(map[*stream]bool),
		end:       make(chan struct{}),
		heavy:     make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	s.parts = []*partition.Partition{partition.New(partition.Config{
		Slots:  partition.Slots{Last: clusterSlots - 1},
		Engine: cfg.Engine, Replication: cfg.Replication, Front: front{s},
		Logger: cfg.Logger, OnFailure: cfg.OnFailure, Backstop: cfg.Backstop, ForwardTimeout: cfg.ForwardTimeout, HandoverHold: cfg.HandoverHold,
		MostReply: cfg.OutputBufferLimit, MaxArgs: cfg.MaxArgs,
	})}
	s.events = events.New()
	tallies := checks.NewTallies()
	s.policies = policies.NewBook(cfg.Engine, cfg.Logger, cfg.NoGateways, s.events, tallies)
	s.checks = checks.New(cfg.Engine, s.policies, tallies, s.events)
	s.memory.init(s, func() int { return s.scripts.Slow() })
	s.pubsub = pubsub.New(pubsub.Config{
		Account: s.memory.Account, Own: eventsChannel, Find: s.subscriber,
		Watched: func(on bool) { s.setMode(modeMonitors, on) }, Tracked: func(on bool) { s.setMode(modeTracking, on) },
	})
	s.ending, s.cancel = context.WithCancel(context.Background())
	s.scripts = scripts.New(scripts.Config{
		Engine: cfg.Engine, Hub: s.pubsub, Account: s.memory.Account, Aside: s.newAside, Version: redisVersion,
		MaxReply: cfg.OutputBufferLimit, MaxMessages: cfg.MaxBulk, Time: func() time.Duration { return s.runtime.Load().ScriptTime },
		Ended: s.memory.scavenger.Ask, Ending: s.ending, Logger: cfg.Logger,
	})
	if s.table, err = command.NewTable(append(s.commandLists(), more)...); err != nil {
		return nil, err
	}
	s.fromNodes, s.unconnected = s.table.Forwarded(), s.table.Unconnected()
	s.limitSpec = s.table.ByFullName([]byte("rl.limit"))
	s.scripts.Use(s.table)
	s.gate = access.New(access.Config{
		Rules: s.accessRules, Logger: cfg.Logger,
		Wrong: func() { s.stats.counts[countAuthFailures].Add(1) },
	})
	s.caller.Gate, s.caller.srv, s.caller.cut = s.gate, s, make(chan struct{})
	s.masters.add(masterName)
	s.Configure(cfg.Runtime)
	s.stats.init(s.table, cfg.IOThreads+streamStripes)
	s.workers = newWorkers(cfg.Workers)
	s.beat.stop = make(chan struct{})
	if err := s.startLoops(); err != nil {
		s.closePartitions()
		s.workers.close(s.ending)
		return nil, err
	}
	go s.beat.run(s)
	go s.memory.run(s)
	go s.memory.scavenger.Run(s.end, memory.Mapped())
	go s.tellEvents()
	return s, nil
}

// Policies tells which policies are in force.
func (s *Server) Policies() policies.Stats { return s.policies.Stats() }

// PolicyCounts tells how often the limits of policies were asked on this node.
func (s *Server) PolicyCounts() []checks.LimitCount { return s.checks.Counts() }

// UnknownPolicies is how many checks named a policy that does not exist.
func (s *Server) UnknownPolicies() uint64 { return s.checks.Unknown() }

// ScriptRuns returns how scripts ran on this node, those that are not known any
// more included, and how many are known.
func (s *Server) ScriptRuns() (runs script.RunTotals, known int) {
	known, _ = s.scripts.Cached()
	return s.scripts.Runs(), known
}

// Partition returns what decides for the server's keys, for the cluster's node
// to tell what becomes of it. It is the first, and there is one today.
func (s *Server) Partition() *partition.Partition { return s.parts[0] }

func (s *Server) closePartitions() {
	for _, p := range s.parts {
		p.Close()
	}
}

// Serve accepts plain connections from ln until Shutdown, and then returns
// ErrClosed. TCP on Linux is served by the event loops, everything else by
// goroutines.
func (s *Server) Serve(ln net.Listener) error {
	return s.serve(ln, func() error {
		if handled, err := s.acceptOnLoops(ln); handled {
			return err
		}
		return s.acceptStreams(ln)
	})
}

// ServeStreams accepts connections from ln, such as a TLS listener's, until
// Shutdown, and then returns ErrClosed. Each is served by goroutines of its own.
func (s *Server) ServeStreams(ln net.Listener) error {
	return s.serve(ln, func() error { return s.acceptStreams(ln) })
}

func (s *Server) serve(ln net.Listener, accept func() error) error {
	s.endMu.Lock()
	if s.ended {
		s.endMu.Unlock()
		ln.Close()
		return ErrClosed
	}
	s.listeners[ln] = true
	s.serving.Add(1)
	defer s.serving.Done()
	s.endMu.Unlock()
	err := accept()
	s.endMu.Lock()
	delete(s.listeners, ln)
	ended := s.ended
	s.endMu.Unlock()
	if ended {
		return ErrClosed
	}
	ln.Close()
	return fmt.Errorf("accept: %w", err)
}

// acceptEach hands the connections of ln to use.
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

// acceptStreams accepts connections for goroutines.
func (s *Server) acceptStreams(ln net.Listener) error {
	return s.acceptEach(ln, func(nc net.Conn) {
		if refusal := s.admit(loopback(nc.RemoteAddr())); refusal != "" {
			go refuseStream(nc, refusal)
			return
		}
		s.streamsWG.Go(func() { s.serveStream(&stream{nc: nc}) })
	})
}

// refuseStream says why a connection is not served. It runs on a goroutine, and has a
// deadline, since a client may have left it no room to write.
func refuseStream(nc net.Conn, refusal string) {
	_ = nc.SetDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write([]byte(refusal))
	_ = accept.Abandon(nc)
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// Texts for clients that are not served, as Redis has them.
const (
	refusedFull   = "-ERR max number of clients reached\r\n"
	refusedDenied = "-DENIED Headgate is running in protected mode because protected mode is enabled and no password is set for the default user. " +
		"In this mode connections are only accepted from the loopback interface. " +
		"If you want to connect from external computers, set a password with requirepass, " +
		"or disable protected mode with 'CONFIG SET protected-mode no' from the loopback interface " +
		"if the server is not reachable from the internet.\r\n"
)

// admit counts a new client in, or returns why it is refused. leave must be
// called when an admitted client is gone.
func (s *Server) admit(local bool) (refusal string) {
	s.stats.counts[countReceived].Add(1)
	r := s.runtime.Load()
	if !local && r.Protected && r.RequirePass == "" {
		s.stats.counts[countRejectedClients].Add(1)
		return refusedDenied
	}
	if n := s.clients.Add(1); r.MaxClients > 0 && n > int64(r.MaxClients) {
		s.leave()
		s.stats.counts[countRejectedClients].Add(1)
		return refusedFull
	}
	return ""
}

// leave counts a client out.
func (s *Server) leave() { s.clients.Add(-1) }

// acceptBackoff grows with each failure in a row.
type acceptBackoff struct{ wait time.Duration }

func (b *acceptBackoff) reset() { b.wait = 0 }

// acceptFailed returns nil when accepting should go on: at once after a
// connection that was gone before it was accepted, after a pause when
// descriptors or memory have run out.
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

// initConn prepares a new connection; its driver has admitted it. fd is -1 for
// one without a descriptor of its own. From here on others see it.
func (s *Server) initConn(c *conn, l *lane, d driver, fd int, addr, laddr string) {
	s.bindConn(c, l, d, fd, addr, laddr)
	c.id = s.nextID.Add(1)
	s.connsMu.Lock()
	s.conns[c.id] = c
	s.connsMu.Unlock()
}

// bindConn is initConn for a connection that others do not see.
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
	s.connsMu.Lock()
	delete(s.conns, c.id)
	s.connsMu.Unlock()
	if !c.relayed {
		s.leave()
	}
}

// connection returns the connection of an id, nil if there is none.
func (s *Server) connection(id uint64) *conn {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	return s.conns[id]
}

// subscriber is pubsub.Config.Find.
func (s *Server) subscriber(id uint64) *pubsub.Subscriber {
	if c := s.connection(id); c != nil {
		return &c.subscriber
	}
	return nil
}

// connections returns the connections, in no order.
func (s *Server) connections() []*conn {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	all := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		all = append(all, c)
	}
	return all
}

func (s *Server) addStream(st *stream) bool {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.streams[st] = true
	return !s.ended
}

func (s *Server) removeStream(st *stream) {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	delete(s.streams, st)
}

// Shutdown ends the server: it accepts nothing more, lets every connection
// finish the commands that it has received, and closes it when its replies are
// written. When ctx is done first, what is left is closed at once and ctx's
// error returned. A command that does not end is left behind within
// abandonAfter of that: its goroutine goes on until the process ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.endMu.Lock()
	if s.ended {
		s.endMu.Unlock()
		return ErrClosed
	}
	s.ended = true
	close(s.end)
	s.cancel()
	for ln := range s.listeners {
		ln.Close()
	}
	s.endMu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- s.finish(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(abandonAfter):
		return fmt.Errorf("%w: something has been busy for %v and is left behind", ctx.Err(), s.Busy().Round(time.Millisecond))
	}
}

// abandonAfter is how long Shutdown waits for what its context has cut off.
const abandonAfter = time.Second

// finish is the part of Shutdown that waits.
func (s *Server) finish(ctx context.Context) error {
	defer close(s.beat.stop)
	// No acceptor may hand over a connection once its loop has stopped.
	s.serving.Wait()
	s.unpause()
	s.eachStream((*stream).stop)
	s.stopLoops()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.streamsWG.Wait()
		s.waitLoops()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		s.eachStream((*stream).abort)
		s.killLoops()
		<-done
	}
	if e := s.caller.close(ctx); err == nil {
		err = e
	}
	s.workers.close(ctx)
	s.scripts.Close()
	s.closePartitions()
	return err
}

// eachStream calls fn with every stream, without holding the lock.
func (s *Server) eachStream(fn func(*stream)) {
	s.endMu.Lock()
	all := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		all = append(all, st)
	}
	s.endMu.Unlock()
	for _, st := range all {
		fn(st)
	}
}
