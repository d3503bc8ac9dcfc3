package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// decision is the time of one decision in process, on one core.
type decision struct {
	Keys   int     `json:"keys"`
	Nanos  float64 `json:"ns"`
	Allocs float64 `json:"allocs"`
}

// target: the table fits the last-level cache up to a million keys or does
// not, with ten million.
func (d decision) target() target {
	t := target{Value: d.Nanos, Unit: " ns", Floor: 120, Goal: 80, AtMost: true, Detail: fmt.Sprintf("%.0f allocations", d.Allocs)}
	t.Name = fmt.Sprintf("engine decision in process, one core, %d keys", d.Keys)
	if d.Keys > 1_000_000 {
		t.Floor, t.Goal = 250, 150
	}
	if d.Allocs > 0 { // none is allowed, however fast
		t.Floor, t.Goal = 0, 0
	}
	return t
}

// measureDecisions runs BenchmarkDecide of this package on one core and takes
// the median of its runs.
func (b *bench) measureDecisions(ctx context.Context) ([]decision, error) {
	pattern := "^BenchmarkDecide$"
	if b.quick {
		pattern += "/^keys=[0-9]{1,6}$" // "$" of the name ends before ten million
	}
	all, err := b.goBenchmark(ctx, "bench", 1, pattern, "keys")
	if err != nil {
		return nil, err
	}
	var list []decision
	for _, m := range all {
		list = append(list, decision{Keys: m.n, Nanos: m.nanos, Allocs: m.allocs})
		b.logf("decision, %d keys: %.1f ns", m.n, m.nanos)
	}
	return list, nil
}

// benchmark is a line of go test -bench, named by a number.
type benchmark struct {
	n             int
	nanos, allocs float64 // per operation
	p99           float64 // in ns, where a benchmark reports it
}

// goBenchmark runs benchmarks of a package on so many cores, and returns the medians
// of their runs. They are named as label=number.
func (b *bench) goBenchmark(ctx context.Context, dir string, cores int, pattern, label string) ([]benchmark, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem",
		"-benchtime", b.runTime.String(), "-count", strconv.Itoa(b.runs), "-cpu", strconv.Itoa(cores))
	cmd.Dir = filepath.Join(b.root, dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, lastLines(string(out), 10))
	}
	runs, order := parseBenchmarks(string(out), label, cores)
	var list []benchmark
	for _, n := range order {
		list = append(list, benchmark{
			n:      n,
			nanos:  median(runs[n], func(m benchmark) float64 { return m.nanos }),
			allocs: median(runs[n], func(m benchmark) float64 { return m.allocs }),
			p99:    median(runs[n], func(m benchmark) float64 { return m.p99 }),
		})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("go test -bench: no result in\n%s", lastLines(string(out), 10))
	}
	return list, nil
}

// parseBenchmarks reads lines such as
//
//	BenchmarkDecide/keys=100000   23456789   77.5 ns/op   0 B/op   0 allocs/op
//
// into runs by the number of the label, in the order of their first line. Names of runs on
// several cores end with their number.
func parseBenchmarks(out, label string, cores int) (runs map[int][]benchmark, order []int) {
	runs = make(map[int][]benchmark)
	scanner := bufio.NewScanner(strings.NewReader(out))
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 4 {
			continue
		}
		_, value, ok := strings.Cut(fields[0], "/"+label+"=")
		if cores > 1 {
			value = strings.TrimSuffix(value, fmt.Sprint("-", cores))
		}
		n, err := strconv.Atoi(value)
		if !ok || err != nil {
			continue
		}
		m := benchmark{n: n}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
			}
			switch fields[i+1] {
			case "ns/op":
				m.nanos = v
			case "allocs/op":
				m.allocs = v
			case "p99-ns":
				m.p99 = v
			}
		}
		if len(runs[n]) == 0 {
			order = append(order, n)
		}
		runs[n] = append(runs[n], m)
	}
	return runs, order
}
