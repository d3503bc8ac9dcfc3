package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the outcome of a run. Durations are nanoseconds in JSON.
type Result struct {
	Command  string        `json:"command"`
	Clients  int           `json:"clients"`
	Pipeline int           `json:"pipeline"`
	Keys     uint64        `json:"keys"`
	Duration time.Duration `json:"duration_ns"`
	// Offered is the arrival rate of an open loop, 0 for a closed one.
	Offered float64 `json:"offered_per_second"`
	// Rate is the replies per second that arrived during the measurement.
	Rate float64 `json:"replies_per_second"`
	// Replies is their number, error replies included.
	Replies int64 `json:"replies"`
	// Allowed and Denied count decisions; both are 0 for other commands.
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
	// Errors counts error replies by their first word, broken connections as
	// "closed", "timeout", "protocol" or "connection", and vain attempts to
	// connect again as "connect".
	Errors map[string]int64 `json:"errors,omitempty"`
	// Causes has the text of one of the first errors of each kind in Errors.
	Causes map[string]string `json:"causes,omitempty"`
	// Unsent commands of an open loop came due but could not be written
	// before the end: the server did not read.
	Unsent int64 `json:"unsent"`
	// Unanswered commands were written and had no reply when their connection
	// failed or Drain ended.
	Unanswered int64 `json:"unanswered"`
	// Latency is the distribution over the commands of the measurement.
	Latency Latency `json:"latency"`
}

// Latency is a summary of a latency distribution.
type Latency struct {
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p99_9_ns"`
	P9999 time.Duration `json:"p99_99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Failures is the number of errors of every kind.
func (r *Result) Failures() int64 {
	var n int64
	for _, count := range r.Errors {
		n += count
	}
	return n
}

func summarize(h *hdrhistogram.Histogram) Latency {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Latency{
		Mean:  time.Duration(h.Mean()),
		P50:   at(50),
		P90:   at(90),
		P99:   at(99),
		P999:  at(99.9),
		P9999: at(99.99),
		Max:   time.Duration(h.Max()),
	}
}
