package raftlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/stable"
)

// Formats holds the versions in which nodes write at a feature level.
type Formats struct {
	Entry    byte // format of log entries
	Snapshot byte // format of snapshots, without the machine's part
}

// A cluster has a feature level, which says in which formats its nodes may write. The level
// is part of every snapshot, and of the log, where an entry raises it. It is never lowered.
// The leader raises the level after every member, voter or nonvoter, has just answered that
// its build can read the next level. So no node ever gets a format that it cannot read,
// under any leader. A member that is down keeps the level from rising. A node whose build
// cannot read the level does not start on the cluster's data, and cannot join.
//
// Levels are numbered from 1, the level of every new cluster. Config.Features lists the
// levels of a build.

// firstLevel is the level of a new cluster.
const firstLevel = 1

// firstFormats are the levels of a build without Config.Features.
var firstFormats = []Formats{{Entry: entryOldest, Snapshot: snapshotOldest}}

// levelKey is the key of the highest level that the node has seen, in the stable store.
var levelKey = []byte("headgate-feature-level")

// checkFeatures returns an error unless a build can read its own levels.
func checkFeatures(features []Formats) error {
	for i, f := range features {
		if f.Entry < entryOldest || f.Entry > entryNewest || f.Snapshot < snapshotOldest || f.Snapshot > snapshotNewest {
			return fmt.Errorf("feature level %d: formats %+v are not this build's", i+1, f)
		}
	}
	return nil
}

// supports returns the highest level that the build can read.
func (c *Config) supports() uint32 { return uint32(len(c.Features)) }

// levelError returns the error of a build that cannot be part of the cluster.
func levelError(level, supported uint32) error {
	return fmt.Errorf("%w: the level is %d, and this build supports levels up to %d; upgrade this node. If this node's data is from before the first release, wipe the data", ErrLevel, level, supported)
}

// openLevel makes the fsm store its level in values, and begin with the level stored there.
// The log has reached that level, so its formats are known without a leader and before the
// log is replayed. It returns an error if the build cannot read the level.
func (f *fsm) openLevel(values raft.StableStore) error {
	seen, err := seenLevel(values)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noteLevel = func(level uint32) error { return noteLevel(values, level) }
	return f.reach(seen)
}

func seenLevel(values raft.StableStore) (uint32, error) {
	v, err := stable.Text(values, levelKey)
	if err != nil || v == "" {
		return 0, err
	}
	level, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrCorrupt, levelKey, err)
	}
	return uint32(level), nil
}

// noteLevel records that the node has seen a level, so that a build that cannot read it
// does not start.
func noteLevel(values raft.StableStore, level uint32) error {
	seen, err := seenLevel(values)
	if err != nil || seen >= level {
		return err
	}
	if err := stable.SetText(values, levelKey, strconv.FormatUint(uint64(level), 10)); err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return nil
}

// raise raises the level to the highest that all members can read, if this node decides.
// Meanwhile it holds the admission of nodes.
func (g *Group) raise(ctx context.Context) {
	if _, ok := g.Serving(); !ok {
		return
	}
	level := g.fsm.level.Load()
	if level == g.cfg.supports() {
		return
	}
	if s := g.Status(); s.readable() <= level {
		return
	}
	if !g.admission.acquire(ctx) {
		return
	}
	defer g.admission.release()
	// Ask again: an earlier answer may be from before a restart with an older build.
	goal := g.askSupported(ctx)
	if goal <= level {
		return
	}
	g.cfg.Logger.Info("raising the feature level of the cluster", "from", level, "to", goal)
	g.fsm.raise(goal)
}

// readable returns the highest level that all members can read. It is 0 if a member is
// down or has lost its data.
func (s *Status) readable() uint32 {
	least := s.Supports
	for i := range s.Members {
		m := &s.Members[i]
		if !m.Up || m.Lost {
			return 0
		}
		least = min(least, m.Supports)
	}
	return least
}

// Rising reports whether the level may be about to rise: all members can read a higher
// level, or some member has not been asked yet.
func (g *Group) Rising() bool {
	s := g.Status()
	return s.Level < s.Supports && (s.readable() > s.Level || g.peers.unasked())
}

