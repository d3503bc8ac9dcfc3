// Package fronts counts what is asked over HTTP and gRPC, by front and by result, and
// how long the answers take.
//
// Everything may be called by any goroutine. There are twelve series, and three
// histograms: nothing that a client sends makes one.
package fronts

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Result is what became of a request.
type Result int

// The worst of several results is the largest.
const (
	// Allowed is also what has no verdict, and was done.
	Allowed Result = iota
	Denied
	// Refused is a request that is wrong, or not permitted.
	Refused
	// Failed is a request without a verdict for no fault of its own: nobody could
	// decide, or there is no such policy.
	Failed
	results
)

// names of results, as metrics have them.
var names = [results]string{"allowed", "denied", "refused", "error"}

// Names of the fronts.
const (
	NameHTTP        = "http"
	NameForwardAuth = "forward-auth"
	NameGRPC        = "grpc"
)

// Of is the result of a verdict.
func Of(allowed bool) Result {
	if allowed {
		return Allowed
	}
	return Denied
}

// buckets are bounds in seconds, for who scrapes text. Among them is 20 ms, after
// which Envoy gives up unless it is told otherwise.
var buckets = []float64{0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5}

// Front counts the requests of one front.
type Front struct {
	requests [results]prometheus.Counter
	duration prometheus.Observer
}

// Count counts a request that is answered, and that was all here at a time; the zero
// time is that of one that was answered before.
func (f *Front) Count(r Result, here time.Time) {
	f.requests[r].Inc()
	if !here.IsZero() {
		f.duration.Observe(time.Since(here).Seconds())
	}
}

// Counts are those of all fronts.
type Counts struct {
	HTTP, ForwardAuth, GRPC Front

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// New returns counts of nothing yet.
func New() *Counts {
	c := &Counts{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_front_requests_total", Help: "Requests for verdicts over HTTP and gRPC.",
		}, []string{"front", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "headgate_front_duration_seconds", Help: "Time from when all of a request is here until it is answered.",
			Buckets: buckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"front"}),
	}
	for name, f := range map[string]*Front{NameHTTP: &c.HTTP, NameForwardAuth: &c.ForwardAuth, NameGRPC: &c.GRPC} {
		for r, result := range names {
			f.requests[r] = c.requests.WithLabelValues(name, result)
		}
		f.duration = c.durations.WithLabelValues(name)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Counts) Describe(out chan<- *prometheus.Desc) {
	c.requests.Describe(out)
	c.durations.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *Counts) Collect(out chan<- prometheus.Metric) {
	c.requests.Collect(out)
	c.durations.Collect(out)
}
