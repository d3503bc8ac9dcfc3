package raftlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog/clock"
	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// Group is one node's part in one Raft group. All methods are safe for concurrent use.
type Group struct {
	cfg       Config
	fsm       *fsm
	ledger    *ledger.Ledger
	clocks    *clock.File
	keeper    clockKeeper
	proposing ctxMutex    // held while the group proposes, and while leadership is handed over
	preparing atomic.Bool // Prepare is opening connections
	verifier  *verifier
	peers     *peers
	control   *peer.Listener
	meta      atomic.Pointer[map[string]string]
	leaderCh  chan struct{} // capacity 1: the known leader may have changed
	contact   contact
	convener  *member.Convener

	snapshots snapshotRuns

	// admission is held while a node is added (which can take two changes of the
	// membership), and while the feature level is raised.
	admission ctxMutex

	cur    atomic.Pointer[instance]
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	halted  atomic.Pointer[error] // why the node cannot continue
	closing atomic.Bool

	// mu guards opened, and serialises restart with Close.
	mu     sync.Mutex
	opened bool
}

// instance is one life of Raft in a group: a restart replaces it.
type instance struct {
	raft  *raft.Raft
	trans transport
	store *disk.Store
	log   *disk.Log
	snaps *disk.Snapshots
	id    *member.Identity
	stop  context.CancelFunc
	wg    sync.WaitGroup

	ending sync.Once
	ended  raft.Future // written by ending
}

// shutdownTimeout bounds the wait for Raft's goroutines and for the log, which may hang
// in a disk write.
const shutdownTimeout = 5 * time.Second

// New prepares a group. Before Start, the group only makes its directory. The machine must
// be empty.
func New(cfg Config, m Machine) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("raftlog: %w", err)
	}
	if cfg.Mux == nil || cfg.Fatal == nil {
		return nil, errors.New("raftlog: Mux and Fatal are required")
	}
	if err := disk.MakeDir(cfg.dir()); err != nil {
		return nil, fmt.Errorf("create group directory: %w", err)
	}
	clocks, err := clock.Open(cfg.dir(), cfg.wall, cfg.Logger)
	if err != nil {
		return nil, err
	}
	g := &Group{
		cfg:       cfg,
		ledger:    cfg.Ledger,
		clocks:    clocks,
		proposing: make(ctxMutex, 1),
		admission: make(ctxMutex, 1),
		leaderCh:  make(chan struct{}, 1),
	}
	g.SetMeta(cfg.Meta)
	g.fsm = newFSM(&cfg, m, g.resumed)
	g.fsm.bound.Store(clocks.Bound())
	saved, _ := clocks.Last()
	g.keeper.unset.Store(saved.Unset)
	g.fsm.fatal, g.fsm.observe, g.fsm.retune = g.halt, g.leaderChanged, g.retune
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.verifier = newVerifier(g.verifyOnce)
	g.peers = newPeers(g)
	g.convener = member.NewConvener(member.ConvenerConfig{
		NodeID: cfg.NodeID, Addr: cfg.Advertise, Join: cfg.Join, Expect: cfg.BootstrapExpect, Groups: cfg.Groups, Within: cfg.Within, Logger: cfg.Logger,
	}, convenerNode{g})
	return g, nil
}

// Start opens or creates the group's data and begins to take part in the cluster. The
// machine gets the newest snapshot, and then the log after it. The machine may become
// leader before Start returns. The group founds or joins its cluster in the background. If
// Start returns an error, nothing need be closed.
func (g *Group) Start() (err error) {
	if err := g.start(); err != nil {
		g.cancel()
		return err
	}
	if g.control, err = g.cfg.Mux.Listen(peer.KindControl, g.cfg.GroupID, nil); err != nil {
		g.cancel()
		g.stopInstance(g.cur.Load())
		return err
	}
	g.peers.control.Store(g.control)
	for _, run := range []func(context.Context){g.propose, g.verifier.run, g.maintain, g.notifyLeader, g.peers.run, g.serveControl, g.convene} {
		g.wg.Go(func() { run(g.ctx) })
	}
	g.mu.Lock()
	g.opened = true
	g.mu.Unlock()
	if p := g.halted.Load(); p != nil { // between start and here
		g.Close(context.Background())
		return *p
	}
	return nil
}

