package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

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
	dials  dials
	groups []*Group

	started   time.Time
	asleep    func() (ns int64, ok bool) // boottime.Asleep
	paced     chan struct{}              // capacity 1: a group has opened, or begun to lead
	homeAfter time.Duration              // homeAfter
	removed   atomic.Bool                // at the last refresh, this node was removed from the cluster
	settings  atomic.Pointer[[]Setting]

	stopOpening func() // ends openOthers and waits for it
	stop        context.CancelFunc
	wg          sync.WaitGroup
}

// New prepares a node with a group for each engine. From then on, peers can connect, and an
// engine refuses to decide until the node is leader of its group. Call New before the first
// session of an engine. Call Close even if Start is never called.
func New(cfg Config, engines []*engine.Engine) (*Node, error) {
	if cfg.Timeouts == (raftlog.Timeouts{}) {
		cfg.Timeouts = raftlog.Fast
	}
	if cfg.MaxUnacked == 0 {
		cfg.MaxUnacked = cfg.Timeouts.Lease
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger, started: time.Now(), homeAfter: homeAfter, asleep: boottime.Asleep,
		paced: make(chan struct{}, 1),
		stop:  func() {}, stopOpening: func() {},
	}
	var halted sync.Once // by the first of the groups
	n.cfg.Fatal = func(err error) { halted.Do(func() { cfg.Fatal(err) }) }
	n.settings.Store(&cfg.Settings)
	n.mux = peer.NewMux(peer.MuxConfig{Listener: cfg.Listener, Dial: cfg.Dial, Secrets: cfg.Secrets, NodeID: cfg.NodeID, Logger: cfg.Logger})
	for i, e := range engines {
		log := n.log
		if len(engines) > 1 {
			log = log.With("group", i)
		}
		g, err := newGroup(n, uint32(i), e, log)
		if err != nil {
			n.mux.Close()
			return nil, err
		}
		n.groups = append(n.groups, g)
	}
	return n, nil
}

// pace is the shortest time between two batches of a group that no client waits for.
func (n *Node) pace() time.Duration {
	return min(pace*time.Duration(min(len(n.groups), paceGroups)), n.cfg.MaxUnacked/paceShare)
}

// Groups returns how many groups the node has.
func (n *Node) Groups() int { return len(n.groups) }

// Group returns the group of an engine, by the engine's place in the list given to New.
func (n *Node) Group(i int) *Group { return n.groups[i] }

// Start opens the log of group 0 and takes part in the cluster. It opens the other groups
// in the background, as soon as this node belongs to a cluster: see openOthers. fronts has
// a Front for each group.
func (n *Node) Start(fronts []Front) error {
	ctx, stop := context.WithCancel(context.Background())
	opening, stopOpening := context.WithCancel(ctx)
	var others sync.WaitGroup
	n.stopOpening = func() { stopOpening(); others.Wait() }
	n.stop = stop
	if err := n.groups[0].open(ctx, fronts[0]); err != nil {
		return err
	}
	n.wg.Go(func() { n.pulse(ctx) })
	if len(n.groups) > 1 {
		others.Go(func() { n.openOthers(ctx, opening, fronts) })
		n.wg.Go(func() { n.bringHome(ctx) })
	}
	return nil
}

// openOthers opens all groups but group 0, when this node is in a cluster. Each of these
// groups is founded like group 0, but only by nodes whose group 0 is in the same cluster.
// So a node never belongs to different clusters in different groups. ctx ends the groups'
// background work, opening ends openOthers.
func (n *Node) openOthers(ctx, opening context.Context, fronts []Front) {
	first := n.groups[0]
	if poll.Until(opening, clusterPoll, func() bool { return first.raft.ClusterID() != "" }) != nil {
		return
	}
	// Opening a log reads it, so processors bound how many groups open at once.
	var logs errgroup.Group
	logs.SetLimit(runtime.GOMAXPROCS(0))
	for i, g := range n.groups[1:] {
		logs.Go(func() error {
			if opening.Err() != nil {
				return nil
			}
			return g.open(ctx, fronts[i+1])
		})
	}
	if err := logs.Wait(); err != nil {
		n.cfg.Fatal(err)
	}
}

// Close commits the uncommitted effects of the groups that this node leads, if ctx allows
// it. Then it leaves the cluster until the next start.
func (n *Node) Close(ctx context.Context) error {
	n.stopOpening()
	var closing errgroup.Group
	for _, g := range n.groups {
		closing.Go(func() error { return g.close(ctx) })
	}
	err := closing.Wait()
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

// clusterPoll is how often openOthers looks whether this node is in a cluster.
const clusterPoll = 10 * time.Millisecond

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

// maxHandovers is how many groups a node hands over at once. Commands wait during a
// handover, and every handover adds work for the other nodes.
const maxHandovers = 4

// Handover hands over every group that this node leads: see Group.Handover.
func (n *Node) Handover(ctx context.Context) error {
	var leaving errgroup.Group
	leaving.SetLimit(maxHandovers)
	for _, g := range n.groups {
		leaving.Go(func() error { return g.Handover(ctx, "") })
	}
	return leaving.Wait()
}

var errRemoved = errors.New("this node has been removed from the cluster")

// Fit returns an error if this node was removed from the cluster, because it can then
// answer only by its failure policy. With several groups, it also returns an error while
// some groups have not caught up since the start; the error names the first of them.
func (n *Node) Fit() error {
	if n.removed.Load() {
		return errRemoved
	}
	var behind []string
	for _, g := range n.groups {
		select {
		case <-g.caughtUp:
		default:
			behind = append(behind, strconv.Itoa(g.ID()))
		}
	}
	if len(behind) == 0 || len(n.groups) == 1 {
		return nil
	}
	named := strings.Join(behind[:min(len(behind), namedGroups)], ", ")
	if more := len(behind) - namedGroups; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%w: %s", errBehind, named)
}

var errBehind = errors.New("groups that have not caught up with their leaders since the start")

// namedGroups bounds the groups that Fit names.
const namedGroups = 8

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
		// Go's clock leaves out the time in which the machine was suspended.
		suspended := false
		if total, ok := n.asleep(); ok && total-asleep >= leastSleep {
			asleep, suspended = total, true
		}
		n.resume(ctx, suspended)
		next, b := startInterval, uint64(0)
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

// resume notes that pulse runs. After a pause of the process, or a suspension of the
// machine, it doubts that this node still leads.
func (n *Node) resume(ctx context.Context, suspended bool) {
	var lost time.Duration
	for _, g := range n.groups {
		paused := g.sinceBeat() > n.cfg.MaxUnacked
		g.alive()
		if paused || suspended {
			g.doubt(ctx)
			lost = max(lost, g.engine.Clock().CatchUp())
		}
	}
	if lost > 0 {
		n.log.Warn("the machine was suspended", "for", lost.String())
	}
}
