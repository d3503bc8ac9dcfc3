package raftlog

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"github.com/headgate-io/headgate/internal/diskspace"
	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/stable"
)

const (
	maintainInterval = 250 * time.Millisecond

	// How much log stays after a snapshot, so that a follower that was away for a moment
	// needs no snapshot: about trailingBytes of entries of recent size. A fixed number of
	// large entries could exceed SnapshotBytes.
	trailingBytes = 64 << 20
	minTrailing   = 128
	maxTrailing   = 8192

	// snapshotRetry is the pause after a snapshot by bytes has failed.
	snapshotRetry = 10 * time.Second

	// roomToGoOn is how many bytes must be free on a disk that was full, in addition to the
	// size of the last snapshot.
	roomToGoOn = 4 << 20

	// pausedFrom is how late a tick must be for this process to count as paused. The
	// process, or its virtual machine, was then stopped.
	pausedFrom = time.Second

	// handoverTimeout bounds the attempt to hand over a stalled leadership.
	handoverTimeout = 2 * time.Second
)

// started is the time from which untilBeat counts.
var started = time.Now()

// untilBeat returns the time until the next of the moments at which all groups of a node
// wake, every d. So one wake-up of the processor serves all groups. Nodes with different
// addresses wake at different moments.
func untilBeat(addr string, d time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(addr))
	phase := time.Duration(h.Sum32()) // up to 4 s
	return d - (time.Since(started)+phase)%d
}

// maintain runs the watchdog, the snapshot trigger by bytes and the clock file.
func (g *Group) maintain(ctx context.Context) {
	var snapshotAfter, clockAfter time.Time
	var run presence
	for {
		from := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-time.After(untilBeat(g.cfg.Advertise, maintainInterval)):
		}
		now := time.Now()
		run.waited(from, now)
		g.watch(ctx, run)
		if now.After(clockAfter) {
			clockAfter = now.Add(time.Second)
			g.saveClock()
			g.lookAtClock()
			g.lookAtData()
		}
		if now.After(snapshotAfter) && g.snapshotDue() {
			snapshotAfter = now.Add(snapshotRetry)
			g.wg.Go(func() {
				if err := g.Snapshot(ctx); err != nil && ctx.Err() == nil {
					g.cfg.Logger.Warn("snapshot by log size", "error", err)
				}
			})
		}
	}
}

// lookAtData stops a node whose files are no longer in its data directory. Otherwise the
// node would vote and acknowledge with files that disappear with its process.
func (g *Group) lookAtData() {
	err := g.cur.Load().store.Stable.Missing()
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, stable.ErrReplaced) {
		g.halt(fmt.Errorf("%w: %w; "+disk.Wipe, ErrDataGone, err))
	}
}

// snapshotDue reports whether the log has grown enough for a snapshot. While the disk is
// full, it reports whether there seems to be room for a snapshot, because a snapshot ends
// that state.
func (g *Group) snapshotDue() bool {
	in := g.cur.Load()
	if _, full := in.log.InMemory(); !full {
		_, bytes := in.log.SinceSnapshot()
		return bytes >= g.cfg.SnapshotBytes
	}
	need := uint64(roomToGoOn)
	if metas, err := in.snaps.SnapshotStore.List(); err == nil && len(metas) > 0 {
		need += uint64(metas[0].Size)
	}
	free, _, err := diskspace.Of(g.cfg.dir())
	return err != nil || free >= need
}

// presence is the time since which this process has run without a pause. A wait for the
// disk that began earlier does not count, because the disk may not have hung while the
// process did not run.
type presence struct{ since time.Time }

// waited notes a wait for the ticker.
func (p *presence) waited(from, to time.Time) {
	if to.Sub(from) >= maintainInterval+pausedFrom {
		p.since = to
	}
}

// of returns how much of the last d the process has run without a pause.
func (p presence) of(d time.Duration, now time.Time) time.Duration {
	return min(d, now.Sub(p.since))
}

// watch stops a node whose log write hangs, whether it is leader or not. If a leader
// commits nothing although its followers answer, watch ends its leadership by a handover or
// a stop. A leader without followers loses its lease long before. But a leader whose own
// disk hangs still sends heartbeats (hashicorp/raft #503).
func (g *Group) watch(ctx context.Context, run presence) {
	now := time.Now()
	writing := run.of(g.cur.Load().log.Stalled(), now)
	slow := fmt.Sprintf("a log write has taken %v", writing.Round(time.Millisecond))
	if writing >= g.cfg.StallTimeout {
		g.halt(fmt.Errorf("%w: %s", ErrStalled, slow))
		return
	}
	age := run.of(g.Unacked(), now)
	if age < g.cfg.StallTimeout {
		return
	}
	err := fmt.Errorf("%w: oldest batch uncommitted for %v", ErrStalled, age.Round(time.Millisecond))
	if writing >= g.cfg.StallTimeout/2 {
		g.halt(fmt.Errorf("%w, %s", err, slow))
		return
	}
	g.cfg.Logger.Error("handing leadership over", "error", err)
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	if e := g.forceTransfer(ctx); e != nil {
		g.halt(fmt.Errorf("%w, and cannot hand over: %w", err, e))
	}
}

// forceTransfer transfers leadership without waiting for commits.
func (g *Group) forceTransfer(ctx context.Context) error {
	term, ok := g.Serving()
	if !ok {
		return nil
	}
	if err := await(ctx, g.raft().LeadershipTransfer); err != nil {
		return err
	}
	return g.poll(ctx, func() bool { return g.fsm.serving.Load() != term })
}

// retune sets how much log the next snapshot leaves. Raft calls it on the FSM's goroutine
// before a snapshot.
func (g *Group) retune() {
	in := g.cur.Load()
	entries, bytes := in.log.SinceSnapshot()
	if entries == 0 {
		return
	}
	rc := in.raft.ReloadableConfig()
	rc.TrailingLogs = uint64(min(max(g.cfg.trailing/max(bytes/entries, 1), minTrailing), maxTrailing))
	if err := in.raft.ReloadConfig(rc); err != nil {
		g.cfg.Logger.Warn("set trailing logs", "error", err)
	}
}
