package http

import (
	"maps"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Source is what the metrics are read from, once for each scrape. No two
// metrics of a reading have the same name and labels, and clients must not be
// able to add any.
type Source interface {
	Metrics() []Metric
}

// Metric is one number of a reading. All metrics of a name have the same help
// text, kind and names of labels.
type Metric struct {
	Name, Help string
	Counter    bool // of what has happened since the start; otherwise of the moment
	Labels     map[string]string
	Value      float64
}

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Counter returns a metric of what has happened.
func Counter[N number](name, help string, value N) Metric {
	return Metric{Name: name, Help: help, Counter: true, Value: float64(value)}
}

// Gauge returns a metric of the moment.
func Gauge[N number](name, help string, value N) Metric {
	return Metric{Name: name, Help: help, Value: float64(value)}
}

// With returns m with one label more.
func (m Metric) With(label, value string) Metric {
	labels := map[string]string{label: value}
	maps.Copy(labels, m.Labels)
	m.Labels = labels
	return m
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

// newRegistry returns a registry with the metrics of the Source and those of
// the Go runtime, the process and the build.
func newRegistry(config Config) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_build_info", Help: "1, labelled with the build.",
		ConstLabels: prometheus.Labels{"version": config.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{config.Source}, config.Latency.vec, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// collector turns readings of a Source into Prometheus metrics.
type collector struct{ source Source }

// Describe implements prometheus.Collector: it depends on the reading what
// there is.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.source.Metrics() {
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(m.Name, m.Help, nil, m.Labels), kind, m.Value)
	}
}
