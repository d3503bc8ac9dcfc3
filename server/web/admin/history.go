package admin

import (
	"math"
	"sync"
	"time"
)

const (
	// historyInterval is the time that a point covers. historyPoints is how many points are
	// kept, for 15 minutes.
	historyInterval = 5 * time.Second
	historyPoints   = 180
)

// Point is what a node has done in the time since the point before, and its state at the
// end of that time.
type Point struct {
	At int64 `json:"at_ms"` // Unix ms
	// Span is the time that the point covers. It is longer than historyInterval if the
	// process stood still.
	Span     int64  `json:"span_ms"`
	Commands uint64 `json:"commands"`
	Allowed  uint64 `json:"allowed"`
	Denied   uint64 `json:"denied"`
	Degraded uint64 `json:"degraded"`
	Errors   uint64 `json:"errors"`
	// P50 and P99 are quantiles of the time that a decision took, of a sample of the
	// decisions; 0 if the sample is empty.
	P50     int64 `json:"p50_us"`
	P99     int64 `json:"p99_us"`
	Clients int64 `json:"clients"`
	Keys    int64 `json:"keys"`
	Memory  int64 `json:"memory_bytes"`
}

// Durations is a distribution: Durations[i] is how many decisions took at most 2^i µs.
type Durations [32]uint64

// history keeps the last points, in a ring of fixed size. It reads counters that the
// server keeps anyway, so decisions do no work for it.
type history struct {
	// mu guards the fields below.
	mu     sync.Mutex
	points [historyPoints]Point
	taken  int // how many points were ever added
	was    Now
	took   Durations
	at     time.Time // when the last reading was made; zero before the first
}

// add adds the point from the last reading to this one.
func (h *history) add(n *Now, took *Durations, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, before := h.was, h.took
	h.was, h.took = *n, *took
	span := at.Sub(h.at)
	first := h.at.IsZero()
	h.at = at
	if first {
		return
	}
	since := since(&before, took)
	h.points[h.taken%historyPoints] = Point{
		At: at.UnixMilli(), Span: span.Milliseconds(),
		Commands: grown(n.Commands, was.Commands), Allowed: grown(n.Allowed, was.Allowed), Denied: grown(n.Denied, was.Denied),
		Degraded: grown(n.Degraded, was.Degraded), Errors: grown(n.Errors, was.Errors),
		P50: since.quantile(0.5), P99: since.quantile(0.99),
		Clients: n.Clients, Keys: n.Keys, Memory: n.Memory,
	}
	h.taken++
}

// list returns the points, the oldest first.
func (h *history) list() []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Point, 0, historyPoints)
	for i := max(0, h.taken-historyPoints); i < h.taken; i++ {
		list = append(list, h.points[i%historyPoints])
	}
	return list
}

// grown returns by how much a count has grown. CONFIG RESETSTAT sets counts to 0.
func grown(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// since returns the distribution of the decisions between two readings. CONFIG RESETSTAT
// and LATENCY RESET empty the distribution.
func since(before, now *Durations) (d Durations) {
	if last := len(now) - 1; now[last] < before[last] {
		return *now
	}
	for i := range now {
		d[i] = grown(now[i], before[i])
	}
	return d
}

// quantile returns the duration in µs that a part q of the decisions did not exceed. Within
// a bucket it assumes that durations are spread evenly. It returns 0 if there is no
// decision.
func (d *Durations) quantile(q float64) int64 {
	total := d[len(d)-1]
	if total == 0 {
		return 0
	}
	rank := max(q*float64(total), 1)
	below, from := 0.0, 0.0 // decisions in lower buckets, and the lower bound of the bucket in µs
	for i, upTo := range d {
		bound := float64(uint64(1) << i)
		if float64(upTo) >= rank {
			return int64(math.Ceil(from + (bound-from)*(rank-below)/(float64(upTo)-below)))
		}
		below, from = float64(upTo), bound
	}
	return int64(from)
}

// Watch adds points to the history until stop is closed.
func (a *API) Watch(stop <-chan struct{}) {
	t := time.NewTicker(historyInterval)
	defer t.Stop()
	for {
		n, took := a.view.Now(), a.view.Durations()
		a.past.add(&n, &took, time.Now())
		select {
		case <-t.C:
		case <-stop:
			return
		}
	}
}

func (a *API) history(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	return answer(struct {
		Every  int64   `json:"every_ms"`
		Points []Point `json:"points"`
	}{historyInterval.Milliseconds(), a.past.list()})
}
