package clock

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

// File remembers, across restarts, what the cluster clock was at a moment of
// this node's other clocks. After a restart of the process alone, the time
// since boot says how much of it has passed. After one of the machine there are
// only the wall clock and the others' reports: see Resume.
//
// The file is not synced: a node that has lost it does not take part in finding
// the clock.
type File struct {
	path       string
	wall, boot func() int64
	bootID     string

	// mu guards saved and known.
	mu    sync.Mutex
	saved Saved
	known bool
}

// Saved is the file's content: one moment by every clock, in ns.
type Saved struct {
	Format int    `json:"format"`
	Clock  int64  `json:"clock_ns"` // the cluster's
	Term   uint64 `json:"term"`     // of the leader whose clock that is
	Wall   int64  `json:"wall_ns"`
	Boot   int64  `json:"boot_ns"` // since the boot of that id
	BootID string `json:"boot_id"`

	// Unset: no node knew how long the cluster was down, and an operator must set
	// its clock.
	Unset bool `json:"unset,omitempty"`
}

// Offset is how far the cluster clock was ahead of the wall clock.
func (s *Saved) Offset() int64 { return s.Clock - s.Wall }

// FileName is the name of the file in the directory of a group.
const FileName = "clock.json"

const (
	format = 2

	// slack is by how much the difference of two clocks has to change to be
	// written again.
	slack = int64(time.Millisecond)
)

// Open reads the file in dir, if there is one. wall is the wall clock in unix
// ns, the system's if it is nil.
func Open(dir string, wall func() int64, log *slog.Logger) (*File, error) {
	if wall == nil {
		wall = func() int64 { return time.Now().UnixNano() }
	}
	c := &File{
		path: filepath.Join(dir, FileName),
		wall: wall, boot: boottime.Now, bootID: boottime.ID(),
	}
	b, err := os.ReadFile(c.path)
	if os.IsNotExist(err) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	var s Saved
	if err := json.Unmarshal(b, &s); err != nil || s.Format != format {
		log.Warn("the saved clock is torn, or of another format, and does not count", "file", c.path, "format", s.Format, "want", format, "error", err)
		return c, nil
	}
	c.saved, c.known = s, true
	return c, nil
}

// Wall is this node's wall clock, unix ns.
func (c *File) Wall() int64 { return c.wall() }

// Last returns what was saved last; ok is false if nothing was.
func (c *File) Last() (s Saved, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saved, c.known
}

// Bound returns a lower bound of the cluster clock if it was saved in this boot
// of the machine, else nil. No leader has been heard since the start, so that
// the bound does not sink.
func (c *File) Bound() *Bound {
	s, ok := c.Last()
	if !ok || c.bootID == "" || s.BootID != c.bootID || s.Boot > c.boot() {
		return nil
	}
	at := sighting{s.Clock - slack, s.Boot}
	return &Bound{term: s.Term, best: at, next: at, heard: s.Boot - silence, saved: true}
}

// Save remembers that the cluster clock, kept by the leader of a term, is at
// the given time now, and whether it is unset.
func (c *File) Save(clock int64, term uint64, unset bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Saved{Format: format, Clock: clock, Term: term, Wall: c.wall(), Boot: c.boot(), BootID: c.bootID, Unset: unset}
	if s := &c.saved; c.known && s.Term == term && s.BootID == c.bootID && s.Unset == unset && near(s.Offset(), now.Offset()) && near(s.Clock-s.Boot, now.Clock-now.Boot) {
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
func near(a, b int64) bool { return a-b < slack && b-a < slack }
