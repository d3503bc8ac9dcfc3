package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
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
	if !b.huge {
		pattern += "/^keys=[0-9]{1,6}$" // "$" of the name ends before ten million
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem",
		"-benchtime", b.runTime.String(), "-count", strconv.Itoa(b.runs), "-cpu", "1", "./bench")
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, lastLines(string(out), 10))
	}
	runs, order := parseBenchmarks(string(out))
	var list []decision
	for _, keys := range order {
		list = append(list, decision{
			Keys:   keys,
			Nanos:  median(runs[keys], func(d decision) float64 { return d.Nanos }),
			Allocs: median(runs[keys], func(d decision) float64 { return d.Allocs }),
		})
		b.logf("decision, %d keys: %.1f ns", keys, list[len(list)-1].Nanos)
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
// into runs by number of keys, in the order of their first line.
func parseBenchmarks(out string) (runs map[int][]decision, order []int) {
	runs = make(map[int][]decision)
	scanner := bufio.NewScanner(strings.NewReader(out))
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 4 {
			continue
		}
		_, value, ok := strings.Cut(fields[0], "/keys=")
		keys, err := strconv.Atoi(value)
		if !ok || err != nil {
			continue
		}
		d := decision{Keys: keys}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
			}
			switch fields[i+1] {
			case "ns/op":
				d.Nanos = v
			case "allocs/op":
				d.Allocs = v
			}
		}
		if len(runs[keys]) == 0 {
			order = append(order, keys)
		}
		runs[keys] = append(runs[keys], d)
	}
	return runs, order
}
