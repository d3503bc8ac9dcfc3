package server

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate-io/headgate/server/command"
)

// Bounds of a slow log entry, as in Redis.
const (
	slowlogMaxArgs   = 32
	slowlogMaxString = 128
)

// timeAllBelow is the threshold of the slow log below which the time of every fast command
// is measured. A fast command reaches a higher threshold only if something is very wrong,
// and then slow commands and samples show it too.
const timeAllBelow = time.Millisecond

// slowlog holds the latest slow commands.
type slowlog struct {
	mu     sync.Mutex
	maxLen int   // guarded by mu
	nextID int64 // guarded by mu
	// entries becomes a ring when it has maxLen entries; guarded by mu.
	entries []slowEntry
	oldest  int // position of the oldest in entries; guarded by mu
}

type slowEntry struct {
	id   int64
	at   time.Time
	took time.Duration
	args [][]byte
	addr string
	name string
}

// observe adds a command to the log if it took long enough.
func (sl *slowlog) observe(c *conn, cmd *command.Spec, args [][]byte, took time.Duration) {
	t := c.srv.runtime.Load().SlowlogThreshold
	if t < 0 || took < t || cmd.Flags&command.SkipSlowlog != 0 {
		return
	}
	e := slowEntry{at: time.Now(), took: took, args: clipArgs(cmd.Public(args)), addr: c.addr, name: c.meta.Load().name}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	e.id = sl.nextID
	sl.nextID++
	switch {
	case len(sl.entries) < sl.maxLen:
		sl.entries = append(sl.entries, e)
	case sl.maxLen > 0:
		sl.entries[sl.oldest] = e
		sl.oldest = (sl.oldest + 1) % len(sl.entries)
	}
}

// setMaxLen sets how many entries are kept; the newest stay.
func (sl *slowlog) setMaxLen(n int) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if n == sl.maxLen {
		return
	}
	kept := sl.newest(n)
	slices.Reverse(kept)
	sl.maxLen, sl.entries, sl.oldest = n, kept, 0
}

// latest returns at most n entries, the newest first. A negative n means all.
func (sl *slowlog) latest(n int) []slowEntry {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.newest(n)
}

// newest does the work of latest. The caller holds mu.
func (sl *slowlog) newest(n int) []slowEntry {
	have := len(sl.entries)
	if n < 0 || n > have {
		n = have
	}
	out := make([]slowEntry, 0, n)
	for i := range n {
		out = append(out, sl.entries[(sl.oldest+have-1-i)%have])
	}
	return out
}

// len returns the number of entries.
func (sl *slowlog) len() int {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return len(sl.entries)
}

// clipArgs copies arguments, shortened as in Redis's slow log.
func clipArgs(args [][]byte) [][]byte {
	n := min(len(args), slowlogMaxArgs)
	out := make([][]byte, n)
	for i := range out {
		if i == n-1 && len(args) > n {
			out[i] = fmt.Appendf(nil, "... (%d more arguments)", len(args)-n+1)
			break
		}
		a := args[i]
		if len(a) > slowlogMaxString {
			out[i] = fmt.Appendf(nil, "%s... (%d more bytes)", a[:slowlogMaxString], len(a)-slowlogMaxString)
		} else {
			out[i] = append([]byte(nil), a...)
		}
	}
	return out
}

func (sl *slowlog) reset() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.entries, sl.oldest = nil, 0
}
