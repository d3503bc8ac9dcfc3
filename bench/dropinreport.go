package main

import (
	"fmt"
	"time"
)

// ratio is Headgate's processor time over Redis's.
func (r *dropinRow) ratio() float64 {
	return float64(median(r.Headgate, costCPU)) / float64(max(median(r.Redis, costCPU), time.Nanosecond))
}

// targets are promised of all rows: a known script, which Redis interprets,
// costs a sixth.
func (d *dropinReport) targets() []target {
	var list []target
	for _, r := range d.Rows {
		t := target{Name: "server CPU per command, pipeline 16, against Redis: " + r.Name, Value: r.ratio(), Unit: "x", Floor: 1, Goal: 0.7, AtMost: true,
			Detail: fmt.Sprintf("%.2f µs against %.2f µs", micros(median(r.Headgate, costCPU)), micros(median(r.Redis, costCPU)))}
		switch r.Kind {
		case dropinScript:
			t.Name, t.Floor, t.Goal = "server CPU per EVALSHA, interpreted, against Redis: "+r.Name, 1.2, 0.8
		case dropinKnown:
			t.Name, t.Floor, t.Goal = "server CPU per EVALSHA, known script, against Redis: "+r.Name, 1./6, 1./10
		}
		list = append(list, t)
	}
	if l := d.Log; l != nil {
		list = append(list, target{
			Name:  "sorted set of a sliding log, hit 1000 times a second: replicated bytes against those of its changes",
			Value: l.Payload / l.Changes, Unit: "x", Floor: 10, Goal: 3, AtMost: true,
			Detail: fmt.Sprintf("%.1f B a hit for %.0f B, %d entries, %.0f hits/s", l.Payload, l.Changes, l.Entries, l.PerSecond)})
	}
	return list
}

func (d *dropinReport) write(line func(string, ...any)) {
	line("\n## In place of Redis, pipeline 16\n\n| | | Headgate: server CPU µs | Redis: server CPU µs | Headgate/s | Redis/s |\n|---|---|---|---|---|---|")
	for _, r := range d.Rows {
		line("| %s | %s | %.2f | %.2f | %.0f | %.0f |", r.Name, r.Kind, micros(median(r.Headgate, costCPU)), micros(median(r.Redis, costCPU)),
			median(r.Headgate, costRate), median(r.Redis, costRate))
	}
	for _, name := range d.Unknown {
		line("\nThis build does not know the script of %s.", name)
	}
}
