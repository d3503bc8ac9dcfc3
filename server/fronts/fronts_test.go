package fronts

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// A request is in one series, and in a histogram that scrapers of text and of native
// histograms can read.
func TestCounts(t *testing.T) {
	c := New()
	c.GRPC.Count(Denied, time.Now().Add(-15*time.Millisecond))
	c.GRPC.Count(Refused, time.Time{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 2)
	durations, requests := families[0].GetMetric(), families[1].GetMetric()
	require.Len(t, durations, 3, "those of nothing are there too")
	require.Len(t, requests, 12)
	counted := map[string]float64{}
	for _, m := range requests {
		if n := m.GetCounter().GetValue(); n > 0 {
			counted[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = n
		}
	}
	require.Equal(t, map[string]float64{"grpc denied": 1, "grpc refused": 1}, counted)
	for _, m := range durations {
		h := m.GetHistogram()
		if m.GetLabel()[0].GetValue() != "grpc" {
			require.Zero(t, h.GetSampleCount())
			continue
		}
		require.EqualValues(t, 1, h.GetSampleCount(), "what was refused unread took no time")
		require.Greater(t, h.GetSampleSum(), 0.015)
		require.Len(t, h.GetBucket(), len(buckets))
		require.Zero(t, h.GetBucket()[7].GetCumulativeCount(), "10 ms")
		require.NotEmpty(t, h.GetPositiveSpan(), "a native histogram")
	}
}

func BenchmarkCount(b *testing.B) {
	c := New()
	b.ReportAllocs()
	for b.Loop() {
		c.HTTP.Count(Allowed, time.Now())
	}
}