// unasked reports whether some member has not been asked anything yet.
func (p *peers) unasked() bool {
	servers, _ := p.g.configuration()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(servers, func(s raft.Server) bool {
		return member.NodeOf(s.ID) != p.g.cfg.NodeID && p.known[s.ID] == nil
	})
}

// askSupported asks all members for the highest level that they can read, and returns the
// lowest answer. It returns 0 unless all have answered.
func (g *Group) askSupported(ctx context.Context) uint32 {
	servers, _ := g.configuration()
	answers := make([]uint32, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		if member.NodeOf(s.ID) == g.cfg.NodeID {
			answers[i] = g.cfg.supports()
			continue
		}
		wg.Go(func() {
			if g.peers.ask(ctx, s) {
				answers[i] = g.peers.supports(s.ID)
			}
		})
	}
	wg.Wait()
	if len(answers) == 0 {
		return 0
	}
	return slices.Min(answers)
}

// supports returns the last answer of a member.
func (p *peers) supports(id raft.ServerID) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.known[id]; k != nil {
		return k.status.Supports
	}
	return 0
}

// admits returns an error for a node whose build cannot read what this cluster writes or
// is about to write. The caller must hold admission.
func (g *Group) admits(s *Status) error {
	if level := g.fsm.promised(); s.Supports < level {
		return fmt.Errorf("%w: the level is %d, and %s supports levels up to %d; upgrade that node", ErrLevel, level, s.NodeID, s.Supports)
	}
	return nil
}

// setFeatures fills in a status's fields about the feature level.
func (s *Status) setFeatures(level, supports uint32) {
	s.Level, s.Supports, s.NewestLevel = level, supports, supports
	for i := range s.Members {
		s.NewestLevel = max(s.NewestLevel, s.Members[i].Supports)
	}
	if s.Level >= s.NewestLevel {
		return
	}
	for i := range s.Members {
		switch m := &s.Members[i]; {
		case !m.Up:
			s.HeldBack = append(s.HeldBack, HeldBack{m.ID, "is down"})
		case m.Lost:
			s.HeldBack = append(s.HeldBack, HeldBack{m.ID, "has lost its data"})
		case m.Supports < s.NewestLevel:
			s.HeldBack = append(s.HeldBack, HeldBack{m.ID, fmt.Sprintf("supports levels up to %d", m.Supports)})
		}
	}
}

// HeldBack says why the feature level is lower than the highest level that some member can
// read.
type HeldBack struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// String returns a clause such as "n3 is down".
func (h HeldBack) String() string { return h.ID + " " + h.Why }

// The fsm's part: the log determines which level is reached.

// raise proposes a level with the next batch. It repeats this with each batch until one is
// committed, while this node decides.
func (f *fsm) raise(level uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.serving.Load() == 0 || level <= f.cursor.level {
		return
	}
	f.wanted = level
	f.ledger.Ring()
}

// promised returns the cluster's level, or the level that this leader may have proposed.
func (f *fsm) promised() uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.cursor.level, f.wanted)
}

// nextLevel returns the level of the next batch, and whether it is higher than the level
// before. The caller holds mu.
func (f *fsm) nextLevel() (level uint32, raises bool) {
	return max(f.cursor.level, f.wanted), f.wanted > f.cursor.level
}

// formats returns what the present level permits. The caller holds mu.
func (f *fsm) formats() Formats { return f.features[f.cursor.level-1] }

// reach sets the level to that of an entry, a snapshot or the disk. The caller holds mu.
func (f *fsm) reach(level uint32) error {
	if level <= f.cursor.level {
		return nil
	}
	if supported := uint32(len(f.features)); level > supported {
		return levelError(level, supported)
	}
	if err := f.noteLevel(level); err != nil {
		return err
	}
	f.cursor.level = level
	f.machine.Permit(level)
	f.level.Store(level) // others see it once it is permitted
	return nil
}

// errNoLevel is returned for a snapshot without a level.
var errNoLevel = errors.New("it has no feature level")
