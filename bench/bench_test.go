package main

import (
	"context"
	"encoding/xml"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/bench/load"
	"github.com/headgate-io/headgate/internal/hgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

func TestParseStat(t *testing.T) {
	const stat = "4242 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 4 0 1 1 1\n"
	cpu, err := parseStat(stat)
	require.NoError(t, err)
	require.Equal(t, 1750*time.Millisecond, cpu)
	_, err = parseStat("1 (x) S 1")
	require.Error(t, err)
	_, err = parseStat(strings.Replace(stat, "150", "x", 1))
	require.Error(t, err)
}

func TestParseCSV(t *testing.T) {
	s, err := parseCSV(`"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"CL.THROTTLE key:__rand_int__ 99 100 86400","812345.50","0.5","0.1","0.423","0.9","1.207","3.1"
`)
	require.NoError(t, err)
	require.Equal(t, sample{Rate: 812345.5, P50: 423 * time.Microsecond, P99: 1207 * time.Microsecond}, s)
	for _, bad := range []string{"", "nonsense", `"a","b","c","d","e","f","g","h"`} {
		_, err := parseCSV(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestTargetMarks(t *testing.T) {
	higher, lower := target{Floor: 0.9, Goal: 1}, target{Floor: 120, Goal: 80, AtMost: true}
	for value, want := range map[float64]string{0.89: "miss", 0.9: "pass", 1: "goal", 2: "goal"} {
		higher.Value = value
		require.Equal(t, want, higher.mark())
	}
	for value, want := range map[float64]string{121: "miss", 120: "pass", 80: "goal", 1: "goal"} {
		lower.Value = value
		require.Equal(t, want, lower.mark())
	}
	higher.Value = math.NaN() // nothing measured
	require.Equal(t, "miss", higher.mark())
	require.Equal(t, "miss", decision{Keys: 1, Nanos: 10, Allocs: 1}.target().mark(), "an allocation is a miss, however fast")
}

func throughput() []*series {
	of := func(scenario, peer string, rate float64, cpu time.Duration) *series {
		return &series{Scenario: scenario, Peer: peer, Label: peer + " <x>", Runs: []sample{{Rate: 1, CPU: 1}, {Rate: rate, CPU: cpu}, {Rate: 10 * rate, CPU: 10 * cpu}}}
	}
	return []*series{
		of(loadP16, headgate, 900_000, 1000), of(loadP16, redisLua, 90_000, 10_000), of(loadP16, redisINCR, 500_000, 1500), of(loadP16, redisPING, 1_000_000, 900),
		of(loadP1, headgate, 90_000, 1000), of(loadP1, redisLua, 45_000, 10_000), of(loadP1, redisPING, 100_000, 900),
		of(loadHot, headgate, 990_000, 1000), of(loadHotDenied, headgate, 450_000, 1000),
		of(loadChurn, headgate, 800_000, 1000), of(loadChurn, redisLua, 80_000, 10_000),
	}
}

// The targets come from medians, each from its own pair of series.
func TestSpeedTargets(t *testing.T) {
	rep := report{Throughput: throughput()}
	var values []float64
	var marks []string
	for _, tg := range rep.targets() {
		values = append(values, math.Round(tg.Value*100)/100)
		marks = append(marks, tg.mark())
	}
	require.Equal(t, []float64{10, 1.8, 0.9, 10, 0.9, 2, 1.1, 0.5, 10, 1.11, 1.11}, values)
	require.Equal(t, []string{"pass", "goal", "pass", "pass", "pass", "pass", "goal", "miss", "pass", "goal", "miss"}, marks)
	rep.Latency = []*latencyRow{{Name: openSync, Rate: 1000,
		Headgate: []*load.Result{{Latency: load.Latency{P99: 3 * time.Millisecond}}},
		Redis:    []*load.Result{{Latency: load.Latency{P99: time.Millisecond}}}}}
	row := rep.Latency[0].targets()
	require.Len(t, row, 1, "one node alone is held against a millisecond, too")
	require.InDelta(t, 3, row[0].Value, 0.001)
	require.Equal(t, "pass", row[0].mark())
	rep.Targets = rep.targets()
	require.Equal(t, 2, rep.missed())
	require.Contains(t, rep.markdown(), "| pipeline 16 against Redis PING | **0.9x** | 0.85 | 1 | pass | 900000/s against 1000000/s |")
}

func TestOverloadTargets(t *testing.T) {
	good := func() *overloadRow {
		at := func(p99 time.Duration) *load.Result {
			return &load.Result{Replies: 10, Latency: load.Latency{P99: p99}}
		}
		return &overloadRow{Peak: 100, Load: &load.Result{Rate: 95}, Before: at(2 * time.Millisecond), After: at(3 * time.Millisecond),
			Pings: at(1), ReadyChecks: 5, RSSBefore: 100 << 20, RSSHalf: 200 << 20, RSSMax: 210 << 20}
	}
	misses := func(o *overloadRow) (n int) {
		for _, tg := range overloadTargets(o) {
			if tg.mark() == "miss" {
				n++
			}
		}
		return n
	}
	require.Zero(t, misses(good()))
	for name, harm := range map[string]func(*overloadRow){
		"throughput":    func(o *overloadRow) { o.Load.Rate = 89 },
		"memory":        func(o *overloadRow) { o.RSSHalf, o.RSSMax = 400<<20, 400<<20 },
		"still growing": func(o *overloadRow) { o.RSSMax = 300 << 20 },
		"readyz":        func(o *overloadRow) { o.ReadyFailures = 1 },
		"ping":          func(o *overloadRow) { o.Pings.Unanswered = 1 },
		"recovery":      func(o *overloadRow) { o.After.Latency.P99 = 4 * time.Millisecond },
	} {
		o := good()
		harm(o)
		require.Equal(t, 1, misses(o), name)
	}
}

func TestReportFiles(t *testing.T) {
	dir := t.TempDir()
	rep := report{Throughput: throughput()}
	require.NoError(t, rep.write(dir))
	svg, err := os.ReadFile(dir + "/throughput.svg")
	require.NoError(t, err)
	dec := xml.NewDecoder(strings.NewReader(string(svg)))
	bars := 0
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err, "the chart is well-formed XML, labels included")
		if el, ok := token.(xml.StartElement); ok && el.Name.Local == "rect" {
			bars++
		}
	}
	require.Equal(t, 1+len(rep.Throughput), bars, "a background and a bar for each series")
	require.Contains(t, string(svg), ">900 k<")
	for _, name := range []string{"results.md", "results.json"} {
		require.FileExists(t, dir+"/"+name)
	}
}

func TestSelectParts(t *testing.T) {
	quick, err := selectParts("", true)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"throughput": true, "latency": true, "overload": false, "replication": false, "failover": false, "eviction": false, "decision": false, "check": false, "policies": false, "holds": false, "ends": false, "http": false, "grpc": false, "gateways": false, "idle": false, "leases": false, "sdks": false, "dropin": false, "memory": false, "trace": false, sizingPart: false}, quick)
	all, err := selectParts("", false)
	require.NoError(t, err)
	require.True(t, all["trace"])
	require.False(t, all[sizingPart], "its results have a directory of their own")
	only, err := selectParts("overload", false)
	require.NoError(t, err)
	require.True(t, only["throughput"], "the overload is a multiple of a measured peak")
	require.False(t, only["latency"])
	_, err = selectParts("speed", false)
	require.ErrorContains(t, err, `"speed"`)
}

