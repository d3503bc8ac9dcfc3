package cluster

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// Group is a node's part in one Raft group, which replicates one engine.
type Group struct {
	node      *Node
	id        uint32
	log       *slog.Logger
	engine    *engine.Engine
	replica   *engine.Replica
	ledger    *ledger.Ledger
	forwarded *peer.Listener

	// The method open sets these fields before anything that uses them runs.
	front  Front
	raft   *raftlog.Group
	opened chan struct{} // closed when raft has started

	role     atomic.Uint32 // holds a partition.Role
	beaten   atomic.Int64  // when Node.pulse last ran, or this node was elected; ns since Node.started
	topology atomic.Pointer[partition.Topology]
	changed  chan struct{} // capacity 1: the view of the cluster may have changed
	caughtUp chan struct{} // closed when the start-up replay is done

	// mu guards situation.
	mu        sync.Mutex
	situation situation

	streams streams       // streams to the leader
	handing chan struct{} // capacity 1: full during a handover
}

var _ partition.Replication = (*Group)(nil)

// newGroup prepares a group. It seals e.
func newGroup(n *Node, id uint32, e *engine.Engine, log *slog.Logger) (*Group, error) {
	g := &Group{
		node: n, id: id, log: log, engine: e,
		opened:   make(chan struct{}),
		changed:  make(chan struct{}, 1),
		caughtUp: make(chan struct{}),
		handing:  make(chan struct{}, 1),
	}
	g.situation.awaitsFirst = id > 0
	g.topology.Store(&partition.Topology{Self: n.cfg.NodeID})
	g.ledger = ledger.New(ledger.Hooks{
		Release: g.released,
		Deposed: g.deposed,
		Ended:   g.ended,
	})
	g.replica = e.Replicate(g.ledger)
	var err error
	g.forwarded, err = n.mux.Listen(peer.KindForward, id, g.admit)
	return g, err
}

// released is called by the ledger: all decisions up to upTo are committed. A
// commit in memory only is not durable.
func (g *Group) released(upTo uint64, err error) {
	if _, full := g.raft.DiskFull(); full && err == nil {
		err = partition.ErrUnstored
	}
	g.front.Release(upTo, err)
}

// Forwarded returns the listener for commands that other nodes forward. The listener's
// Close leaves accepted streams open, because their server sends a last message on each.
// The node's Close ends them.
func (g *Group) Forwarded() net.Listener { return intake{g.forwarded, int(g.id)} }

// intake is a listener that only stops accepting when it is closed.
type intake struct {
	*peer.Listener
	group int
}

// Accept returns a connection with a method Group, which returns the number of the group
// to whose leader the other node forwards.
func (l intake) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return forwarded{c, l.group}, nil
}

type forwarded struct {
	net.Conn
	group int
}

func (c forwarded) Group() int { return c.group }

func (l intake) Close() error {
	l.Refuse()
	return nil
}

// admit checks that a node that is about to forward commands belongs to this cluster. Its
// address may now belong to a node of another cluster.
func (g *Group) admit(_ context.Context, p peer.Purpose, _ net.Addr) error {
	select {
	case <-g.opened:
		return g.raft.Admit(p.Cluster)
	default:
		return errNotStarted
	}
}

// open opens the log and takes part in the group. ctx ends the background work.
func (g *Group) open(ctx context.Context, front Front) (err error) {
	g.front = front
	c := &g.node.cfg
	within := ""
	if g.id > 0 {
		within = g.node.groups[0].raft.ClusterID()
	}
	g.raft, err = raftlog.New(raftlog.Config{
		GroupID: g.id, Groups: len(g.node.groups), Within: within, NodeID: c.NodeID, DataDir: c.DataDir, Mux: g.node.mux, Advertise: c.PeerAddr,
		Join: c.Join, BootstrapExpect: c.BootstrapExpect, Nonvoter: c.Nonvoter,
		Features: features(),
		Meta:     g.node.meta(""),
		Timeouts: c.Timeouts, StallTimeout: c.StallTimeout, Ledger: g.ledger, Pace: g.node.pace(),
		NoSync: c.NoSync, SnapshotEntries: c.SnapshotEntries, SnapshotBytes: c.SnapshotBytes,
		OnLeader: g.leaderChanged,
		Handlers: map[string]raftlog.Handler{opHandover: g.announced, opPrepare: g.prepared, opSetClock: g.setClock, raftlog.OpTransfer: g.transfer},
		Fatal:    c.Fatal,
		Logger:   c.Logger, // raftlog adds the group
		Audit:    c.Audit,
	}, &machine{g.engine, g.replica, g.led})
	if err != nil {
		return err
	}
	// From here on, this node may become leader, and the server may call the methods.
	if err := g.raft.Start(); err != nil {
		return err
	}
	close(g.opened)
	ring(g.node.paced)
	g.node.wg.Go(func() { g.verify(ctx) })
	g.node.wg.Go(func() { g.watch(ctx) })
	return nil
}

