package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// report is everything one run of the program found.
type report struct {
	When    time.Time `json:"when"`
	Quick   bool      `json:"quick"`
	Machine machine   `json:"machine"`
	Notes   []string  `json:"notes,omitempty"`
	// Took is the length of the whole run; Runs, RunTime and Long are how
	// much it measured.
	Took    time.Duration `json:"took_ns"`
	Runs    int           `json:"runs"`
	RunTime time.Duration `json:"run_time_ns"`
	Long    time.Duration `json:"long_ns"`

	Throughput  []*series          `json:"throughput,omitempty"`
	Latency     []*latencyRow      `json:"latency,omitempty"`
	Overload    *overloadRow       `json:"overload,omitempty"`
	Replication *replicationReport `json:"replication,omitempty"`
	Failover    *failoverRow       `json:"failover,omitempty"`
	Decisions   []decision         `json:"decisions,omitempty"`
	Checks      *checkReport       `json:"checks,omitempty"`
	Policies    *policiesReport    `json:"policies,omitempty"`
	Holds       *holdsReport       `json:"holds,omitempty"`
	Leases      *leasesReport      `json:"leases,omitempty"`
	SDKs        []sdkRow           `json:"sdks,omitempty"`
	HTTP        *httpReport        `json:"http,omitempty"`
	GRPC        *grpcReport        `json:"grpc,omitempty"`
	Gateways    []*gatewayRow      `json:"gateways,omitempty"`
	Idle        []*idleRow         `json:"idle,omitempty"`
	Ends        []*holdsExpiry     `json:"ends,omitempty"`
	DropIn      *dropinReport      `json:"drop_in,omitempty"`
	Memory      []*memoryRow       `json:"memory,omitempty"`
	Eviction    []*evictionRow     `json:"eviction,omitempty"`
	Trace       *traceRow          `json:"trace,omitempty"`
	Sizing      []*sizingRow       `json:"sizing,omitempty"`
	Targets     []target           `json:"targets"`
}

// missed counts the targets below their floor.
func (r *report) missed() int {
	n := 0
	for _, t := range r.Targets {
		if t.mark() == "miss" {
			n++
		}
	}
	return n
}

// markdown is the report for people.
func (r *report) markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Benchmark of %s\n", r.When.UTC().Format("2 January 2006, 15:04 UTC"))
	line("%s.\n", r.Machine)
	line("Medians of %d runs of %s, single runs of %s where a load is sustained; %s in all.", r.Runs, r.RunTime, r.Long, r.Took)
	line("Load generator and server share the cores, so the ratios mean more than the rates.")
	if r.Quick {
		line("This was a quick run: a guard against regressions, not a result.")
	}
	for _, note := range r.Notes {
		line("Note: %s.", note)
	}
	line("\n## Targets\n\n| | measured | floor | goal | reached | |\n|---|---|---|---|---|---|")
	for _, t := range r.Targets {
		floor, goal := number(t.Floor), number(t.Goal)
		if t.NoBounds {
			floor, goal = "", ""
		}
		line("| %s | **%s** | %s | %s | %s | %s |", t.Name, t.text(), floor, goal, t.mark(), t.Detail)
	}
	if len(r.Throughput) > 0 {
		r.writeThroughput(line)
	}
	for _, l := range r.Latency {
		line("\n## Latency at %.0f commands/s, pipeline 1, open loop: %s\n\n| | p50 µs | p99 µs | p99.9 µs | max µs |\n|---|---|---|---|---|", l.Rate, l.Name)
		for i, runs := range [][]*load.Result{l.Headgate, l.Redis} {
			line("| %s | %.0f | %.0f | %.0f | %.0f |", []string{"Headgate CL.THROTTLE", "Redis PING"}[i],
				micros(median(runs, func(r *load.Result) time.Duration { return r.Latency.P50 })), micros(median(runs, p99)),
				micros(median(runs, func(r *load.Result) time.Duration { return r.Latency.P999 })),
				micros(median(runs, func(r *load.Result) time.Duration { return r.Latency.Max })))
		}
	}
	if r.Replication != nil {
		r.Replication.write(line)
	}
	if r.Failover != nil {
		r.Failover.write(line)
	}
	if r.Checks != nil {
		r.Checks.write(line)
	}
	if r.Policies != nil {
		r.Policies.write(line)
	}
	if r.Holds != nil {
		r.Holds.write(line)
	}
	for _, x := range r.Ends {
		x.write(line)
	}
	if r.Leases != nil {
		r.Leases.write(line)
	}
	if r.HTTP != nil {
		r.HTTP.write(line)
	}
	if r.GRPC != nil {
		r.GRPC.write(line)
	}
	if r.DropIn != nil {
		r.DropIn.write(line)
	}
	if len(r.Memory) > 0 {
		line("\n## Memory, 16-byte keys\n\n| | keys | accounted B/key | resident B/key | whole process MB | longest GC pause ms |\n|---|---|---|---|---|---|")
		for _, m := range r.Memory {
			pause := ""
			if m.Pause > 0 {
				pause = fmt.Sprintf("%.2f", m.Pause*1e3)
			}
			line("| %s | %d | %.1f | %.1f | %.0f | %s |", m.Label, m.Keys, m.perKey(), float64(m.Resident)/float64(m.Keys), float64(m.Total)/1e6, pause)
		}
	}
	if r.Trace != nil {
		r.Trace.write(line)
	}
	if len(r.Sizing) > 0 {
		line("\n## Sizing: predicted, measured, difference\n\n%d runs of each load, by turns, of %s; the one with the median processor time counts.\n", sizingRuns, max(r.RunTime, sizingTime))
		writeSizing(r.Sizing, line)
	}
	return b.String()
}

func (r *report) writeThroughput(line func(string, ...any)) {
	scenario := ""
	for _, s := range r.Throughput {
		if s.Scenario != scenario {
			scenario = s.Scenario
			line("\n## Throughput: %s\n\n| | commands/s | least to most | server CPU µs | p50 ms | p99 ms |\n|---|---|---|---|---|---|", scenario)
		}
		low, high := s.Runs[0].Rate, s.Runs[0].Rate
		for _, run := range s.Runs {
			low, high = min(low, run.Rate), max(high, run.Rate)
		}
		line("| %s | %.0f | %.0f to %.0f | %.2f | %.2f | %.2f |", s.Label, s.rate(), low, high, micros(s.cpu()),
			median(s.Runs, func(v sample) float64 { return v.P50.Seconds() * 1000 }),
			median(s.Runs, func(v sample) float64 { return v.P99.Seconds() * 1000 }))
	}
}

// number prints a value with three significant digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}

// write stores the report in dir as Markdown, JSON and SVG.
func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create results: %w", err)
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	files := map[string][]byte{"results.md": []byte(r.markdown()), "results.json": append(raw, '\n')}
	if len(r.Throughput) > 0 {
		files["throughput.svg"] = []byte(throughputChart(r.Throughput))
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}
