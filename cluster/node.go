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
	"github.com/headgate-io/headgate/internal/boottime"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// Node is this process's part in a cluster, which may have no other nodes.
type Node struct {
	cfg       Config
	log       *slog.Logger
	engine    *engine.Engine
	replica   *engine.Replica
	ledger    *ledger.Ledger
	mux       *peer.Mux
	forwarded *peer.Listener

	// Set by Start before anything that uses them runs.
	front  Front
	group  *raftlog.Group
	opened chan struct{} // closed when group has started
	stop   context.CancelFunc
	wg     sync.WaitGroup

	role     atomic.Uint32 // a partition.Role
	started  time.Time
	asleep   func() (ns int64, ok bool) // boottime.Asleep
	beaten   atomic.Int64               // when pulse last ran, ns since started
	topology atomic.Pointer[partition.Topology]
	removed  atomic.Bool // as of the last refresh: this node was removed
	settings atomic.Pointer[[]Setting]
	changed  chan struct{} // capacity 1: the view of the cluster may have changed
	paced    chan struct{} // capacity 1: this node has begun or ceased to lead
	caughtUp chan struct{} // closed when the start-up replay is done

	// mu guards situation.
	mu        sync.Mutex
	situation situation

	streams streams // to the leader
}

var _ partition.Replication = (*Node)(nil)

// New prepares a node. From then on, peers can connect, and e refuses to decide until the
// node is leader. Call New before e's first session. Call Close even if Start is never
// called.
func New(cfg Config, e *engine.Engine) (*Node, error) {
	if cfg.Timeouts == (raftlog.Timeouts{}) {
		cfg.Timeouts = raftlog.Fast
	}
	if cfg.MaxUnacked == 0 {
		cfg.MaxUnacked = cfg.Timeouts.Lease
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger, engine: e, started: time.Now(), asleep: boottime.Asleep,
		opened:   make(chan struct{}),
		changed:  make(chan struct{}, 1),
		paced:    make(chan struct{}, 1),
		caughtUp: make(chan struct{}),
		stop:     func() {},
	}
	n.settings.Store(&cfg.Settings)
	n.topology.Store(&partition.Topology{Self: cfg.NodeID})
	n.ledger = ledger.New(ledger.Hooks{
		Release: n.released,
		Deposed: n.deposed,
	})
	n.replica = e.Replicate(n.ledger)
	n.mux = peer.NewMux(peer.MuxConfig{Listener: cfg.Listener, Dial: cfg.Dial, Secrets: cfg.Secrets, NodeID: cfg.NodeID, Logger: cfg.Logger})
	var err error
	if n.forwarded, err = n.mux.Listen(peer.KindForward, group, n.admit); err != nil {
		n.mux.Close()
		return nil, err
	}
	return n, nil
}

// released is called by the ledger: all decisions up to upTo are committed. A
// commit in memory only is not durable.
func (n *Node) released(upTo uint64, err error) {
	if _, full := n.group.DiskFull(); full && err == nil {
		err = partition.ErrUnstored
	}
	n.front.Release(upTo, err)
}

// Forwarded returns the listener for commands that other nodes forward. The listener's
// Close leaves accepted streams open, because their server sends a last message on each.
// The node's Close ends them.
func (n *Node) Forwarded() net.Listener { return intake{n.forwarded} }

// intake is a listener that only stops accepting when it is closed.
type intake struct{ *peer.Listener }

func (l intake) Close() error {
	l.Refuse()
	return nil
}

// admit checks that a node that is about to forward commands belongs to this cluster. Its
// address may now belong to a node of another cluster.
func (n *Node) admit(_ context.Context, p peer.Purpose, _ net.Addr) error {
	select {
	case <-n.opened:
		return n.group.Admit(p.Cluster)
	default:
		return errNotStarted
	}
}

// Start opens the log and takes part in the cluster.
func (n *Node) Start(front Front) (err error) {
	n.front = front
	c := &n.cfg
	n.group, err = raftlog.New(raftlog.Config{
		GroupID: group, NodeID: c.NodeID, DataDir: c.DataDir, Mux: n.mux, Advertise: c.PeerAddr,
		Join: c.Join, BootstrapExpect: c.BootstrapExpect, Nonvoter: c.Nonvoter,
		Features: features(),
		Meta:     n.meta(""),
		Timeouts: c.Timeouts, StallTimeout: c.StallTimeout, Ledger: n.ledger, Pace: min(pace, c.MaxUnacked/paceShare),
		NoSync: c.NoSync, SnapshotEntries: c.SnapshotEntries, SnapshotBytes: c.SnapshotBytes,
		OnLeader: n.leaderChanged,
		Handlers: map[string]raftlog.Handler{opHandover: n.announced, opPrepare: n.prepared, opSetClock: n.setClock, raftlog.OpTransfer: n.transfer},
		Fatal:    c.Fatal,
		Logger:   c.Logger,
		Audit:    c.Audit,
	}, &machine{n.engine, n.replica, n.led})
	if err != nil {
		return err
	}
	// From here on, this node may become leader, and the server may call its methods.
	if err := n.group.Start(); err != nil {
		return err
	}
	close(n.opened)
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	n.wg.Go(func() { n.pulse(ctx) })
	n.wg.Go(func() { n.verify(ctx) })
	n.wg.Go(func() { n.watch(ctx) })
	return nil
}

