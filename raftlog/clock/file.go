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

// File remembers across restarts which cluster clock belonged to which times of this node's
// other clocks. If only the process has restarted, the time since the machine's boot says
// how much time has passed. If the machine has restarted, only the wall clock and the
// reports of other nodes help: see Resume.
//
// The file is not synced. A node that has lost it does not take part in finding the clock.
type File struct {
	path       string
	wall, boot func() int64
	bootID     string

	// mu guards saved and known.
	mu    sync.Mutex
	saved Saved
	known bool
}

// Saved is the file's content: the same moment by each clock, in ns.
type Saved struct {
	Format int    `json:"format"`
	Clock  int64  `json:"clock_ns"` // the cluster's clock
	Term   uint64 `json:"term"`     // term of the leader whose clock it is
	Wall   int64  `json:"wall_ns"`
	Boot   int64  `json:"boot_ns"` // ns since the machine's boot with the id BootID
	BootID string `json:"boot_id"`

	// Unset reports that no node knew how long the cluster was down. An operator must then
	// set the clock.
	Unset bool `json:"unset,omitempty"`
}

// Offset returns how far the cluster clock was ahead of the wall clock, in ns.
func (s *Saved) Offset() int64 { return s.Clock - s.Wall }

// FileName is the name of the file in the directory of a group.
const FileName = "clock.json"

const (
	format = 2

	// slack is how much the difference of two clocks must change before the file is
	// written again.
	slack = int64(time.Millisecond)
)

// Open reads the file in dir, if it exists. wall returns the wall clock in Unix ns; nil
// means the system's clock.
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
		log.Warn("the saved clock is damaged or of another format, and is ignored", "file", c.path, "format", s.Format, "want", format, "error", err)
		return c, nil
	}
	c.saved, c.known = s, true
	return c, nil
}

// Wall is this node's wall clock, unix ns.
func (c *File) Wall() int64 { return c.wall() }

// Last returns what was saved last. ok is false if nothing was ever saved.
func (c *File) Last() (s Saved, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saved, c.known
}

// Bound returns a lower bound of the cluster clock if the clock was saved since the
// machine's last boot, otherwise nil. This bound does not fall with time, because no leader
// has been heard since the start.
func (c *File) Bound() *Bound {
	s, ok := c.Last()
	if !ok || c.bootID == "" || s.BootID != c.bootID || s.Boot > c.boot() {
		return nil
	}
	at := sighting{s.Clock - slack, s.Boot}
	return &Bound{term: s.Term, best: at, next: at, heard: s.Boot - silence, saved: true}
}

// Save remembers that the cluster clock is at clock now, and whether it is unset. term is
// the term of the leader that keeps the clock.
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
