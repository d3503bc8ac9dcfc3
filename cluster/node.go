package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/boottime"
	"github.com/headgate-io/headgate/internal/diskspace"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// Node is this process's part in a cluster, which may have no other nodes.
type Node struct {
	cfg    Config
	log    *slog.Logger
	mux    *peer.Mux
	groups []*Group

	started  time.Time
	asleep   func() (ns int64, ok bool) // boottime.Asleep
	beaten   atomic.Int64               // when pulse last ran, ns since started
	paced    chan struct{}              // capacity 1: a group has begun to lead
	removed  atomic.Bool                // as of the last refresh: this node was removed
	settings atomic.Pointer[[]Setting]
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

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
		cfg: cfg, log: cfg.Logger, started: time.Now(), asleep: boottime.Asleep,
		paced: make(chan struct{}, 1),
		stop:  func() {},
	}
	n.settings.Store(&cfg.Settings)
	n.mux = peer.NewMux(peer.MuxConfig{Listener: cfg.Listener, Dial: cfg.Dial, Secrets: cfg.Secrets, NodeID: cfg.NodeID, Logger: cfg.Logger})
	g, err := newGroup(n, 0, e)
	if err != nil {
		n.mux.Close()
		return nil, err
	}
	n.groups = []*Group{g}
	return n, nil
}

// Group returns a group by its number.
func (n *Node) Group(i int) *Group { return n.groups[i] }

// Start opens the log and takes part in the cluster.
func (n *Node) Start(front Front) error {
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	for _, g := range n.groups {
		if err := g.open(ctx, front); err != nil {
			return err
		}
	}
	n.wg.Go(func() { n.pulse(ctx) })
	return nil
}

// Close commits the uncommitted effects, if this node is leader and ctx allows it. Then it
// leaves the cluster until the next start.
func (n *Node) Close(ctx context.Context) error {
	var err error
	for _, g := range n.groups {
		if e := g.close(ctx); err == nil {
			err = e
		}
	}
	n.stop()
	n.wg.Wait()
	for _, g := range n.groups {
		g.streams.drop()
	}
	if e := n.mux.Close(); err == nil {
		err = e
	}
	return err
}

// levelWait is how long Ready waits for the feature level to rise. This takes far less
// time, unless the leader sees other members than this node does.
const levelWait = 5 * time.Second

// Ready waits after Start, until each group is ready: this node is its leader, or has
// applied everything that the leader had applied when the node started. If the cluster's
// feature level is about to rise, Ready waits for that too, so that the first client's
// command does not arrive too early. The only error is ctx's error.
func (n *Node) Ready(ctx context.Context) error {
	for _, g := range n.groups {
		select {
		case <-g.caughtUp:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	rises, cancel := context.WithTimeout(ctx, levelWait)
	defer cancel()
	for _, g := range n.groups {
		_ = poll.Until(rises, 5*time.Millisecond, func() bool { return !g.raft.Rising() })
	}
	return ctx.Err()
}

// Handover hands over what this node leads: see Group.Handover.
func (n *Node) Handover(ctx context.Context, to string) error {
	var err error
	for _, g := range n.groups {
		if e := g.Handover(ctx, to); err == nil {
			err = e
		}
	}
	return err
}

var errRemoved = errors.New("this node has been removed from the cluster")

// Fit returns an error if this node was removed from the cluster, because it can then
// answer only by its failure policy.
func (n *Node) Fit() error {
	if n.removed.Load() {
		return errRemoved
	}
	return nil
}

// Disk returns the free bytes and the size of the file system with the data directory.
func (n *Node) Disk() (free, size uint64, err error) { return diskspace.Of(n.cfg.DataDir) }

// MaxUnacked returns the age of the oldest uncommitted effect at which the failure policy
// answers.
func (n *Node) MaxUnacked() time.Duration { return n.cfg.MaxUnacked }

// pulse wakes the proposers of the groups that this node leads, and updates the role of a
// group when its uncommitted effects become too old.
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
			n.resume(ctx)
		}
		next, b := time.Duration(startInterval), uint64(0)
		for _, g := range n.groups {
			next = min(next, g.beat())
			b += g.ledger.Totals().Batches
		}
		if b != batches {
			batches, idle = b, 0
		} else if idle++; idle > idleBeats {
			next = max(next, idleInterval)
		}
		t.Reset(next)
	}
}

// resume is called after a pause of the process or of the machine.
func (n *Node) resume(ctx context.Context) {
	var suspended time.Duration
	for _, g := range n.groups {
		g.doubt(ctx)
		suspended = max(suspended, g.engine.Clock().CatchUp())
	}
	if suspended > 0 {
		n.log.Warn("the machine was suspended", "for", suspended.String())
	}
}

// sinceBeat returns how long ago pulse last ran.
func (n *Node) sinceBeat() time.Duration {
	return time.Since(n.started) - time.Duration(n.beaten.Load())
}
