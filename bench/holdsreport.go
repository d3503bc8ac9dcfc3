package main

import (
	"fmt"

	"github.com/headgate-io/headgate/bench/load"
)

func (r *holdsReport) targets() []target {
	var list []target
	for _, v := range []struct {
		name string
		of   []cost
		live float64
	}{
		{"RL.RESERVE and RL.COMMIT against two RL.CHECKs", r.Held, r.HeldLive},
		{"RL.CHECK with an ID against one without", r.Named, r.NamedLive},
	} {
		if len(v.of) > 0 {
			list = append(list, target{
				Name:  fmt.Sprintf("server CPU, pipeline 16, a million callers, %d limits: %s", heldLimits, v.name),
				Value: cpuRatio(v.of, r.Check), Unit: "x", NoBounds: true,
				Detail: fmt.Sprintf("%.2f µs a command against %.2f µs; %.0f records at the end", micros(median(v.of, costCPU)), micros(median(r.Check, costCPU)), v.live)})
		}
	}
	if m := r.Memory; m != nil {
		list = append(list, target{
			Name: fmt.Sprintf("resident bytes of a hold over %d limits, %d of them", heldLimits, m.Holds), Value: m.perHold(), Unit: " B", Floor: 400, Goal: 250, AtMost: true,
			Detail: fmt.Sprintf("%.0f B accounted", float64(m.Accounted)/float64(m.Holds))})
	}
	return list
}

func (x *holdsExpiry) target() target {
	return target{
		Name:  fmt.Sprintf("%d holds that end in one second, %s: delay of the slowest of %d calls a second", x.Holds, x.Where, endArrivals),
		Value: x.delay().Seconds() * 1000, Unit: " ms", Floor: 10, Goal: 2, AtMost: true,
		Detail: fmt.Sprintf("%.1f ms against %.1f ms; all settled within %.1f s", wait(x.During), wait(x.Before), x.Settled.Seconds())}
}

func (r *holdsReport) write(line func(string, ...any)) {
	line("\n## Holds and calls with an ID, %d limits, pipeline 16, a million callers\n\n| | server CPU µs | commands/s |\n|---|---|---|", heldLimits)
	for _, v := range []struct {
		name string
		of   []cost
	}{{"RL.CHECK", r.Check}, {"RL.RESERVE, RL.COMMIT", r.Held}, {"RL.CHECK with an ID", r.Named}} {
		line("| %s | %.2f | %.0f |", v.name, micros(median(v.of, costCPU)), median(v.of, costRate))
	}
}

func (x *holdsExpiry) write(line func(string, ...any)) {
	line("\n## Holds that end: %s, %d holds that end in one second:\n\n| calls | p50 µs | p99 µs | p99.9 µs | max µs |\n|---|---|---|---|---|", x.Where, x.Holds)
	for _, v := range []struct {
		name string
		l    load.Latency
	}{{"before", x.Before.Latency}, {"while they are settled", x.During.Latency}} {
		line("| %s | %.0f | %.0f | %.0f | %.0f |", v.name, micros(v.l.P50), micros(v.l.P99), micros(v.l.P999), micros(v.l.Max))
	}
}

// wait is the longest wait of a run's calls, in ms.
func wait(r *load.Result) float64 { return r.Latency.Max.Seconds() * 1000 }
