package main

import (
	"cmp"
	"fmt"
	"time"
)

// required is a target whose goal is all that was asked for.
func required(name string, value float64, unit string, goal float64, atMost bool, format string, args ...any) target {
	return target{Name: name, Value: value, Unit: unit, Floor: goal, Goal: goal, AtMost: atMost, Detail: fmt.Sprintf(format, args...)}
}

func duration(d time.Duration) time.Duration { return d }

func (r *replicationReport) targets() []target {
	var list []target
	for _, row := range r.Async {
		if row.Keys == hundredHot || row.Keys == hotKeys {
			list = append(list, required(fmt.Sprintf("async, %d hot keys: payload bytes per decision", row.Keys), row.Payload, " B", 1, true,
				"%.1f B written to the disk of the three", row.Written))
		}
		if row.Keys < hotKeys {
			continue
		}
		name, goal := "async, million keys", 0.4
		if row.Keys == hotKeys {
			name, goal = "async, 10000 hot keys", 0.75
		}
		list = append(list,
			required(name+": pipeline 16 against one standalone server", row.Cluster/row.Alone, "x", goal, false, "%.0f/s against %.0f/s", row.Cluster, row.Alone),
			yes(name+": unacknowledged below max-unacked, lag not growing", row.bounded(), "at most %s of %s in %d samples; lag at most %d, then %d entries; %d degraded answers, %d errors; leader changed: %t, attempts: %d",
				row.Unacked, row.MaxUnacked, row.Samples, row.LagBegin, row.LagEnd, row.Degraded, row.Failures, row.Elected, row.Attempts))
	}
	rate := func(s sample) float64 { return s.Rate }
	for _, row := range r.Sync {
		ours, theirs := median(row.Cluster, rate), median(row.Redis, rate)
		list = append(list, required(fmt.Sprintf("sync, %d keys: pipeline 16 against unreplicated Redis + Lua", row.Keys), ours/theirs, "x", 4, false, "%.0f/s against %.0f/s; %d errors", ours, theirs, row.Failures))
	}
	if c := r.Commit; c != nil {
		ours, theirs := median(c.Headgate, duration), median(c.Bare, duration)
		list = append(list, required("sync, one call at a time: p50 against raft.Apply", float64(ours)/float64(theirs), "x", 1.5, true,
			"%.0f µs against %.0f µs, entries of %d B", micros(ours), micros(theirs), c.EntryBytes))
	}
	if len(r.Memory) > 1 {
		list = append(list, r.memoryTarget())
	}
	return list
}

// memoryTarget allows a follower a tenth more: what the garbage collector
// leaves lying around differs from node to node.
func (r *replicationReport) memoryTarget() target {
	var leader, follower nodeMemory
	for _, m := range r.Memory {
		if m.Leader {
			leader = m
		} else if m.Resident > follower.Resident {
			follower = m
		}
	}
	return required("memory of the larger follower against the leader's", float64(follower.Resident)/float64(leader.Resident), "x", 1.1, true,
		"%d MB against %d MB resident, %d MB against %d MB accounted", follower.Resident>>20, leader.Resident>>20, follower.Accounted>>20, leader.Accounted>>20)
}

func (r *replicationReport) write(line func(string, ...any)) {
	if len(r.Async) > 0 {
		line("\n## Replication, async, pipeline 16, three nodes\n")
		line("| keys | cluster/s | standalone/s | unacknowledged at most | lag, first and second half | degraded, errors | CPU µs, leader and follower | payload B/decision | disk B/decision |\n|---|---|---|---|---|---|---|---|---|")
		for _, a := range r.Async {
			line("| %d | %.0f | %.0f | %s | %d, %d entries | %d, %d | %.2f, %.2f | %.2f | %.1f |", a.Keys, a.Cluster, a.Alone, a.Unacked, a.LagBegin, a.LagEnd, a.Degraded, a.Failures, micros(a.LeaderCPU), micros(a.FollowerCPU), a.Payload, a.Written)
		}
	}
	if len(r.Sync) > 0 {
		line("\n## Replication, sync, pipeline 16\n\n| keys | | commands/s | p50 ms | p99 ms |\n|---|---|---|---|---|")
		for _, s := range r.Sync {
			writeSync(line, s.Keys, "Headgate, three nodes", s.Cluster)
			writeSync(line, s.Keys, "Redis + Lua, one server", s.Redis)
		}
	}
}

func writeSync(line func(string, ...any), keys int, label string, runs []sample) {
	line("| %d | %s | %.0f | %.2f | %.2f |", keys, label, median(runs, func(s sample) float64 { return s.Rate }),
		median(runs, func(s sample) float64 { return s.P50.Seconds() * 1000 }),
		median(runs, func(s sample) float64 { return s.P99.Seconds() * 1000 }))
}

func (f *failoverRow) targets() []target {
	var list []target
	for _, g := range f.Gaps {
		if len(g.Gaps) == 0 {
			continue
		}
		list = append(list,
			required("leader killed: median time to the next decision, "+g.Client, quantile(g.Gaps, 0.5).Seconds(), " s", 2, true, "%d kills", len(g.Gaps)),
			required("leader killed: p90, "+g.Client, quantile(g.Gaps, 0.9).Seconds(), " s", 3, true, "slowest %.2f s", quantile(g.Gaps, 1).Seconds()))
	}
	if p := f.Policy; p.Kills > 0 {
		list = append(list,
			required("leader killed, default policy: errors on surviving nodes", float64(p.Errors), "", 0, true, "of %d calls, %d kills; %s", p.Calls, p.Kills, cmp.Or(p.Error, "none")),
			required("leader killed, default policy: slowest answer", p.Slowest.Seconds()*1000, " ms", 150, true, ""))
	}
	return list
}

func (f *failoverRow) write(line func(string, ...any)) {
	line("\n## From SIGKILL of the leader to the next decision\n\n| | kills | median s | p90 s | least to most s |\n|---|---|---|---|---|")
	for _, g := range f.Gaps {
		line("| %s | %d | %.2f | %.2f | %.2f to %.2f |", g.Client, len(g.Gaps), quantile(g.Gaps, 0.5).Seconds(), quantile(g.Gaps, 0.9).Seconds(), quantile(g.Gaps, 0).Seconds(), quantile(g.Gaps, 1).Seconds())
	}
}
