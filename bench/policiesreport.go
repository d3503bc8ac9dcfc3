package main

import (
	"fmt"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// cpuRatio is the processor time of one command over that of another.
func cpuRatio(of, to []cost) float64 {
	return float64(median(of, costCPU)) / float64(max(median(to, costCPU), time.Nanosecond))
}

// checkBounds are floor and goal of the cost of so many limits. Ten limits have
// none: they are given for comparison.
var checkBounds = map[int][2]float64{1: {1.5, 1.2}, 3: {2.5, 1.8}}

func (r *checkReport) targets() []target {
	var list []target
	for _, row := range r.Checks {
		bounds, promised := checkBounds[row.Limits]
		list = append(list, target{
			Name:  fmt.Sprintf("server CPU per RL.CHECK, pipeline 16, a million callers, against CL.THROTTLE: limits of the policy: %d", row.Limits),
			Value: cpuRatio(row.Check, r.Throttle), Unit: "x", Floor: bounds[0], Goal: bounds[1], AtMost: true, NoBounds: !promised,
			Detail: fmt.Sprintf("%.2f µs against %.2f µs", micros(median(row.Check, costCPU)), micros(median(r.Throttle, costCPU)))})
	}
	if len(r.Lua) > 0 {
		for _, row := range r.Checks {
			if row.Limits == 3 {
				list = append(list, target{
					Name:  "RL.CHECK of three limits, pipeline 16, a million callers, against a Redis script of three buckets",
					Value: median(row.Check, costRate) / median(r.Lua, costRate), Unit: "x", NoBounds: true,
					Detail: fmt.Sprintf("%.0f/s against %.0f/s; server CPU %.2f µs against %.2f µs",
						median(row.Check, costRate), median(r.Lua, costRate), micros(median(row.Check, costCPU)), micros(median(r.Lua, costCPU)))})
			}
		}
	}
	for _, e := range r.Engine {
		list = append(list, target{
			Name:  fmt.Sprintf("allocations of a check in process, one core, a million callers: limits of the policy: %d", e.Limits),
			Value: e.Allocs, AtMost: true, Detail: fmt.Sprintf("%.0f ns", e.Nanos)})
	}
	if len(r.OpenLoop) > 0 {
		list = append(list, target{
			Name:  fmt.Sprintf("open loop of RL.CHECK at %d/s, ten limits: p99", checkArrivals),
			Value: median(r.OpenLoop, p99).Seconds() * 1000, Unit: " ms", Floor: 2, Goal: 1, AtMost: true,
			Detail: fmt.Sprintf("p50 %.0f µs", micros(median(r.OpenLoop, func(r *load.Result) time.Duration { return r.Latency.P50 })))})
	}
	if c := r.Ceiling; c != nil {
		for _, v := range []struct {
			name  string
			other []cost
		}{{"one without it", c.Without}, {"one by tenant in its place", c.Instead}} {
			list = append(list, target{
				Name:  fmt.Sprintf("policy with a limit of all calls, %d connections, against %s", ceilingConnections, v.name),
				Value: median(c.With, costRate) / median(v.other, costRate), Unit: "x", Floor: 0.8, Goal: 0.95,
				Detail: fmt.Sprintf("%.0f/s against %.0f/s", median(c.With, costRate), median(v.other, costRate))})
		}
	}
	return list
}

func (r *checkReport) write(line func(string, ...any)) {
	line("\n## Checks of policies, pipeline 16, a million callers\n\n| | server CPU µs | checks/s |\n|---|---|---|")
	row := func(name string, c []cost) {
		line("| %s | %.2f | %.0f |", name, micros(median(c, costCPU)), median(c, costRate))
	}
	row("CL.THROTTLE", r.Throttle)
	for _, c := range r.Checks {
		row(fmt.Sprintf("%d limits", c.Limits), c.Check)
	}
	if len(r.Lua) > 0 {
		row("Redis + Lua, three buckets", r.Lua)
	}
	if c := r.Ceiling; c != nil {
		row("by user, by tenant and user, and all together", c.With)
		row("by user, by tenant and user", c.Without)
		row("by user, by tenant and user, by tenant", c.Instead)
	}
}

func (r *policiesReport) targets() []target {
	var list []target
	if len(r.Loads) > 0 {
		took := median(r.Loads, func(l loadRow) time.Duration { return l.File + l.Overrides })
		file := median(r.Loads, func(l loadRow) time.Duration { return l.File })
		held := median(r.Loads, func(l loadRow) int64 { return l.Resident })
		loaded := median(r.Loads, func(l loadRow) int64 { return l.Loaded })
		what := fmt.Sprintf("%d policies with %d overrides", manyPolicies, manyOverrides)
		list = append(list,
			target{Name: what + ": load", Value: took.Seconds(), Unit: " s", Floor: 1, Goal: 0.3, AtMost: true,
				Detail: fmt.Sprintf("%.2f s of it the file", file.Seconds())},
			target{Name: what + ": resident memory", Value: float64(held) / 1e6, Unit: " MB", Floor: 150, Goal: 60, AtMost: true,
				Detail: fmt.Sprintf("%.0f MB before MEMORY PURGE", float64(loaded)/1e6)})
	}
	if len(r.Many) > 0 {
		list = append(list, target{
			Name:  fmt.Sprintf("server CPU per RL.CHECK of one of %d policies at random, against one policy with the same overrides", manyPolicies),
			Value: cpuRatio(r.Many, r.One), Unit: "x", NoBounds: true,
			Detail: fmt.Sprintf("%.2f µs against %.2f µs; %.2f µs without overrides",
				micros(median(r.Many, costCPU)), micros(median(r.One, costCPU)), micros(median(r.Plain, costCPU)))})
	}
	if e := r.Edit; e != nil {
		before, during := median(e.Before, p99), median(e.During, p99)
		list = append(list, target{
			Name:  fmt.Sprintf("full load, SET of one of %d policies each %s: p99 of checks against before", manyPolicies, editEvery),
			Value: float64(during) / float64(max(before, 1)), Unit: "x", Floor: 1.5, Goal: 1.1, AtMost: true,
			Detail: fmt.Sprintf("%.0f µs against %.0f µs; a SET takes %.1f ms", micros(during), micros(before),
				median(e.Changes, func(d time.Duration) time.Duration { return d }).Seconds()*1000)})
	}
	if c := r.Cluster; c != nil {
		for _, v := range []struct {
			name string
			*load.Result
		}{{"the leader of three", c.Leader}, {"a follower", c.Follower}} {
			list = append(list, target{
				Name:  fmt.Sprintf("load of %d policies: longest wait of a check at %s", manyPolicies, v.name),
				Value: v.Latency.Max.Seconds() * 1000, Unit: " ms", Floor: 100, Goal: 50, AtMost: true,
				Detail: fmt.Sprintf("p99 %.1f ms; the load takes %.2f s", v.Latency.P99.Seconds()*1000, c.Load.Seconds())})
		}
	}
	return list
}

func (r *policiesReport) write(line func(string, ...any)) {
	line("\n## %d policies with %d overrides\n\n| file s | overrides s | resident MB | before MEMORY PURGE MB |\n|---|---|---|---|", manyPolicies, manyOverrides)
	for _, l := range r.Loads {
		line("| %.2f | %.2f | %.0f | %.0f |", l.File.Seconds(), l.Overrides.Seconds(), float64(l.Resident)/1e6, float64(l.Loaded)/1e6)
	}
}
