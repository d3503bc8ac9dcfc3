package raftlog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// clockFile remembers, across restarts, how far the cluster clock is from this node's wall clock. Only after a restart of
// the whole cluster is there nobody whose clock goes on: the first leader then continues from its own wall clock plus
// this difference, so that time spent down counts and a wrong wall clock does not make the cluster clock jump.
//
// The file is not synced: losing it falls back to max(wall clock, last replicated clock).
type clockFile struct {
	path string
	wall func() int64

	// mu guards offset and known.
	mu     sync.Mutex
	offset int64
	known  bool
}

// clockFileData is the file's content.
type clockFileData struct {
	OffsetNS int64 `json:"offset_ns"` // cluster clock minus this node's wall clock
}

// clockSlack is the change of the difference that is worth a write.
const clockSlack = int64(time.Millisecond)

func openClockFile(dir string) (*clockFile, error) {
	c := &clockFile{path: filepath.Join(dir, "clock.json"), wall: func() int64 { return time.Now().UnixNano() }}
	b, err := os.ReadFile(c.path)
	if os.IsNotExist(err) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	var d clockFileData
	if json.Unmarshal(b, &d) == nil { // else it was torn by a power loss
		c.offset, c.known = d.OffsetNS, true
	}
	return c, nil
}

// now returns what the cluster clock should show if nobody has kept it running.
func (c *clockFile) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall() + c.offset
}

// save remembers that the cluster clock is at the given time now.
func (c *clockFile) save(clock int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset := clock - c.wall()
	if d := offset - c.offset; c.known && -clockSlack < d && d < clockSlack {
		return nil
	}
	b, err := json.Marshal(clockFileData{offset})
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
	c.offset, c.known = offset, true
	return nil
}
