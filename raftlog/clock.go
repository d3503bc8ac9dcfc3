package raftlog

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/boottime"
)

// clockFile remembers, across restarts, what the cluster clock was at a moment of this node's other clocks. After a
// restart of the process alone the time since boot tells how much of it has passed; after one of the machine there is
// only the wall clock, and what others have saved: see resumption.
//
// The file is not synced: losing it costs this node its word.
type clockFile struct {
	path       string
	wall, boot func() int64
	bootID     string

	// mu guards saved and known.
	mu    sync.Mutex
	saved savedClock
	known bool
}

// savedClock is the file's content: one moment by every clock, in ns.
type savedClock struct {
	Format int    `json:"format"`
	Clock  int64  `json:"clock_ns"` // the cluster's
	Term   uint64 `json:"term"`     // of the leader whose clock that is
	Wall   int64  `json:"wall_ns"`
	Boot   int64  `json:"boot_ns"` // since the boot of that id
	BootID string `json:"boot_id"`

	// Unset: nobody could tell how long the cluster was down, and an operator is to set its clock.
	Unset bool `json:"unset,omitempty"`
}

// offset is how far the cluster clock was ahead of the wall clock.
func (s *savedClock) offset() int64 { return s.Clock - s.Wall }

const (
	clockFormat = 2

	// clockSlack is the change of a difference between the clocks that is worth a write.
	clockSlack = int64(time.Millisecond)
)

func openClockFile(dir string, log *slog.Logger) (*clockFile, error) {
	c := &clockFile{
		path: filepath.Join(dir, "clock.json"),
		wall: func() int64 { return time.Now().UnixNano() },
		boot: boottime.Now, bootID: boottime.ID(),
	}
	b, err := os.ReadFile(c.path)
	if os.IsNotExist(err) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	var s savedClock
	if err := json.Unmarshal(b, &s); err != nil || s.Format != clockFormat {
		log.Warn("the saved clock is torn, or of another format, and does not count", "file", c.path, "format", s.Format, "want", clockFormat, "error", err)
		return c, nil
	}
	c.saved, c.known = s, true
	return c, nil
}

// last returns what was saved last; ok is false if nothing is known.
func (c *clockFile) last() (s savedClock, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saved, c.known
}

// bound returns what the cluster clock is at least, if that was saved in this boot of the machine, else nil. Nobody has
// been heard since: how slow the clock ran that it was can no longer matter.
func (c *clockFile) bound() *clockBound {
	s, ok := c.last()
	if !ok || c.bootID == "" || s.BootID != c.bootID || s.Boot > c.boot() {
		return nil
	}
	at := sighting{s.Clock - clockSlack, s.Boot}
	return &clockBound{term: s.Term, best: at, next: at, heard: s.Boot - clockSilence, saved: true}
}

// save remembers that the cluster clock, kept by the leader of a term, is at the given time now, and whether it is unset.
func (c *clockFile) save(clock int64, term uint64, unset bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := savedClock{Format: clockFormat, Clock: clock, Term: term, Wall: c.wall(), Boot: c.boot(), BootID: c.bootID, Unset: unset}
	if s := &c.saved; c.known && s.Term == term && s.BootID == c.bootID && s.Unset == unset && near(s.offset(), now.offset()) && near(s.Clock-s.Boot, now.Clock-now.Boot) {
		return nil
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	tmp := c.path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, c.path); err != nil {
		return err
	}
	c.saved, c.known = now, true
	return nil
}

// near reports whether a difference between two clocks has hardly changed.
func near(a, b int64) bool { return a-b < clockSlack && b-a < clockSlack }

// saveClock remembers the cluster clock while this node keeps it.
func (g *Group) saveClock() {
	clock, term, ok := g.keptClock()
	if !ok {
		return
	}
	if err := g.clocks.save(clock, term, g.keeper.unset.Load()); err != nil {
		g.cfg.Logger.Warn("save clock", "error", err)
	}
}

// keptClock returns the cluster clock as this node keeps it, and the term of the leader by whose clock it goes: exact on the
// serving leader, elsewhere a lower bound. ok is false on a node that has heard of none since its machine was booted.
func (g *Group) keptClock() (clock int64, term uint64, ok bool) {
	if term, ok := g.Serving(); ok {
		return g.fsm.machine.Now(), term, true
	}
	return g.fsm.clockNow()
}
