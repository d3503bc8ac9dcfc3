package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/cmd/headgate/sizing"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/respclient"
)

// sizingPart runs only if it is asked for, because its results have a directory of their own.
const sizingPart = "size"

// sizingLoad is a load of the part "size", on servers of its own.
type sizingLoad struct {
	Nodes    int  `json:"nodes"`
	Groups   int  `json:"groups"`
	Sync     bool `json:"sync"`
	Keys     int  `json:"keys"`
	Pipeline int  `json:"pipeline"`
	// Offered is the rate at which calls are sent; 0 is as fast as possible.
	Offered int `json:"offered_per_second"`
	// Check says that the load checks a prediction. The others give the coefficients.
	Check bool `json:"check"`
}

// sizingRow is what the load cost. The figures per decision count all nodes, unless they
// say otherwise.
type sizingRow struct {
	sizingLoad
	Rate float64 `json:"per_second"`
	// Busiest and Cluster are processor time per decision: of the node that uses most, and
	// of all nodes.
	Busiest time.Duration `json:"busiest_cpu_ns"`
	Cluster time.Duration `json:"cluster_cpu_ns"`
	// Idle is the processor time per second that the nodes use together without a load.
	Idle time.Duration `json:"idle_cpu_ns_per_second"`
	// Resident is the memory of the largest node, in bytes, and Accounted what INFO says.
	Resident  int64 `json:"resident_bytes"`
	Accounted int64 `json:"accounted_bytes"`
	// Batches per second of all groups, and the bytes that they add to each node's log.
	Batches float64 `json:"batches_per_second"`
	Log     float64 `json:"log_bytes_per_decision"`
	// Between is the bytes of TCP that the nodes send each other, without headers.
	Between float64 `json:"bytes_between_nodes_per_decision"`
	// Clients is the bytes that clients send and receive.
	Clients float64 `json:"client_bytes_per_decision"`
}

// predict returns what package sizing calculates for the load of r and its rate.
func (r *sizingRow) predict() *sizing.Estimate {
	return sizing.Of(sizing.Load{
		Keys: float64(r.Keys), Rate: r.Rate, KeyBytes: sizingKeyBytes, Pipeline: r.Pipeline, Algorithm: "token",
		Nodes: r.Nodes, Groups: max(1, r.Groups), Sync: r.Sync,
	}, 1)
}

// sizingHeader begins the table of writeSizing.
const sizingHeader = "| | decisions/s | CPU per decision, busiest node | all nodes | memory of a node | log, per decision | between nodes, per decision |\n|---|---|---|---|---|---|---|"

// writeSizing writes the loads that check predictions: what was predicted, measured, and the
// difference.
func writeSizing(rows []*sizingRow, line func(string, ...any)) {
	line(sizingHeader)
	for _, r := range rows {
		if !r.Check {
			continue
		}
		p := r.predict()
		micro := func(cores float64, m time.Duration) string {
			return compared("%.2f", cores/r.Rate*1e6, micros(m), " µs")
		}
		log, between := "", ""
		if r.Nodes > 1 {
			log, between = compared("%.1f", p.Log/r.Rate, r.Log, " B"), compared("%.1f", p.Between/r.Rate, r.Between, " B")
		}
		line("| %s | %.0f | %s | %s | %s | %s | %s |", r.name(), r.Rate, micro(p.Busiest, r.Busiest), micro(p.Cluster, r.Cluster),
			compared("%.0f", p.Process/1e6, float64(r.Resident)/1e6, " MB"), log, between)
	}
}

// compared is a predicted and a measured figure, and how far the prediction is off.
func compared(format string, predicted, measured float64, unit string) string {
	return fmt.Sprintf(format+", "+format+"%s: %+.0f %%", predicted, measured, unit, (predicted/measured-1)*100)
}

func (l *sizingLoad) name() string {
	if l.Nodes == 1 {
		return fmt.Sprintf("1 node, %d keys", l.Keys)
	}
	mode := "async"
	if l.Sync {
		mode = "sync"
	}
	groups := "1 group"
	if l.Groups > 1 {
		groups = fmt.Sprintf("%d groups", l.Groups)
	}
	return fmt.Sprintf("%d nodes, %s, %s, %d keys", l.Nodes, groups, mode, l.Keys)
}

// sizingKeyBytes is the length of the keys of these loads. They are random, so they have no
// common beginning, which the log would leave out.
const sizingKeyBytes = 20

// sizingSettle is how long idle servers are measured.
const sizingSettle = 5 * time.Second

