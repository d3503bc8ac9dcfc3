// Package sizing calculates the nodes, cores, memory, disk and network that a load needs,
// from coefficients that were measured. docs/scaling.md explains the method to users.
package sizing

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Coefficients of processors, batches and networks. They come from the loads in
// bench/results/size/results.json, without those that check the predictions. A test derives
// them from this file again. Times are seconds of one core.
const (
	perCall     = 1.2e-6 // a decision
	perPipeline = 9.4e-6 // the calls that a client sends together: one read and one write

	idleAlone = 0.014  // cores of an idle server without a cluster
	idleNode  = 0.033  // of an idle node with one group
	idleGroup = 0.0062 // of each further group of such a node

	leadBatch   = 0.51e-3 // a batch: on its leader with two followers, and on a follower
	followBatch = 0.33e-3
	leadKey     = 0.88e-6 // a changed key in a batch, on the same nodes
	followKey   = 0.57e-6

	asyncPause = 20e-3 // seconds that a batch of the only group takes; the next one begins with the next call
	syncPause  = 0.44e-3
	syncGroup  = 0.46e-3 // what each further group adds

	processNode  = 87e6  // bytes of a node with one group and hardly any keys
	processGroup = 4.7e6 // of each further group

	effectHead = 9.6  // bytes of a changed key in the log, without its name
	wireBatch  = 390  // bytes of a batch between two nodes, beside those of the log
	callBytes  = 61.0 // bytes of a call without the key's name
	replyBytes = 30.0
)

// Coefficients of disk and memory. They are from bench/results/results.json, the run of 24
// November 2026, and from the code.
const (
	cutKey = 350e-9 // seconds of a key in a batch of its group's only proposer (BenchmarkCut)

	diskFactor = 2.05   // bytes written for each byte of the log: its space is filled with zeros first
	diskBatch  = 7300.0 // bytes that the file system adds to a batch

	processAlone = 43.7e6 // bytes of a server without a cluster and without keys
	processTable = 1.01   // bytes of the process for each byte of the table
	heapGrowth   = 1.5    // the same for a node of a cluster: its heap grows by half between collections
	cachedLog    = 512    // entries of the log that the groups keep in memory together, of at most maxEntry
	leastCached  = 64     // the same of each group
	maxEntry     = 256 << 10
	groupLog     = 384e6 // bytes of a group's log on disk: snapshot-log-size, and 128 MB
)

// MeasuredOn is the date of the run in bench/results/size.
const MeasuredOn = "29 November 2026"

// Headroom is the processor time that a plan has for each second that is calculated: at the
// planned load, a processor is half used.
const Headroom = 2

// memoryShare is the default of maxmemory, as a share of the machine's memory.
const memoryShare = 0.6

// Load is what callers ask for, and the kind of servers that they ask.
type Load struct {
	Keys      float64 `json:"keys"`
	Rate      float64 `json:"decisions_per_second"`
	KeyBytes  int     `json:"key_bytes"`
	Pipeline  int     `json:"pipeline"`
	Algorithm string  `json:"algorithm"`
	// Nodes of a cluster. Each has all keys of its cluster. A single node does not replicate.
	Nodes  int  `json:"nodes"`
	Groups int  `json:"groups"`
	Sync   bool `json:"sync"`
	Cores  int  `json:"cores"` // of a machine, at most
}

// words is how many words of 8 bytes the state of a key has.
var words = map[string]int{"token": 1, "leaky": 1, "fixed": 1, "sliding": 2, "log": 10}

// Algorithms returns the algorithms that a Load can have.
func Algorithms() []string { return []string{"token", "leaky", "fixed", "sliding", "log"} }

// Check returns an error for a load that no servers can have.
func (l *Load) Check() error {
	switch {
	case words[l.Algorithm] == 0:
		return fmt.Errorf("algorithm is %q: want one of %s", l.Algorithm, strings.Join(Algorithms(), ", "))
	case !slices.Contains([]int{1, 3, 5}, l.Nodes):
		return fmt.Errorf("nodes is %d: want 3 or 5, or 1 for a server without a cluster", l.Nodes)
	case l.Nodes == 1 && (l.Groups != 1 || l.Sync):
		return fmt.Errorf("a single node replicates nothing: leave out groups and sync, or set nodes to 3")
	case l.Groups < 1 || l.Groups > 1024:
		return fmt.Errorf("groups is %d: want 1 to 1024", l.Groups)
	case !(l.Keys >= 1 && l.Rate >= 1) || math.IsInf(l.Keys+l.Rate, 0) || l.KeyBytes < 1 || l.Pipeline < 1 || l.Cores < 1:
		return fmt.Errorf("want at least 1 for keys, rate, key-bytes, pipeline and cores")
	}
	return nil
}

// Estimate is what a Load needs. A field that names nothing else is of one node, the busiest.
type Estimate struct {
	Load     Load `json:"load"`
	Clusters int  `json:"clusters"`
	// Busiest and Cluster are cores in use: on the busiest node, and on all nodes of a cluster.
	Busiest float64 `json:"busiest_node_cores"`
	Cluster float64 `json:"cluster_cores"`
	Table   float64 `json:"table_bytes"`
	Process float64 `json:"process_bytes"`
	// Batches per second of all groups. Each is written and synced by each node.
	Batches float64 `json:"batches_per_second"`
	Log     float64 `json:"log_bytes_per_second"`
	Disk    float64 `json:"disk_bytes_per_second"` // with what the file system adds
	Space   float64 `json:"disk_bytes"`
	// Between is what all nodes of a cluster send each other.
	Between  float64 `json:"between_nodes_bytes_per_second"`
	Sent     float64 `json:"sent_bytes_per_second"` // to clients too
	Received float64 `json:"received_bytes_per_second"`
}

