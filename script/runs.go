package script

import (
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

// Runs counts the runs of a script on this node. Its counters are spread, so that event
// loops seldom write to the same counter. It measures the time of one run in Sampled. Its
// methods are safe for concurrent use.
type Runs struct {
	stripes [runStripes]runStripe
	// The fields below are rarely used.
	moved, failed, ended atomic.Uint64
	longest              atomic.Int64 // ns
}

// runStripes is the number of sets of counters: enough that event loops seldom share one.
const runStripes = 4

// runStripe fills a cache line.
type runStripe struct {
	native, interpreted atomic.Uint64
	timed, took         atomic.Uint64 // took is in ns
	_                   [32]byte
}

// Sampled says how often the time of a run on an event loop is measured: for the first of
// that many runs. A measurement costs two readings of the clock.
const Sampled = 64

func (s *runStripe) runs(native bool) *atomic.Uint64 {
	if native {
		return &s.native
	}
	return &s.interpreted
}

// Due reports whether to measure the time of the next run. uncounted is how many runs have
// ended since Count. stripe is a number of the caller, which spreads callers over counters.
// native reports that no Lua code runs.
func (r *Runs) Due(stripe uint8, native bool, uncounted uint64) bool {
	return (r.stripes[stripe%runStripes].runs(native).Load()+uncounted)%Sampled == 0
}

// Count counts n runs that have ended.
func (r *Runs) Count(stripe uint8, native bool, n uint64) {
	r.stripes[stripe%runStripes].runs(native).Add(n)
}

// Time adds the time of a run to the sample.
func (r *Runs) Time(stripe uint8, took time.Duration) {
	s := &r.stripes[stripe%runStripes]
	s.timed.Add(1)
	s.took.Add(uint64(max(took, 0)))
	for old := r.longest.Load(); int64(took) > old && !r.longest.CompareAndSwap(old, int64(took)); {
		old = r.longest.Load()
	}
}

// Moved counts a run that was too slow for an event loop, and was run again on a worker.
func (r *Runs) Moved() { r.moved.Add(1) }

// Failed counts a run whose reply is the script's own error. Its writes stay.
func (r *Runs) Failed() { r.failed.Add(1) }

// Ended counts a run that was ended at its limits or by SCRIPT KILL. It has changed
// nothing.
func (r *Runs) Ended() { r.ended.Add(1) }

// RunTotals are the counts of one or more scripts.
type RunTotals struct {
	Native, Interpreted  uint64 // runs
	Moved, Failed, Ended uint64 // of these
	Timed                uint64 // how many were timed
	Took, Longest        time.Duration
}

// Runs returns the number of runs.
func (t *RunTotals) Runs() uint64 { return t.Native + t.Interpreted }

// Mean returns the mean time of the timed runs, 0 if none was timed.
func (t *RunTotals) Mean() time.Duration {
	if t.Timed == 0 {
		return 0
	}
	return t.Took / time.Duration(t.Timed)
}

// Add adds other counts.
func (t *RunTotals) Add(o RunTotals) {
	t.Native += o.Native
	t.Interpreted += o.Interpreted
	t.Moved += o.Moved
	t.Failed += o.Failed
	t.Ended += o.Ended
	t.Timed += o.Timed
	t.Took += o.Took
	t.Longest = max(t.Longest, o.Longest)
}

// Totals returns the counts.
func (r *Runs) Totals() RunTotals {
	t := RunTotals{Moved: r.moved.Load(), Failed: r.failed.Load(), Ended: r.ended.Load(), Longest: time.Duration(r.longest.Load())}
	for i := range r.stripes {
		s := &r.stripes[i]
		t.Native += s.native.Load()
		t.Interpreted += s.interpreted.Load()
		t.Timed += s.timed.Load()
		t.Took += time.Duration(s.took.Load())
	}
	return t
}

// Reset sets the counts to zero.
func (r *Runs) Reset() {
	for _, n := range [...]*atomic.Uint64{&r.moved, &r.failed, &r.ended} {
		n.Store(0)
	}
	r.longest.Store(0)
	for i := range r.stripes {
		s := &r.stripes[i]
		for _, n := range [...]*atomic.Uint64{&s.native, &s.interpreted, &s.timed, &s.took} {
			n.Store(0)
		}
	}
}

// Scripts returns the known scripts, in no order.
func (c *Cache) Scripts() []*Script {
	all, _ := c.counted()
	return all
}

// counted returns the known scripts and the counts of former ones, as of one moment. Each
// script is in one of the two.
func (c *Cache) counted() ([]*Script, RunTotals) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]*Script, 0, len(c.bySHA))
	for _, s := range c.bySHA {
		all = append(all, s)
	}
	return all, c.gone
}

// Runs returns the sum of the counts of all scripts, including scripts that were dropped or
// flushed.
func (c *Cache) Runs() RunTotals {
	all, total := c.counted()
	for _, s := range all {
		total.Add(s.Runs.Totals())
	}
	return total
}

// ResetRuns sets all counts to zero.
func (c *Cache) ResetRuns() {
	c.mu.Lock()
	c.gone = RunTotals{}
	c.mu.Unlock()
	for _, s := range c.Scripts() {
		s.Runs.Reset()
	}
}

const (
	// maxTitle is the length of a title, in bytes.
	maxTitle = 60
	// titleWithin is how much of a script is searched for a title.
	titleWithin = 4 << 10
)

// Title returns the beginning of the script: its first line that is not empty or a
// comment mark, with only printable characters.
func (s *Script) Title() string {
	for line := range strings.Lines(s.Body[:min(len(s.Body), titleWithin)]) {
		line = strings.Join(strings.FieldsFunc(line, func(r rune) bool {
			return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar
		}), " ")
		switch {
		case line == "", strings.HasPrefix(line, "--"), strings.HasPrefix(line, "#!"):
		case len(line) > maxTitle:
			return strings.ToValidUTF8(line[:maxTitle-len("…")], "") + "…"
		default:
			return line
		}
	}
	return ""
}