// sizingLoads are the loads of the part "size". The first ones give the coefficients of
// package sizing. The last ones have other pipelines and rates, and check its predictions.
func sizingLoads() []sizingLoad {
	const million = 1_000_000
	return []sizingLoad{
		{Nodes: 1, Keys: million, Pipeline: 1, Offered: 30_000},
		{Nodes: 1, Keys: million, Pipeline: 64, Offered: 200_000},
		{Nodes: 3, Groups: 1, Keys: 100, Pipeline: 64, Offered: 100_000},
		{Nodes: 3, Groups: 1, Keys: million, Pipeline: 64, Offered: 200_000},
		{Nodes: 3, Groups: 1, Sync: true, Keys: 10_000, Pipeline: 64, Offered: 100_000},
		{Nodes: 3, Groups: 12, Keys: 1000, Pipeline: 64, Offered: 50_000},
		{Nodes: 3, Groups: 12, Sync: true, Keys: 10_000, Pipeline: 64, Offered: 50_000},
		{Nodes: 1, Keys: million, Pipeline: 16, Offered: 200_000, Check: true},
		{Nodes: 3, Groups: 1, Keys: million, Pipeline: 16, Offered: 150_000, Check: true},
		{Nodes: 3, Groups: 12, Keys: million, Pipeline: 16, Offered: 100_000, Check: true},
		{Nodes: 3, Groups: 12, Sync: true, Keys: million, Pipeline: 16, Offered: 50_000, Check: true},
	}
}

// sizingRuns of each load are made, by turns. The one with the median processor time counts.
const sizingRuns = 3

// sizingTime is the least time of a load: the processor time of a process counts in steps
// of 10 ms.
const sizingTime = 10 * time.Second

// measureSizing measures all loads by turns.
func (b *bench) measureSizing(ctx context.Context, dir string) ([]*sizingRow, error) {
	const attempts = 6
	loads := sizingLoads()
	runs := make([][]*sizingRow, len(loads))
	var failed error
	for range sizingRuns {
		for i, l := range loads {
			if ctx.Err() != nil {
				break // what was measured so far is reported
			}
			for attempt := 1; ; attempt++ {
				row, err := b.measureSizingLoad(ctx, dir, l, max(b.runTime, sizingTime))
				if err == nil {
					runs[i] = append(runs[i], row)
					break
				}
				b.logf("size  %+v: %v", l, err)
				if attempt == attempts || ctx.Err() != nil {
					failed = errors.Join(failed, err)
					break
				}
			}
		}
	}
	var rows []*sizingRow
	for _, of := range runs {
		if len(of) == 0 {
			continue
		}
		slices.SortFunc(of, func(x, y *sizingRow) int { return cmp.Compare(x.Cluster, y.Cluster) })
		rows = append(rows, of[len(of)/2])
	}
	return rows, failed
}

// sizingNode is a node under a load.
type sizingNode struct {
	*process
	web  string   // for metrics
	door string   // for clients that know which node decides
	keys []uint32 // that it decides
}

// sizingServers are the servers of a load.
type sizingServers struct {
	data  string // the nodes' directory
	nodes []*sizingNode
	peers []string // ports between nodes
}

// startSizing starts the servers of l, and finds out which node decides which key.
func (b *bench) startSizing(ctx context.Context, dir string, l sizingLoad) (*sizingServers, error) {
	s := &sizingServers{}
	if l.Nodes == 1 {
		p, err := startHeadgate(dir, b.bin.headgate)
		if err != nil {
			return nil, err
		}
		s.nodes = []*sizingNode{{process: p, web: p.http, door: p.addr}}
		for key := range l.Keys {
			s.nodes[0].keys = append(s.nodes[0].keys, uint32(key))
		}
		return s, nil
	}
	// The nodes and the generator share two cores: a node that waits for one is not dead.
	flags := []string{"--groups", strconv.Itoa(l.Groups), "--raft-profile", "slow"}
	if l.Sync {
		flags = append(flags, "--durability", "sync")
	}
	s.data = filepath.Join(dir, "size")
	planned, err := hgtest.Nodes(s.data, l.Nodes, flags...)
	if err != nil {
		return nil, err
	}
	for _, n := range planned {
		p, err := startProcess(dir, "size-"+n.ID, n.Addr, b.bin.headgate, n.Args...)
		if err != nil {
			s.stop()
			return nil, err
		}
		_, port, _ := net.SplitHostPort(n.Peer)
		s.peers = append(s.peers, port)
		s.nodes = append(s.nodes, &sizingNode{process: p, web: n.HTTP, door: n.Cluster})
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		err := s.assign(l)
		if err == nil {
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.stop()
			return nil, err
		}
	}
}

func (s *sizingServers) stop() {
	for _, n := range s.nodes {
		n.process.stop()
	}
	if s.data != "" {
		_ = os.RemoveAll(s.data) // else the whole working directory goes at the end
	}
}

