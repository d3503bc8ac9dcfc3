package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseReplication(t *testing.T) {
	fields := map[string]string{
		"role": "master", "headgate_term": "7", "headgate_unacked_ms": "12", "headgate_max_unacked_ms": "250",
		"headgate_batches": "3", "headgate_payload_bytes": "4096", "headgate_last_batch_bytes": "53",
		"headgate_degraded_answers": "2", "headgate_refused_without_leader": "4", "headgate_uncertain_answers": "1",
		"headgate_peer_n2": "state=up,voter=true,lag_entries=5,lag_ms=1,clock_skew_ms=-3",
		"headgate_peer_n3": "state=down,voter=true,lag_entries=900,lag_ms=7,clock_skew_ms=0",
	}
	r, err := parseReplication(fields)
	require.NoError(t, err)
	require.Equal(t, replication{
		leads: true, term: 7, unacked: 12 * time.Millisecond, maxUnacked: 250 * time.Millisecond,
		batches: 3, payload: 4096, lastBatch: 53, degraded: 2, failures: 5, peersUp: 1, lagEntries: 900,
	}, r)
	delete(fields, "headgate_unacked_ms")
	_, err = parseReplication(fields)
	require.ErrorContains(t, err, "headgate_unacked_ms", "a field that is gone is no zero")
}

func TestQuantileIsByNearestRank(t *testing.T) {
	var g clientGaps
	require.Zero(t, quantile(g.Gaps, 0.5))
	for i := 10; i > 0; i-- {
		g.Gaps = append(g.Gaps, time.Duration(i))
	}
	require.Equal(t, []time.Duration{1, 5, 9, 10}, []time.Duration{quantile(g.Gaps, 0), quantile(g.Gaps, 0.5), quantile(g.Gaps, 0.9), quantile(g.Gaps, 1)})
}

func TestReplicationKeepsUp(t *testing.T) {
	good := watched{MaxUnacked: 250 * time.Millisecond, Unacked: 249 * time.Millisecond, LagBegin: 3, LagEnd: 60}
	require.True(t, good.bounded())
	for name, harm := range map[string]func(*watched){
		"unacknowledged": func(w *watched) { w.Unacked = w.MaxUnacked },
		"lag":            func(w *watched) { w.LagEnd = 65 },
		"leader":         func(w *watched) { w.Elected = true },
		"errors":         func(w *watched) { w.Failures = 1 },
	} {
		w := good
		harm(&w)
		require.False(t, w.bounded(), name)
	}
}

func TestReplicationTargets(t *testing.T) {
	kept := watched{MaxUnacked: time.Second}
	r := &replicationReport{
		Async: []*asyncRow{
			{Keys: 1, Alone: 100, Cluster: 1, Payload: 99, watched: kept},
			{Keys: 100, Alone: 100, Cluster: 1, Payload: 0.5, watched: kept},
			{Keys: 10_000, Alone: 100, Cluster: 80, Payload: 20, watched: kept},
			{Keys: 1_000_000, Alone: 100, Cluster: 39, Payload: 99, watched: kept},
		},
		Sync:   []*syncRow{{Keys: 10_000, Cluster: []sample{{Rate: 500}}, Redis: []sample{{Rate: 100}}}},
		Commit: &commitRow{Headgate: []time.Duration{3}, Bare: []time.Duration{2}},
		Memory: []nodeMemory{{Resident: 200}, {Leader: true, Resident: 100}, {Resident: 100}},
	}
	var values []float64
	var marks []string
	for _, tg := range r.targets() {
		values = append(values, math.Round(tg.Value*100)/100)
		marks = append(marks, tg.mark())
	}
	require.Equal(t, []float64{0.5, 20, 0.8, 1, 0.39, 1, 5, 1.5, 2}, values)
	require.Equal(t, []string{"goal", "miss", "goal", "goal", "miss", "goal", "goal", "goal", "miss"}, marks)
}

func TestFailoverTargets(t *testing.T) {
	f := &failoverRow{
		Gaps:   []*clientGaps{{Client: "a", Gaps: []time.Duration{time.Second, time.Second, 4 * time.Second}}, {Client: "b"}},
		Policy: policyRow{Kills: 1, Calls: 10, Errors: 1, Slowest: 100 * time.Millisecond},
	}
	var marks []string
	for _, tg := range f.targets() {
		marks = append(marks, tg.mark())
	}
	require.Equal(t, []string{"goal", "miss", "miss", "goal"}, marks, "a client without a kill has no row")
}

func TestEvictionTarget(t *testing.T) {
	row := evictionRow{Exhausted: 10_000}
	for forgotten, want := range map[int64]string{0: "goal", 10: "pass", 11: "miss"} {
		row.Forgotten = forgotten
		require.Equal(t, want, row.target().mark())
	}
}

func TestBareRaft(t *testing.T) {
	b, err := startBareRaft(t.TempDir())
	require.NoError(t, err)
	defer b.stop()
	times, err := b.measure(50*time.Millisecond, 53)
	require.NoError(t, err)
	require.NotEmpty(t, times)
	for _, d := range times {
		require.Positive(t, d)
	}
}
