// Package fronts counts the requests over HTTP and gRPC, by front and by result, and
// measures the time of the answers.
//
// All functions and methods are safe for concurrent use. There are twelve series and three
// histograms. Clients cannot add any.
package fronts

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Result is the result of a request.
type Result int

// The results. If a request has several results, the largest of them counts.
const (
	// Allowed also counts requests that were done and have no verdict, such as settlements.
	Allowed Result = iota
	Denied
	// Refused is the result of a request that is invalid or not permitted.
	Refused
	// Failed is the result of a valid request without a verdict: nobody could decide it, or
	// the policy does not exist.
	Failed
	results
)

// names are the results' names in metrics.
var names = [results]string{"allowed", "denied", "refused", "error"}

// Names of the fronts.
const (
	NameHTTP        = "http"
	NameForwardAuth = "forward-auth"
	NameGRPC        = "grpc"
)

// Of returns Allowed or Denied.
func Of(allowed bool) Result {
	if allowed {
		return Allowed
	}
	return Denied
}

// buckets are the upper bounds in seconds, for scrapers of Prometheus's text format. One of
// them is 20 ms, Envoy's default timeout.
var buckets = []float64{0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5}

// Front counts the requests of one front.
type Front struct {
	requests [results]prometheus.Counter
	duration prometheus.Observer
}

// Count counts an answered request. arrived is the time at which the whole request
// had arrived. If arrived is zero, the answer came before that, and its time is not
// measured.
func (f *Front) Count(r Result, arrived time.Time) {
	f.requests[r].Inc()
	if !arrived.IsZero() {
		f.duration.Observe(time.Since(arrived).Seconds())
	}
}

// Counts are the counts of all fronts.
type Counts struct {
	HTTP, ForwardAuth, GRPC Front

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// New returns empty counts.
func New() *Counts {
	c := &Counts{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_front_requests_total", Help: "Requests for verdicts over HTTP and gRPC.",
		}, []string{"front", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "headgate_front_duration_seconds", Help: "Time from the arrival of a complete request to its answer.",
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
