package http

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Source is what the metrics are read from, once for each scrape.
type Source interface {
	Metrics() Metrics
}

// Metrics is one reading. Fields named for something that happens count since
// the start; the others are of the moment.
type Metrics struct {
	// Decisions are the answers of the limiter. No two have the same labels,
	// and clients must not be able to add any.
	Decisions []Decisions

	Commands    uint64 // commands executed, limiter or not
	Connections int    // clients connected
	Accepted    uint64 // connections accepted
	Rejected    uint64 // of them refused: maxclients, protected mode

	ErrorReplies   uint64 // replies that were errors
	AuthFailures   uint64 // wrong passwords
	ProtocolErrors uint64 // connections closed for input that is no command
	AcceptErrors   uint64 // failures to accept, such as no file descriptors left

	// Connections closed, by the limit that they crossed.
	ClosedQueryBuffer, ClosedOutputBuffer, ClosedTimeout uint64

	InputBytes  uint64 // read from clients
	OutputBytes uint64 // written to clients

	Keys           int
	MemoryBytes    int64 // accounted memory of the keys
	MaxMemoryBytes int64 // its limit, 0 for none
	Evicted        uint64
	Expired        uint64

	ClockSkew float64 // wall clock minus decision clock, in seconds

	// Replication is nil for a server on its own.
	Replication *Replication
}

// Decisions is a number of decisions by a command ("cl.throttle") with an
// outcome ("allowed", "denied").
type Decisions struct {
	Command, Outcome string
	Count            uint64
}

// Latency is a histogram of the time that commands take, by command.
type Latency struct{ vec *prometheus.HistogramVec }

// NewLatency returns an empty histogram with buckets from 1 µs, about the time
// of a check, to 1 s in steps of four.
func NewLatency() *Latency {
	return &Latency{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "headgate_command_duration_seconds",
		Help:    "Time to execute a command, of a sample of the commands.",
		Buckets: prometheus.ExponentialBuckets(1e-6, 4, 11),
	}, []string{"command"})}
}

// Observe adds one command. Clients must not be able to make up its name.
func (l *Latency) Observe(command string, took time.Duration) {
	l.vec.WithLabelValues(command).Observe(took.Seconds())
}

// collector turns readings of a Source into Prometheus metrics.
type collector struct {
	source Source
	// scalars are the metrics that are one number of a reading each.
	scalars     []scalar
	replication *replicationMetrics
	decisions   *prometheus.Desc
}

type scalar struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Metrics) float64
}

// newRegistry returns a registry with the metrics of c and those of the Go
// runtime, the process and the build.
func newRegistry(config Config) *prometheus.Registry {
	c := &collector{
		source:      config.Source,
		replication: newReplicationMetrics(),
		decisions:   prometheus.NewDesc("headgate_decisions_total", "Decisions of the limiter.", []string{"command", "outcome"}, nil),
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for _, m := range []struct {
		name, help string
		kind       prometheus.ValueType
		value      func(*Metrics) float64
	}{
		{"commands_total", "Commands executed.", counter, func(m *Metrics) float64 { return float64(m.Commands) }},
		{"connections", "Clients connected.", gauge, func(m *Metrics) float64 { return float64(m.Connections) }},
		{"connections_accepted_total", "Connections accepted, those refused at once included.", counter, func(m *Metrics) float64 { return float64(m.Accepted) }},
		{"connections_rejected_total", "Connections refused at once: maxclients, protected mode.", counter, func(m *Metrics) float64 { return float64(m.Rejected) }},
		{"error_replies_total", "Replies that were errors.", counter, func(m *Metrics) float64 { return float64(m.ErrorReplies) }},
		{"auth_failures_total", "Wrong passwords.", counter, func(m *Metrics) float64 { return float64(m.AuthFailures) }},
		{"protocol_errors_total", "Connections closed for input that is no command.", counter, func(m *Metrics) float64 { return float64(m.ProtocolErrors) }},
		{"accept_errors_total", "Failures to accept a connection.", counter, func(m *Metrics) float64 { return float64(m.AcceptErrors) }},
		{"input_bytes_total", "Bytes read from clients.", counter, func(m *Metrics) float64 { return float64(m.InputBytes) }},
		{"output_bytes_total", "Bytes written to clients.", counter, func(m *Metrics) float64 { return float64(m.OutputBytes) }},
		{"keys", "Keys in the table, expired ones included until they are swept.", gauge, func(m *Metrics) float64 { return float64(m.Keys) }},
		{"memory_bytes", "Accounted memory of the keys.", gauge, func(m *Metrics) float64 { return float64(m.MemoryBytes) }},
		{"memory_limit_bytes", "maxmemory; 0 is no limit.", gauge, func(m *Metrics) float64 { return float64(m.MaxMemoryBytes) }},
		{"evicted_keys_total", "Live keys dropped for maxmemory.", counter, func(m *Metrics) float64 { return float64(m.Evicted) }},
		{"expired_keys_total", "Keys dropped after they had ceased to matter.", counter, func(m *Metrics) float64 { return float64(m.Expired) }},
		{"clock_skew_seconds", "Wall clock minus the clock of decisions.", gauge, func(m *Metrics) float64 { return m.ClockSkew }},
	} {
		desc := prometheus.NewDesc("headgate_"+m.name, m.help, nil, nil)
		c.scalars = append(c.scalars, scalar{desc, m.kind, m.value})
	}
	for _, m := range []struct {
		limit string
		value func(*Metrics) float64
	}{
		{"query_buffer", func(m *Metrics) float64 { return float64(m.ClosedQueryBuffer) }},
		{"output_buffer", func(m *Metrics) float64 { return float64(m.ClosedOutputBuffer) }},
		{"timeout", func(m *Metrics) float64 { return float64(m.ClosedTimeout) }},
	} {
		desc := prometheus.NewDesc("headgate_connections_closed_total", "Connections closed for a limit that they crossed.",
			nil, prometheus.Labels{"limit": m.limit})
		c.scalars = append(c.scalars, scalar{desc, counter, m.value})
	}

	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_build_info", Help: "1, labelled with the build.",
		ConstLabels: prometheus.Labels{"version": config.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, config.Latency.vec, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.decisions
	c.replication.describe(out)
	for _, s := range c.scalars {
		out <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m := c.source.Metrics()
	for _, s := range c.scalars {
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&m))
	}
	if m.Replication != nil {
		c.replication.collect(out, m.Replication)
	}
	for _, d := range m.Decisions {
		out <- prometheus.MustNewConstMetric(c.decisions, prometheus.CounterValue, float64(d.Count), d.Command, d.Outcome)
	}
}
