package sizing

import (
	"fmt"
	"strconv"
)

// Plan returns what to buy, each with its reason.
func (e *Estimate) Plan() []Line {
	l, p := &e.Load, e.part()
	kind := "a single server, without replication"
	if l.Nodes > 1 {
		kind = fmt.Sprintf("%d x %d nodes; each cluster has %s keys and makes %s decisions/s", e.Clusters, l.Nodes, short(p.keys), short(p.rate))
	} else if e.Clusters > 1 {
		kind = fmt.Sprintf("single servers, each with %s keys and %s decisions/s", short(p.keys), short(p.rate))
	}
	lines := []Line{
		{"nodes", strconv.Itoa(e.Clusters * l.Nodes), kind},
		{"cores of a node", strconv.Itoa(e.Cores()), fmt.Sprintf("%d x %s cores that the busiest node uses; a machine has %d", Headroom, short(e.Busiest), l.Cores)},
		{"memory of a node", size(e.Process / memoryShare), fmt.Sprintf("%s of the process / %v, the default share of maxmemory", size(e.Process), memoryShare)},
	}
	if l.Nodes > 1 {
		lines = append(lines,
			Line{"disk of a node", size(e.Space), fmt.Sprintf("%s x %s of log + 3 x %s of keys", groups(l.Groups), size(groupLog), size(e.Table))},
			Line{"disk writes", size(e.Disk) + "/s", fmt.Sprintf("%s/s of log x %v + %s syncs/s x %s", size(e.Log), diskFactor, short(e.Batches), size(diskBatch))})
	}
	return append(lines,
		Line{"network out", bits(e.Sent), "of the busiest node: replies" + ifCluster(l, ", and its batches to the other nodes")},
		Line{"network in", bits(e.Received), "of the busiest node: calls" + ifCluster(l, ", and batches of other leaders")})
}

func groups(n int) string {
	if n == 1 {
		return "1 group"
	}
	return fmt.Sprintf("%d groups", n)
}

func ifCluster(l *Load, s string) string {
	if l.Nodes == 1 {
		return ""
	}
	return s
}

// Formulas returns the formulas of the figures in Plan. They are about one cluster, with its
// share of the keys and the rate.
func (e *Estimate) Formulas() []Line {
	l, p := &e.Load, e.part()
	decision := perCall + perPipeline/float64(l.Pipeline)
	lines := []Line{{"a decision", seconds(decision), fmt.Sprintf("%s + %s of a pipeline / %d calls", seconds(perCall), seconds(perPipeline), l.Pipeline)}}
	table := Line{"keys in memory", size(e.Table), fmt.Sprintf("%s keys x %.0f B", short(p.keys), KeyBytes(l.Algorithm, l.KeyBytes))}
	if l.Nodes == 1 {
		return append(lines,
			Line{"processor", short(e.Busiest) + " cores", fmt.Sprintf("%s/s x %s + %s idle", short(p.rate), seconds(decision), short(idleAlone))},
			table,
			Line{"process", size(e.Process), fmt.Sprintf("%s + %v x %s", size(processAlone), processTable, size(e.Table))})
	}
	copies := l.Nodes - 1
	share := p.led / float64(l.Groups)
	lead := (leadBatch + p.batchKeys*leadKey) * float64(copies) / 2
	follow := followBatch + p.batchKeys*followKey
	wire := p.batchBytes + wireBatch
	return append(lines,
		Line{"batches of a group", short(p.batches) + "/s", fmt.Sprintf("1 / (%s + %s calls until one begins the next batch / %s/s)", seconds(l.pause()), short(l.wait()), short(p.rate))},
		Line{"keys of a batch", short(p.batchKeys), fmt.Sprintf("distinct keys of %s random calls on %s keys", short(p.rate/float64(l.Groups)/p.batches), short(p.keys/float64(l.Groups)))},
		Line{"a batch, leader", seconds(lead), fmt.Sprintf("%d followers / 2 x (%s + %s keys x %s)", copies, seconds(leadBatch), short(p.batchKeys), seconds(leadKey))},
		Line{"a batch, follower", seconds(follow), fmt.Sprintf("%s + %s keys x %s", seconds(followBatch), short(p.batchKeys), seconds(followKey))},
		Line{"proposer of a group", short(e.proposer()) + " cores", fmt.Sprintf("%s/s x %s keys x %s, on one core that is at most 1/%d busy", short(p.batches), short(p.batchKeys), seconds(cutKey), Headroom)},
		Line{"busiest node", short(e.Busiest) + " cores", fmt.Sprintf("%s/s x %s + %s/s x (%s led x %s + %.0f followed x %s) + %s idle",
			short(p.rate*share), seconds(decision), short(p.batches), groups(int(p.led)), seconds(lead), p.followed, seconds(follow), short(idleNode+idleGroup*float64(l.Groups-1)))},
		Line{"a cluster", short(e.Cluster) + " cores", fmt.Sprintf("all %d nodes, in the same way", l.Nodes)},
		table,
		Line{"process", size(e.Process), fmt.Sprintf("%s + %v x %s + %s x %.0f entries of %s in memory", size(processNode+processGroup*float64(l.Groups-1)), heapGrowth, size(e.Table), groups(l.Groups), l.cached(), size(min(p.batchBytes, maxEntry)))},
		Line{"log", size(e.Log) + "/s", fmt.Sprintf("%s x %s batches/s x %s keys x %.0f B", groups(l.Groups), short(p.batches), short(p.batchKeys), effect(l))},
		Line{"between nodes", size(e.Between) + "/s", fmt.Sprintf("%d followers x %s x %s batches/s x %s", copies, groups(l.Groups), short(p.batches), size(wire))})
}

// Measured says where the coefficients in Formulas are from.
const Measured = `Measured: the coefficients in the formulas (bench/results/size, ` + MeasuredOn + `; disk and
memory of a key bench/results, 24 November 2026). Calculated: everything else.`

// short returns v with three digits, and k, M or G.
func short(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	digits := 0
	switch {
	case v < 0.995:
		digits = 3
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		for s[len(s)-1] == '0' {
			s = s[:len(s)-1]
		}
		if s[len(s)-1] == '.' {
			s = s[:len(s)-1]
		}
	}
	return s + unit
}

func size(bytes float64) string {
	if bytes < 999.5 {
		return fmt.Sprintf("%.0f B", bytes)
	}
	s := short(bytes)
	return s[:len(s)-1] + " " + s[len(s)-1:] + "B"
}

func bits(bytesPerSecond float64) string {
	s := short(max(1000, bytesPerSecond*8)) // no plan needs less than 1 kbit/s
	return s[:len(s)-1] + " " + s[len(s)-1:] + "bit/s"
}

func seconds(s float64) string {
	if s < 0.9995e-3 {
		return short(s*1e6) + " µs"
	}
	return short(s*1e3) + " ms"
}
