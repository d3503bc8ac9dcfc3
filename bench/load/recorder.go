package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms cover 1 µs to 5 minutes with three significant digits: above the
// longest run's worst case under overload, at about 190 KB each.
const (
	lowestLatency  = int64(time.Microsecond)
	highestLatency = int64(5 * time.Minute)
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestLatency, highestLatency, 3)
}

// recorder collects what some connections measured. Connections share a few recorders.
// Fifty histograms would evict the server's working set from the cache that both share.
type recorder struct {
	mu sync.Mutex // guards everything below
	// latency of the current second; moved to the totals by collect.
	latency *hdrhistogram.Histogram
	counts
}

// counts are sums over replies.
type counts struct {
	replies int64 // received while measuring, errors included
	allowed int64
	denied  int64
	errors  map[string]int64  // by kind
	causes  map[string]string // the first of each kind
}

func (c *counts) fail(kind, cause string, n int64) {
	if c.errors == nil {
		c.errors, c.causes = make(map[string]int64), make(map[string]string)
	}
	if c.errors[kind] == 0 {
		c.causes[kind] = cause
	}
	c.errors[kind] += n
}

func (c *counts) add(o *counts) {
	c.replies += o.replies
	c.allowed += o.allowed
	c.denied += o.denied
	for kind, n := range o.errors {
		c.fail(kind, o.causes[kind], n)
	}
}

// observe records n replies that took d. Must be called with mu held.
func (r *recorder) observe(d time.Duration, n int64) {
	v := min(max(int64(d), lowestLatency), highestLatency)
	// The value is clamped to the histogram's range, so it is always recorded.
	_ = r.latency.RecordValues(v, n)
}

// tally counts one reply. Must be called with mu held.
func (r *recorder) tally(rep reply, v verdict) {
	r.replies++
	switch {
	case rep.failure != nil:
		r.fail(failureKind(rep.failure), string(rep.failure), 1)
	case v == notALimiter || !rep.integer:
	case (rep.first == 0) == (v == limitedFirst):
		r.allowed++
	default:
		r.denied++
	}
}

// failed counts a connection that broke or was not made.
func (r *recorder) failed(kind string, err error) {
	r.mu.Lock()
	r.fail(kind, err.Error(), 1)
	r.mu.Unlock()
}

// collect moves everything recorded since the last call into h and c.
func (r *recorder) collect(h *hdrhistogram.Histogram, c *counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.Merge(r.latency)
	c.add(&r.counts)
	r.latency.Reset()
	r.counts = counts{}
}