// start opens the stores and runs Raft on them.
func (g *Group) start() (err error) {
	in := &instance{}
	defer func() {
		if err != nil {
			g.stopInstance(in)
			if p := g.halted.Load(); p != nil {
				err = *p // the cause rather than Raft's error
			}
		}
	}()
	defer damaged(g.cfg.dir(), &err)
	if in.store, err = disk.Open(g.cfg.dir(), g.cfg.NoSync); err != nil {
		return err
	}
	inner := in.store.Log
	if g.cfg.wrapLog != nil {
		inner = g.cfg.wrapLog(inner)
	}
	in.log = disk.NewLog(inner, g.halt, g.cfg.Logger)
	if err = g.fsm.openLevel(in.store.Stable); err != nil {
		return err
	}
	cache, err := raft.NewLogCache(logCache(g.cfg.Groups), in.log)
	if err != nil {
		return err
	}
	if in.snaps, err = disk.OpenSnapshots(g.cfg.dir(), in.log, g.cfg.Logger, newRaftLogger(g.cfg.Logger), g.conflict); err != nil {
		return err
	}
	if err = disk.Reconcile(in.snaps, in.log, in.store.Fresh, g.cfg.readable, g.cfg.Logger); err != nil {
		return err
	}
	holds, err := member.HoldsState(in.log, in.store.Stable, in.snaps)
	if err != nil {
		return err
	}
	if in.id, err = member.Open(in.store.Stable, g.cfg.NodeID, g.cfg.Groups, holds, g.cfg.Logger); err != nil {
		return err
	}
	if !holds && g.cfg.Nonvoter && len(g.cfg.Join) == 0 {
		return errors.New("a nonvoter without data needs the addresses of a cluster to join")
	}
	g.fsm.arrived, g.fsm.restored = in.log.Arrivals.Of, in.log.NewestSnapshot
	g.fsm.last.Store(0)
	if in.trans, err = newTransport(&g.cfg, in.log, in.id, g.peers); err != nil {
		return err
	}
	in.raft, err = raft.NewRaft(g.cfg.raftConfig(in.id.Server()), syncedFSM{g.fsm, in.log}, cache, disk.NewVotes(in.store.Stable, in.log, g.halt), in.snaps, in.trans)
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	in.log.Run(in.raft, in.id.Server())
	if err := checkServers(in.raft.GetConfiguration().Configuration().Servers); err != nil {
		return err
	}
	g.fsm.restoredTo(in.raft.AppliedIndex()) // Raft has restored its newest snapshot
	seen := make(chan raft.Observation, 16)
	in.raft.RegisterObserver(raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		seen, ok := o.Data.(raft.LeaderObservation)
		if ok { // Raft has not noted a contact with the next leader yet
			g.contact.note(seen.LeaderID != "", in.raft.LastContact())
		}
		return ok
	}))
	ctx, stop := context.WithCancel(g.ctx)
	in.stop = stop
	g.cur.Store(in)
	in.wg.Go(func() { g.leadership(ctx, in.raft, seen) })
	return nil
}

// stopInstance ends one instance of Raft. It closes the connections first, because Raft
// waits for RPCs in progress, and the transfer of a snapshot that hangs has no deadline.
func (g *Group) stopInstance(in *instance) {
	if in == nil {
		return
	}
	if in.stop != nil {
		in.stop()
	}
	if in.trans.NetworkTransport != nil {
		in.trans.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	var err error
	if in.raft != nil {
		err = await(ctx, in.shutdown)
	}
	in.wg.Wait()
	if in.store == nil {
		return
	}
	if err == nil {
		err = within(ctx, func() error {
			_ = in.log.Await(math.MaxUint64) // halt has reported it
			return in.store.Close()
		})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("raft has not stopped within %v; the log stays open", shutdownTimeout)
	}
	if err != nil {
		g.cfg.Logger.Error("close the log", "error", err)
	}
}

// shutdown ends Raft. Every call returns the same future: with Raft's own futures, only
// the first one waits for the end.
func (in *instance) shutdown() raft.Future {
	in.ending.Do(func() { in.ended = in.raft.Shutdown() })
	return in.ended
}

// conflict is called if an installed snapshot contradicts the log, so that the entries
// after it were never committed. Raft deletes these entries on disk but keeps them in
// memory. It would reject every append and fetch the snapshot again, forever
// (hashicorp/raft #697). So conflict starts a new instance of Raft from the disk.
func (g *Group) conflict() {
	g.cfg.Logger.Warn("snapshot of the leader contradicts the log; restarting raft from the snapshot")
	go func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.opened || g.ctx.Err() != nil {
			return
		}
		g.fsm.stop(nil)
		g.stopInstance(g.cur.Load())
		if err := g.start(); err != nil {
			g.halt(fmt.Errorf("restart raft: %w", err))
		}
	}()
}

// halt takes the node out of the cluster and reports why. It does not block. Only the
// first call counts.
func (g *Group) halt(err error) {
	if !g.halted.CompareAndSwap(nil, &err) {
		return
	}
	go func() {
		if g.closing.Load() {
			return
		}
		g.cfg.Logger.Error("node stops taking part in the cluster", "error", err)
		// First stop all heartbeats: until then, no other node takes over.
		if in := g.cur.Load(); in != nil {
			in.trans.Close()
			in.shutdown()
		}
		g.fsm.stop(err)
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened {
			g.cfg.Fatal(err)
		}
	}()
}