// assign gives each node the keys of which it leads the group, as CLUSTER SLOTS says. With
// several groups, it returns an error until the leaders are spread over the nodes.
func (s *sizingServers) assign(l sizingLoad) error {
	reply, err := respclient.Do(s.nodes[0].addr, askTimeout, "CLUSTER", "SLOTS")
	if err != nil {
		return err
	}
	for _, n := range s.nodes {
		n.keys = nil
	}
	var owner [1 << 14]*sizingNode
	for _, r := range reply.Elems {
		for _, n := range s.nodes {
			if _, port, _ := net.SplitHostPort(n.door); strconv.FormatInt(r.Elems[2].Elems[1].Int, 10) == port {
				for slot := r.Elems[0].Int; slot <= r.Elems[1].Int; slot++ {
					owner[slot] = n
				}
			}
		}
	}
	for slot, n := range owner {
		// The homes of the groups are the nodes in turn.
		if home := s.nodes[((slot+1)*l.Groups-1)/len(owner)%l.Nodes]; n == nil || l.Groups > 1 && n != home {
			return fmt.Errorf("%s does not lead the group of slot %d yet", home.name, slot)
		}
	}
	for key := range l.Keys {
		n := owner[hashSlot(sizingKey(key))]
		n.keys = append(n.keys, uint32(key))
	}
	return nil
}

// sizingKey returns the key of a number: random, and always the same.
func sizingKey(n int) []byte {
	rnd := rand.New(rand.NewPCG(uint64(n), 29))
	return fmt.Appendf(nil, "%016x%04x", rnd.Uint64(), rnd.Uint32()&0xffff)
}

