package main

import (
	"fmt"
	"time"
)

// target is one promise: a measured value beside its floor and goal.
type target struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Floor float64 `json:"floor"`
	Goal  float64 `json:"goal"`
	// AtMost says that smaller is better.
	AtMost bool `json:"at_most"`
	// NoBounds says that nothing is promised: the row compares.
	NoBounds bool   `json:"no_bounds,omitempty"`
	Detail   string `json:"detail"`
}

func (t target) reaches(bound float64) bool {
	if t.AtMost {
		return t.Value <= bound
	}
	return t.Value >= bound
}

// text is the value as people read it.
func (t target) text() string {
	switch {
	case t.Unit != yesNo:
		return number(t.Value) + t.Unit
	case t.Value == 1:
		return "yes"
	}
	return "no"
}

// yesNo is the unit of a promise that is kept (1) or not (0).
const yesNo = "yes/no"

// mark is how the value stands to its bounds, empty without bounds.
func (t target) mark() string {
	switch {
	case t.NoBounds:
		return ""
	case t.reaches(t.Goal):
		return "goal"
	case t.reaches(t.Floor):
		return "pass"
	}
	return "miss"
}

// targets derives the promises from what was measured.
func (r *report) targets() []target {
	var list []target
	if len(r.Throughput) > 0 {
		list = append(list, r.speedTargets()...)
	}
	for _, l := range r.Latency {
		list = append(list, l.targets()...)
	}
	if o := r.Overload; o != nil {
		list = append(list, overloadTargets(o)...)
	}
	if r.Replication != nil {
		list = append(list, r.Replication.targets()...)
	}
	if r.Failover != nil {
		list = append(list, r.Failover.targets()...)
	}
	for _, d := range r.Decisions {
		list = append(list, d.target())
	}
	if r.Checks != nil {
		list = append(list, r.Checks.targets()...)
	}
	if r.Policies != nil {
		list = append(list, r.Policies.targets()...)
	}
	if r.Holds != nil {
		list = append(list, r.Holds.targets()...)
	}
	for _, x := range r.Ends {
		list = append(list, x.target())
	}
	if r.Leases != nil {
		list = append(list, r.Leases.targets()...)
	}
	for i := range r.SDKs {
		list = append(list, r.SDKs[i].target())
	}
	if r.HTTP != nil {
		list = append(list, r.HTTP.targets()...)
	}
	if r.GRPC != nil {
		list = append(list, r.GRPC.targets()...)
	}
	for _, g := range r.Gateways {
		list = append(list, g.targets()...)
	}
	for _, i := range r.Idle {
		list = append(list, i.target())
	}
	if r.DropIn != nil {
		list = append(list, r.DropIn.targets()...)
	}
	for _, m := range r.Memory {
		list = append(list, m.targets()...)
	}
	for _, e := range r.Eviction {
		list = append(list, e.target())
	}
	return list
}

// speedTargets are the rows that redis-benchmark measured.
func (r *report) speedTargets() []target {
	get := func(scenario, peer string) *series { return find(r.Throughput, scenario, peer) }
	ratio := func(scenario, peer, name string, floor, goal float64) target {
		ours, theirs := get(scenario, headgate), get(scenario, peer)
		return target{Name: name, Value: ours.rate() / theirs.rate(), Unit: "x", Floor: floor, Goal: goal,
			Detail: fmt.Sprintf("%.0f/s against %.0f/s", ours.rate(), theirs.rate())}
	}
	hot := func(scenario, name string) target {
		one, many := get(scenario, headgate), get(loadP16, headgate)
		return target{Name: name, Value: one.rate() / many.rate(), Unit: "x", Floor: 0.9, Goal: 1,
			Detail: fmt.Sprintf("%.0f/s against %.0f/s", one.rate(), many.rate())}
	}
	ours, theirs := get(loadP16, headgate).cpu(), get(loadP16, redisLua).cpu()
	cpu := func(scenario, name string, floor, goal float64) target {
		ours, ping := get(scenario, headgate).cpu(), get(scenario, redisPING).cpu()
		return target{Name: name, Unit: "x", Floor: floor, Goal: goal, AtMost: true,
			Value:  float64(ours) / float64(max(ping, time.Nanosecond)),
			Detail: fmt.Sprintf("%.2f µs against %.2f µs", micros(ours), micros(ping))}
	}
	return []target{
		ratio(loadP16, redisLua, "pipeline 16 against Redis + Lua", 9, 12),
		ratio(loadP16, redisINCR, "pipeline 16 against Redis INCR", 1.5, 1.8),
		ratio(loadP16, redisPING, "pipeline 16 against Redis PING", 0.85, 1),
		{Name: "server CPU per check, pipeline 16: Redis + Lua's over Headgate's", Unit: "x", Floor: 9, Goal: 12,
			Value:  float64(theirs) / float64(max(ours, time.Nanosecond)),
			Detail: fmt.Sprintf("%.2f µs against %.2f µs", micros(ours), micros(theirs))},
		ratio(loadP1, redisPING, "pipeline 1 against Redis PING", 0.9, 1.05),
		ratio(loadP1, redisLua, "pipeline 1 against Redis + Lua", 1.8, 2.2),
		hot(loadHot, "one hot key, admitted, against a million keys"),
		hot(loadHotDenied, "one hot key, denied, against a million keys"),
		ratio(loadChurn, redisLua, "pipeline 16, keys that come and go, against Redis + Lua", 9, 11),
		cpu(loadP16, "server CPU per check, pipeline 16, against Redis PING's", 1.3, 1.15),
		cpu(loadP1, "server CPU per check, pipeline 1, against Redis PING's", 1.1, 1),
	}
}

// yes is a promise that is kept or not.
func yes(name string, ok bool, format string, args ...any) target {
	t := target{Name: name, Unit: yesNo, Floor: 1, Goal: 1, Detail: fmt.Sprintf(format, args...)}
	if ok {
		t.Value = 1
	}
	return t
}

func overloadTargets(o *overloadRow) []target {
	return []target{
		{Name: fmt.Sprintf("offered %.0f/s, twice its peak, for %.0f s: throughput against the peak", o.Load.Offered, o.Load.Duration.Seconds()),
			Value: o.share(), Unit: "x", Floor: 0.9, Goal: 0.9, Detail: fmt.Sprintf("%.0f/s against %.0f/s", o.Load.Rate, o.Peak)},
		yes("overload: memory bounded", o.bounded(), "%d MB before, %d MB halfway, %d MB at most", o.RSSBefore>>20, o.RSSHalf>>20, o.RSSMax>>20),
		yes("overload: PING and /readyz answer", o.answers(), "%d pings, slowest %.1f ms; %d of %d /readyz failed",
			o.Pings.Replies, o.Pings.Latency.Max.Seconds()*1000, o.ReadyFailures, o.ReadyChecks),
		yes("overload: p99 normal 1 s later", o.recovered(), "%.0f µs before, %.0f µs after", micros(o.Before.Latency.P99), micros(o.After.Latency.P99)),
	}
}

// find returns a series, or an empty one.
func find(list []*series, scenario, peer string) *series {
	for _, s := range list {
		if s.Scenario == scenario && s.Peer == peer {
			return s
		}
	}
	return &series{}
}