// Close leaves the cluster until the next start. A leader first waits, until ctx is done,
// until all its effects are committed, and hands leadership over. The mux stays open.
func (g *Group) Close(ctx context.Context) error {
	if g.closing.Swap(true) {
		return ErrClosed
	}
	var err error
	if _, ok := g.Serving(); ok {
		if e := g.Transfer(ctx, ""); e != nil && !errors.Is(e, ErrNoTarget) {
			err = fmt.Errorf("hand leadership over: %w", e)
		}
	}
	if _, full := g.DiskFull(); full {
		_ = g.Snapshot(ctx) // there may be room by now
		if since, full := g.DiskFull(); full {
			g.cfg.Logger.Error("the disk is still full, and this node stops: the decisions that it kept in memory only are lost", "since", since)
		}
	}
	g.saveClock()
	g.shutdown()
	return err
}

// DiskFull reports whether this node is its cluster's only member and its disk is full, so
// that its new decisions are only in memory. began is when this state began.
func (g *Group) DiskFull() (began time.Time, full bool) {
	if in := g.cur.Load(); in != nil {
		return in.log.InMemory()
	}
	return time.Time{}, false
}

// shutdown stops everything without a handover.
func (g *Group) shutdown() {
	g.cancel()
	g.control.Close()
	g.mu.Lock()
	g.fsm.stop(ErrClosed)
	g.stopInstance(g.cur.Load())
	g.mu.Unlock()
	g.wg.Wait()
}

func (g *Group) raft() *raft.Raft { return g.cur.Load().raft }

// await calls f and waits for the future that f returns. f may block until Raft's main loop
// is free. If the future never returns (hashicorp/raft #498), the goroutine stays behind.
func await[F raft.Future](ctx context.Context, f func() F) error {
	return within(ctx, func() error { return f().Error() })
}

// within returns the result of f. If ctx is done first, it returns an error, and f stays
// behind, because it may never return.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ClusterID returns the id of the node's cluster, empty if it has none.
func (g *Group) ClusterID() string { return g.cur.Load().id.Cluster() }

// Admit returns ErrOtherCluster unless the node's cluster has the given id.
func (g *Group) Admit(cluster string) error { return g.cur.Load().id.Same(cluster) }

// SetMeta replaces Config.Meta. Peers get it when they ask next, within about a second.
// The caller must not change the map afterwards.
func (g *Group) SetMeta(meta map[string]string) { g.meta.Store(&meta) }

// Serving returns the term in which this node decides. ok is false if it does not decide.
func (g *Group) Serving() (term uint64, ok bool) {
	term = g.fsm.serving.Load()
	return term, term != 0
}

// Leader returns the node that Raft believes to be leader; "" if none is known. That node
// may not decide yet.
func (g *Group) Leader() (id, addr string) {
	a, i := g.raft().LeaderWithID()
	return member.NodeOf(i), string(a)
}

// Clock returns the cluster clock of the last entry applied, in unix ns.
func (g *Group) Clock() int64 { return g.fsm.clock.Load() }

// Unacked returns the age of the oldest uncommitted effect of this leader. It is 0 if all
// are committed, and on nodes that do not decide.
func (g *Group) Unacked() time.Duration {
	if g.fsm.serving.Load() == 0 {
		return 0
	}
	return g.ledger.Unacked()
}

// Progress says how far this leader's cuts have come, in tickets of the ledger.
type Progress struct {
	Open    uint64 // the ticket of the next cut
	Settled uint64 // the last ticket under which nothing is uncommitted
	Dirty   bool   // effects wait for the next cut
	Unacked time.Duration
}

// Progress returns the progress of this leader. On nodes that do not decide, it returns the
// zero value.
func (g *Group) Progress() Progress {
	if g.fsm.serving.Load() == 0 {
		return Progress{}
	}
	l := g.ledger
	return Progress{Open: l.Open(), Settled: l.Settled(), Dirty: l.Dirty(), Unacked: l.Unacked()}
}

// Snapshot takes a snapshot now. It returns nil if there is nothing new.
func (g *Group) Snapshot(ctx context.Context) error {
	err := g.writeSnapshot(ctx)
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// writeSnapshot makes Raft write a snapshot. If the feature level has risen meanwhile, it
// writes another, because a machine may write a whole snapshot in the formats with which it
// began.
func (g *Group) writeSnapshot(ctx context.Context) error {
	for {
		level := g.fsm.level.Load()
		err := await(ctx, g.raft().Snapshot)
		if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) || g.fsm.level.Load() == level {
			return err
		}
	}
}

// Recent entries are kept in memory, so that followers are served without reading the disk.
// The groups of a process share logCacheEntries, but each has leastLogCache.
const (
	logCacheEntries = 512
	leastLogCache   = 64
)

// logCache returns how many entries each of groups keeps in memory.
func logCache(groups int) int { return max(leastLogCache, logCacheEntries/max(1, groups)) }

// damaged turns a panic into an error. Raft panics on data that it cannot read, but an
// operator needs the file's name and not a stack trace.
func damaged(path string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %s: %v", ErrCorrupt, path, p)
	}
}