// close commits the uncommitted effects, if this node is leader and ctx allows it. Then it
// leaves the group until the next start.
func (g *Group) close(ctx context.Context) error {
	select {
	case <-g.opened:
	default:
		return nil
	}
	err := g.flush(ctx)
	if e := g.raft.Close(ctx); err == nil {
		err = e
	}
	return err
}

// ID returns the number of the group.
func (g *Group) ID() int { return int(g.id) }

// Term implements partition.Replication.
func (g *Group) Term() uint64 {
	term, _ := g.raft.Serving()
	return term
}

// Ticket implements partition.Replication.
func (g *Group) Ticket() uint64 { return g.ledger.Open() }

// Since implements partition.Replication.
func (g *Group) Since() uint64 { return g.ledger.Since() }

// Await implements partition.Replication.
func (g *Group) Await() { g.ledger.Await() }

// Expect implements partition.Replication.
func (g *Group) Expect() { g.ledger.Expect() }

// Durable implements partition.Replication.
func (g *Group) Durable() bool { return g.node.cfg.Durable }

// alive notes that the process runs.
func (g *Group) alive() { g.beaten.Store(int64(time.Since(g.node.started))) }

// sinceBeat returns how long ago pulse last ran, or this node was elected.
func (g *Group) sinceBeat() time.Duration {
	return time.Since(g.node.started) - time.Duration(g.beaten.Load())
}

// doubt makes a leader that was paused stalled, until a majority has confirmed that it
// still leads.
func (g *Group) doubt(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.situation.serving || g.situation.doubtful {
		return
	}
	g.situation.doubtful = true
	if time.Since(g.situation.resumed) > 2*replyTimeout { // many pauses do not make a reply wait for ever
		g.situation.resumed = time.Now()
	}
	g.node.wg.Go(func() {
		_ = poll.Until(ctx, pulseInterval, func() bool {
			asked, cancel := context.WithTimeout(ctx, replyTimeout)
			defer cancel()
			err := g.raft.Verify(asked)
			g.mu.Lock()
			defer g.mu.Unlock()
			if err == nil || !g.situation.serving {
				g.situation.doubtful = false
				g.publishRole()
			}
			return !g.situation.doubtful
		})
	})
}

// beat does what is due, and returns when it must run again.
func (g *Group) beat() time.Duration {
	select {
	case <-g.opened:
	default:
		return startInterval
	}
	if _, ok := g.raft.Serving(); !ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.publishRole()
		return startInterval
	}
	g.ledger.Mark()
	unacked := g.raft.Unacked()
	g.mu.Lock()
	g.situation.unacked = unacked
	g.publishRole()
	overdue := g.situation.overdue(time.Now())
	g.mu.Unlock()
	if r := g.Role(); r == partition.Waiting || r == partition.Stalled {
		g.front.Recheck()
	}
	if overdue {
		g.front.Release(g.ledger.Open(), partition.ErrUncertain)
	}
	return pulseInterval
}

// verify runs rounds of heartbeats for denials and peeks.
func (g *Group) verify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.ledger.Rounds():
		}
		if upTo := g.ledger.Round(); upTo > 0 {
			err := g.raft.Verify(ctx)
			if err != nil {
				err = partition.ErrUnverified
			}
			g.ledger.Verified(upTo, err)
		}
	}
}