// The trace is repeatable, in order of time, skewed, and has bursts.
func TestTrace(t *testing.T) {
	const n = 200_000
	one, two := newTrace(7), newTrace(7)
	calls := make(map[uint32]int)
	previous := make(map[uint32]int64)
	var last int64
	repeated := 0
	for range n {
		a := one.next()
		require.Equal(t, a, two.next())
		require.GreaterOrEqual(t, a.at, last)
		if at, ok := previous[a.source]; ok && a.source > 1000 && a.at-at < int64(100*time.Millisecond) {
			repeated++
		}
		previous[a.source] = a.at
		last = a.at
		calls[a.source]++
	}
	require.NotEqual(t, newTrace(7).rnd.Uint64(), newTrace(8).rnd.Uint64())
	require.InDelta(t, traceRate*(1+burstChance*burstLength), n/time.Duration(last).Seconds(), 60)
	require.InDelta(t, 2.14, float64(calls[0])/float64(calls[1]), 0.3) // 2^1.1
	// In a plain Poisson process hardly any rare source calls twice in 100 ms.
	require.Greater(t, repeated, n/20)
}

func TestReplay(t *testing.T) {
	row := &traceRow{Calls: 60_000}
	require.NoError(t, row.replayCounted(context.Background()))
	require.NoError(t, row.replayEnforced(context.Background()))
	require.Less(t, row.CountedWrong, 5.0)
	require.Positive(t, row.CountedWrong)
	require.Less(t, row.RateError, 15.0)
	require.Greater(t, row.WorstAdmitted, int64(traceLimit), "a sliding counter is an estimate")
	require.Less(t, row.WorstAdmitted, int64(2*traceLimit), "with a bound")
	require.InEpsilon(t, row.LogAdmitted, row.SlidingAdmitted, 0.05)
}