// Line is a figure with the reason for it.
type Line struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	How   string `json:"how"`
}

// Size returns what l needs. It divides l between as many clusters as it takes until each
// fits its machines. It returns an error if no number of clusters does.
func Size(l Load) (*Estimate, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	const most = 100_000
	for clusters := 1; clusters <= most; clusters++ {
		e := Of(l, clusters)
		if e.Busiest*Headroom <= float64(l.Cores) && e.proposer()*Headroom <= 1 {
			return e, nil
		}
	}
	return nil, fmt.Errorf("no number of clusters is enough: %d groups leave no time for decisions on machines of %d cores; choose fewer groups or more cores", l.Groups, l.Cores)
}

// Cores returns the cores that a node should have.
func (e *Estimate) Cores() int { return max(2, int(math.Ceil(e.Busiest*Headroom))) }

// part is the share of a load that one cluster has.
type part struct {
	rate, keys float64
	// A group's batches per second, and the changed keys and the bytes of a batch.
	batches, batchKeys, batchBytes float64
	led, followed                  float64 // groups of the node that leads most
}

func (e *Estimate) part() part {
	l := &e.Load
	groups, nodes := float64(l.Groups), float64(l.Nodes)
	p := part{rate: l.Rate / float64(e.Clusters), keys: l.Keys / float64(e.Clusters)}
	p.led = math.Ceil(groups / nodes)
	p.followed = groups - p.led
	if l.Nodes == 1 {
		return p
	}
	p.batches = 1 / (l.pause() + l.wait()/p.rate)
	calls, keys := p.rate/groups/p.batches, max(1, p.keys/groups)
	p.batchKeys = -keys * math.Expm1(-calls/keys) // keys that calls at random change
	p.batchBytes = p.batchKeys * effect(l)
	return p
}

// cached returns the entries of the log that a group keeps in memory.
func (l *Load) cached() float64 { return float64(max(leastCached, cachedLog/l.Groups)) }

// pause returns the seconds that a batch takes. The groups of a node share its disk. With
// async, several groups have a longer pace, as in package cluster.
func (l *Load) pause() float64 {
	if l.Sync {
		return syncPause + syncGroup*float64(l.Groups-1)
	}
	return asyncPause * float64(min(l.Groups, 3))
}

// wait returns the calls that clients make after a batch of a group has ended, until one of
// them begins the group's next batch. A client sends all calls for one node together, so they
// reach all groups that this node leads.
func (l *Load) wait() float64 {
	return max(float64(l.Pipeline*min(l.Groups, l.Nodes)), float64(l.Groups))
}

// effect returns the bytes that a changed key adds to the log, if its name has no beginning
// in common with other names.
func effect(l *Load) float64 {
	return float64(l.KeyBytes) + effectHead + 8*float64(words[l.Algorithm]-1)
}

// proposer returns the part of its time for which the goroutine that makes a group's batches
// is busy.
func (e *Estimate) proposer() float64 {
	p := e.part()
	return p.batches * p.batchKeys * cutKey
}

// KeyBytes returns the bytes of a key in the table, with its part of the table's free room.
func KeyBytes(algorithm string, name int) float64 {
	const cell, head, room = 16, 8, 13
	record := (head + 8*words[algorithm] + name + 7) / 8 * 8
	return float64(cell + record + room)
}

// Of returns what l needs if it is divided between a number of clusters.
func Of(l Load, clusters int) *Estimate {
	e := &Estimate{Load: l, Clusters: clusters}
	p := e.part()
	decision := perCall + perPipeline/float64(l.Pipeline)
	e.Table = p.keys * KeyBytes(l.Algorithm, l.KeyBytes)
	call, reply := callBytes+float64(l.KeyBytes), replyBytes
	if l.Nodes == 1 {
		e.Busiest = idleAlone + p.rate*decision
		e.Cluster = e.Busiest
		e.Process = processAlone + processTable*e.Table
		e.Sent, e.Received = p.rate*reply, p.rate*call
		return e
	}
	groups, nodes, share := float64(l.Groups), float64(l.Nodes), p.led/float64(l.Groups)
	lead := p.batches * (leadBatch + p.batchKeys*leadKey) * (nodes - 1) / 2
	follow := p.batches * (followBatch + p.batchKeys*followKey)
	base := idleNode + idleGroup*(groups-1)
	e.Busiest = base + p.rate*share*decision + p.led*lead + p.followed*follow
	e.Cluster = nodes*base + p.rate*decision + groups*(lead+(nodes-1)*follow)
	e.Process = processNode + processGroup*(groups-1) + heapGrowth*e.Table + groups*l.cached()*min(p.batchBytes, maxEntry)
	e.Batches = groups * p.batches
	e.Log = e.Batches * p.batchBytes
	e.Disk = e.Log*diskFactor + e.Batches*diskBatch
	e.Space = groups*groupLog + 3*e.Table
	wire := p.batches * (p.batchBytes + wireBatch) // of one group to one follower
	e.Between = groups * (nodes - 1) * wire
	e.Sent = p.rate*share*reply + p.led*(nodes-1)*wire
	e.Received = p.rate*share*call + p.followed*wire
	return e
}