// Close commits the uncommitted effects, if this node is leader and ctx allows it. Then it
// leaves the cluster until the next start.
func (n *Node) Close(ctx context.Context) error {
	var err error
	select {
	case <-n.opened:
		err = n.flush(ctx)
		if e := n.group.Close(ctx); err == nil {
			err = e
		}
	default:
	}
	n.stop()
	n.wg.Wait()
	n.streams.drop()
	if e := n.mux.Close(); err == nil {
		err = e
	}
	return err
}

// levelWait is how long Ready waits for the feature level to rise. This takes far less
// time, unless the leader sees other members than this node does.
const levelWait = 5 * time.Second

// Ready waits after Start, until the node is leader, or until it has applied everything
// that the leader had applied when the node started. If the cluster's feature level is
// about to rise, Ready waits for that too, so that the first client's command does not
// arrive too early. The only error is ctx's error.
func (n *Node) Ready(ctx context.Context) error {
	select {
	case <-n.caughtUp:
	case <-ctx.Done():
		return ctx.Err()
	}
	rises, cancel := context.WithTimeout(ctx, levelWait)
	defer cancel()
	_ = poll.Until(rises, 5*time.Millisecond, func() bool { return !n.group.Rising() })
	return ctx.Err()
}

// Ticket implements partition.Replication.
func (n *Node) Ticket() uint64 { return n.ledger.Open() }

// Await implements partition.Replication.
func (n *Node) Await() { n.ledger.Await() }

// Durable implements partition.Replication.
func (n *Node) Durable() bool { return n.cfg.Durable }

// pulse wakes the log's proposer while this node is leader, and updates the role when
// uncommitted effects become too old.
//
// A decision only marks its key. Anything more, such as a word that all threads write,
// would make every decision slower only for the sake of an idle leader. So the leader looks
// for marked keys every pulseInterval. A look that finds none takes 256 locks that nobody
// else wants. An idle leader of a cluster of three takes 2.2 % of a core without looking.
// Looking every 20 ms adds 0.5 %, every 5 ms 1.5 %, every 2 ms 2.5 %.
func (n *Node) pulse(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	idle := 0
	var batches uint64
	asleep, _ := n.asleep()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.paced:
			idle = 0
		case <-t.C:
		}
		paused := n.sinceBeat() > n.cfg.MaxUnacked
		n.beaten.Store(int64(time.Since(n.started)))
		// Go's clock leaves out the time in which the machine was suspended.
		if total, ok := n.asleep(); ok && total-asleep >= leastSleep {
			asleep, paused = total, true
		}
		if paused {
			n.doubt(ctx)
			if d := n.engine.Clock().CatchUp(); d > 0 {
				n.log.Warn("the machine was suspended", "for", d.String())
			}
		}
		next := n.beat()
		if b := n.ledger.Totals().Batches; b != batches {
			batches, idle = b, 0
		} else if idle++; idle > idleBeats {
			next = max(next, idleInterval)
		}
		t.Reset(next)
	}
}

// doubt makes a leader that was paused stalled, until a majority has confirmed that it
// still leads.
func (n *Node) doubt(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.situation.serving || n.situation.doubtful {
		return
	}
	n.situation.doubtful = true
	n.wg.Go(func() {
		_ = poll.Until(ctx, pulseInterval, func() bool {
			asked, cancel := context.WithTimeout(ctx, replyTimeout)
			defer cancel()
			err := n.group.Verify(asked)
			n.mu.Lock()
			defer n.mu.Unlock()
			if err == nil || !n.situation.serving {
				n.situation.doubtful = false
				n.publishRole()
			}
			return !n.situation.doubtful
		})
	})
}

// beat does what is due, and returns when it must run again.
func (n *Node) beat() time.Duration {
	if _, ok := n.group.Serving(); !ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.publishRole()
		return startInterval
	}
	n.ledger.Mark()
	age := n.group.Unacked()
	n.mu.Lock()
	n.situation.unacked = age
	n.publishRole()
	n.mu.Unlock()
	if r := n.Role(); r == partition.Waiting || r == partition.Stalled {
		n.front.Recheck()
	}
	if age > replyTimeout {
		n.front.Release(n.ledger.Open(), partition.ErrUncertain)
	}
	return pulseInterval
}

// verify runs rounds of heartbeats for denials and peeks.
func (n *Node) verify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ledger.Rounds():
		}
		if upTo := n.ledger.Round(); upTo > 0 {
			err := n.group.Verify(ctx)
			if err != nil {
				err = partition.ErrUnverified
			}
			n.ledger.Verified(upTo, err)
		}
	}
}