// Both scripts decide a limit of 3 a day as they must, and no peer outlives
// the program.
func TestPeersOnRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not installed; make deps installs it")
	}
	list, notes := peers(paths{})
	require.Len(t, notes, 5, "the peers that are not there are named")
	for _, p := range list {
		if p.name != redisLua && p.name != redisGCRA {
			continue
		}
		proc, err := p.start(t.TempDir())
		require.NoError(t, err)
		t.Cleanup(proc.stop)
		p.process = proc
		require.NoError(t, p.prepare(p))
		var replies [][2]int64
		for range 4 {
			reply, err := p.ask(p.check("key", daily(3))...)
			require.NoError(t, err)
			require.Len(t, reply.Elems, 2)
			replies = append(replies, [2]int64{reply.Elems[0].Int, reply.Elems[1].Int})
		}
		require.Equal(t, [][2]int64{{1, 2}, {1, 1}, {1, 0}, {0, 0}}, replies, p.label)
		ttl, err := p.ask("TTL", "key")
		require.NoError(t, err)
		require.Positive(t, ttl.Int, "a bucket expires")

		require.NoError(t, fillKeys(context.Background(), proc, p.check(randomKey, daily(limit)), 2000, 16))
		size, err := p.keys()
		require.NoError(t, err)
		require.EqualValues(t, 2001, size)
		s, err := redisBenchmark(context.Background(), proc, 5000, 16, 1000, p.check(randomKey, daily(limit)))
		require.NoError(t, err)
		require.Positive(t, s.Rate)
		require.Positive(t, s.P99)
		_, err = redisBenchmark(context.Background(), proc, 1000, 1, 1000, []string{"NOSUCH"})
		require.ErrorContains(t, err, "unknown command")
		_, rss, err := proc.memory()
		require.NoError(t, err)
		require.Greater(t, rss, int64(1<<20))

		proc.stop()
		require.ErrorIs(t, proc.Signal(syscall.Signal(0)), os.ErrProcessDone)
	}
}

func TestAProcessThatEndsIsAnError(t *testing.T) {
	_, err := startProcess(t.TempDir(), "shortlived", "127.0.0.1:1", "/bin/sh", "-c", "echo no such flag; exit 2")
	require.ErrorContains(t, err, "no such flag")
}
