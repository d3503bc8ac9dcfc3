package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Source supplies the metrics, once per scrape. In a reading, no two metrics may have the
// same name and the same labels. A client must not be able to add metrics.
type Source interface {
	Metrics() []Metric
}

// Metric is one number of a reading, or a distribution. All metrics with the same name must
// have the same help text, kind and label names.
type Metric struct {
	Name, Help string
	Counter    bool // counts since the start; otherwise the metric is a gauge
	Labels     map[string]string
	Value      float64

	// Count and Buckets describe a distribution; Value is then its sum. Count is the number
	// of values. Buckets maps an upper bound to how many values are at most that bound.
	Count   uint64
	Buckets map[float64]uint64
}

// scrapeLog logs errors of scrapes.
type scrapeLog struct{ log *slog.Logger }

// Println implements promhttp.Logger. It leaves out the errors of clients that have gone or
// do not read.
func (l scrapeLog) Println(v ...any) {
	level := slog.LevelError
	for _, one := range v {
		var gone net.Error
		if err, ok := one.(error); ok && errors.As(err, &gone) {
			level = slog.LevelDebug
		}
	}
	l.log.Log(context.Background(), level, "metrics", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Counter returns a metric that counts since the node's start.
func Counter[N number](name, help string, value N) Metric {
	return Metric{Name: name, Help: help, Counter: true, Value: float64(value)}
}

// Gauge returns a metric of the present state.
func Gauge[N number](name, help string, value N) Metric {
	return Metric{Name: name, Help: help, Value: float64(value)}
}

// Histogram returns the distribution of values with a sum.
func Histogram(name, help string, count uint64, sum float64, buckets map[float64]uint64) Metric {
	return Metric{Name: name, Help: help, Value: sum, Count: count, Buckets: buckets}
}

// With returns a copy of m with one more label.
func (m Metric) With(label, value string) Metric {
	labels := map[string]string{label: value}
	maps.Copy(labels, m.Labels)
	m.Labels = labels
	return m
}

// newRegistry returns a registry with the metrics of the Source, the fronts, the Go
// runtime, the process and the build.
func newRegistry(config Config) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_build_info", Help: "1, labelled with the build.",
		ConstLabels: prometheus.Labels{"version": config.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{config.Source}, config.Fronts, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// collector turns readings of a Source into Prometheus metrics.
type collector struct{ source Source }

// Describe implements prometheus.Collector. It describes no metrics, because they differ
// from reading to reading.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.source.Metrics() {
		desc := prometheus.NewDesc(m.Name, m.Help, nil, m.Labels)
		switch {
		case m.Buckets != nil:
			out <- prometheus.MustNewConstHistogram(desc, m.Count, m.Value, m.Buckets)
		case m.Counter:
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, m.Value)
		default:
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, m.Value)
		}
	}
}