// hashSlot returns Redis Cluster's slot of a key without a hash tag.
func hashSlot(key []byte) uint16 {
	var crc uint16
	for _, c := range key {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % (1 << 14)
}

// measureSizingLoad measures a load for the time d, after each key was used once.
func (b *bench) measureSizingLoad(ctx context.Context, dir string, l sizingLoad, d time.Duration) (*sizingRow, error) {
	s, err := b.startSizing(ctx, dir, l)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	row := &sizingRow{sizingLoad: l}
	time.Sleep(sizingSettle) // until the servers have begun all that they do
	before, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	time.Sleep(sizingSettle)
	after, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	_, idle := after.cpuSince(before)
	row.Idle = time.Duration(float64(idle) / after.at.Sub(before.at).Seconds())
	commands := make([][]byte, l.Keys)
	for key := range commands {
		commands[key] = respclient.Append(nil, throttleArgs("CL.THROTTLE", 1)(string(sizingKey(key)), daily(sharedLimit(l.Keys)))...)
	}
	if _, err := s.load(ctx, l, commands, 0); err != nil {
		return nil, err
	}
	if _, err := s.load(ctx, l, commands, 2*time.Second); err != nil { // to warm up
		return nil, err
	}
	if before, err = s.read(ctx); err != nil {
		return nil, err
	}
	n, err := s.load(ctx, l, commands, d)
	if err != nil {
		return nil, err
	}
	if after, err = s.read(ctx); err != nil {
		return nil, err
	}
	busiest, cluster := after.cpuSince(before)
	decisions, seconds := float64(n), after.at.Sub(before.at).Seconds()
	row.Rate = decisions / seconds
	row.Busiest, row.Cluster = busiest/time.Duration(n), cluster/time.Duration(n)
	row.Resident, row.Accounted = after.resident, after.accounted
	row.Batches = (after.batches - before.batches) / seconds
	row.Log = (after.log - before.log) / decisions
	row.Between = (after.between - before.between) / decisions
	row.Clients = (after.clients - before.clients) / decisions
	b.logf("size  %+v: %.0f/s, CPU %s busiest %s all, idle %s, %d MB resident, %d MB accounted, %.0f batches/s, %.2f B log, %.1f B between, %.1f B clients",
		l, row.Rate, row.Busiest, row.Cluster, row.Idle, row.Resident/1e6, row.Accounted/1e6, row.Batches, row.Log, row.Between, row.Clients)
	return row, nil
}

// sizingReading is what servers have used so far.
type sizingReading struct {
	at                             time.Time
	cpu                            []time.Duration // of each node
	resident, accounted            int64
	batches, log, between, clients float64
}

// cpuSince returns the processor time since before: of the busiest node and of all.
func (r *sizingReading) cpuSince(before *sizingReading) (busiest, all time.Duration) {
	for i := range r.cpu {
		d := r.cpu[i] - before.cpu[i]
		busiest, all = max(busiest, d), all+d
	}
	return busiest, all
}

func (s *sizingServers) read(ctx context.Context) (*sizingReading, error) {
	r := &sizingReading{at: time.Now()}
	for _, n := range s.nodes {
		cpu, err := n.cpu()
		if err != nil {
			return nil, err
		}
		r.cpu = append(r.cpu, cpu)
		used, rss, err := n.memory()
		if err != nil {
			return nil, err
		}
		r.resident, r.accounted = max(r.resident, rss), max(r.accounted, used)
		for name, sum := range map[string]*float64{
			"headgate_replication_batches_total":       &r.batches,
			"headgate_replication_payload_bytes_total": &r.log,
			"headgate_input_bytes_total":               &r.clients,
			"headgate_output_bytes_total":              &r.clients,
		} {
			v, err := metricSum(ctx, n.web, name)
			if err != nil {
				return nil, err
			}
			*sum += v
		}
	}
	var err error
	r.between, err = socketBytes(ctx, s.peers)
	return r, err
}

// metricSum adds up the series of a metric; their labels differ.
func metricSum(ctx context.Context, addr, name string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if family, _, _ := strings.Cut(series, "{"); family == name {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, lines.Err()
}

// socketBytes returns the bytes that open connections to some ports have carried in both
// directions, as ss of iproute2 counts them.
func socketBytes(ctx context.Context, ports []string) (sum float64, err error) {
	if len(ports) == 0 {
		return 0, nil
	}
	out, err := exec.CommandContext(ctx, "ss", "-tinOH", "state", "established").Output()
	if err != nil {
		return 0, fmt.Errorf("ss (Debian: apt install iproute2): %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		if _, port, err := net.SplitHostPort(fields[3]); err != nil || !slices.Contains(ports, port) {
			continue
		}
		for _, f := range fields {
			for _, name := range []string{"bytes_acked:", "bytes_received:"} {
				if v, ok := strings.CutPrefix(f, name); ok {
					n, err := strconv.ParseFloat(v, 64)
					if err != nil {
						return 0, err
					}
					sum += n
				}
			}
		}
	}
	return sum, nil
}

// load sends commands for the time d, each to the node that decides its key, and returns
// how many. Without a time it sends each command once.
func (s *sizingServers) load(ctx context.Context, l sizingLoad, commands [][]byte, d time.Duration) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leads := 0
	for _, n := range s.nodes {
		if len(n.keys) > 0 {
			leads++
		}
	}
	perNode := clients / leads
	var sent atomic.Int64
	failures := make(chan error, clients)
	begin := time.Now()
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		for i := range perNode {
			if len(n.keys) == 0 {
				continue
			}
			wg.Go(func() {
				// The node's share of the rate is that of its keys.
				pace := time.Duration(0)
				if l.Offered > 0 && d > 0 {
					pace = time.Duration(float64(time.Second) * float64(l.Pipeline*perNode) * float64(l.Keys) / (float64(l.Offered) * float64(len(n.keys))))
				}
				part := n.keys
				if d == 0 {
					part = n.keys[i*len(n.keys)/perNode : (i+1)*len(n.keys)/perNode]
				}
				m, err := n.send(ctx, commands, part, l.Pipeline, pace, begin, d, uint64(i))
				sent.Add(m)
				if err != nil {
					failures <- fmt.Errorf("%s: %w", n.name, err)
					cancel()
				}
			})
		}
	}
	wg.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
		return sent.Load(), ctx.Err()
	}
}

// send is one connection of a load.
func (n *sizingNode) send(ctx context.Context, commands [][]byte, keys []uint32, pipeline int, pace time.Duration, begin time.Time, d time.Duration, seed uint64) (sent int64, err error) {
	nc, err := net.Dial("tcp", n.door)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	rnd := rand.New(rand.NewPCG(uint64(begin.UnixNano()), seed))
	in := replyCounter{nc: nc, buf: make([]byte, 16<<10)}
	var out []byte
	due := begin.Add(time.Duration(rnd.Float64() * float64(pace)))
	for ctx.Err() == nil && (d == 0 && sent < int64(len(keys)) || d > 0 && time.Since(begin) < d) {
		out = out[:0]
		count := pipeline
		if d == 0 {
			count = min(pipeline, len(keys)-int(sent))
		}
		for i := range count {
			key := keys[rnd.IntN(len(keys))]
			if d == 0 {
				key = keys[int(sent)+i]
			}
			out = append(out, commands[key]...)
		}
		if pace > 0 {
			time.Sleep(time.Until(due))
			due = due.Add(pace)
		}
		if err := nc.SetDeadline(time.Now().Add(askTimeout)); err != nil {
			return sent, err
		}
		if _, err := nc.Write(out); err != nil {
			return sent, err
		}
		if err := in.take(count); err != nil {
			return sent, err
		}
		sent += int64(count)
	}
	return sent, nil
}
