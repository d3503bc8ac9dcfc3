package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// nodes of a replicated cluster.
const nodes = 3

// cluster is a replicated Headgate: nodes processes on this machine, each with
// a data directory of its own.
type cluster struct {
	bin   string
	dir   string
	nodes [nodes]*node
}

// node is one of them. Its process is nil while it is down.
type node struct {
	*process
	id   string
	addr string // of clients; the same while the process is down
	// web and calls are those for HTTP and gRPC.
	web, calls string
	args       []string
}

// startCluster starts the nodes with flags besides those that make them a
// cluster, and waits for a leader. Their data is below dir/name.
func startCluster(dir, name, bin string, flags ...string) (*cluster, error) {
	c := &cluster{bin: bin, dir: filepath.Join(dir, name)}
	planned, err := hgtest.Nodes(c.dir, nodes, flags...)
	if err != nil {
		return nil, err
	}
	for i, n := range planned {
		c.nodes[i] = &node{id: n.ID, addr: n.Addr, web: n.HTTP, calls: n.GRPC, args: n.Args}
	}
	for _, n := range c.nodes {
		if err := c.start(n); err != nil {
			c.stop()
			return nil, err
		}
	}
	if _, err := c.settle(); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// start starts a node, or starts it again.
func (c *cluster) start(n *node) (err error) {
	n.process, err = startProcess(filepath.Dir(c.dir), filepath.Base(c.dir)+"-"+n.id, n.addr, c.bin, n.args...)
	return err
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		if n != nil {
			n.process.stop()
		}
	}
}

// addrs are the clients' addresses of all nodes, as a client would configure
// them.
func (c *cluster) addrs() []string {
	list := make([]string, 0, nodes)
	for _, n := range c.nodes {
		list = append(list, n.addr)
	}
	return list
}

// followers are all nodes but the leader.
func (c *cluster) followers(leader *node) []*node {
	var list []*node
	for _, n := range c.nodes {
		if n != leader {
			list = append(list, n)
		}
	}
	return list
}

// followersCPU is the processor time that all followers have used.
func (c *cluster) followersCPU(leader *node) (sum time.Duration, err error) {
	for _, n := range c.followers(leader) {
		used, err := n.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// settleTime bounds the wait for a cluster in which all is well.
const settleTime = 30 * time.Second

// idleLag is how many entries a follower may be behind while nothing happens. It is one
// behind when it is asked just after the leader's tick of the clock.
const idleLag = 1

// settle waits until a leader serves, the others are ready and follow it
// closely, and nothing is unacknowledged, and returns the leader.
func (c *cluster) settle() (*node, error) {
	var why error
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, n := range c.nodes {
			r, err := n.replication()
			if err != nil {
				why = err
				continue
			}
			if !r.leads {
				continue
			}
			if r.peersUp == nodes-1 && r.lagEntries <= idleLag && r.unacked == 0 {
				if why = c.ready(n); why == nil {
					return n, nil
				}
				continue
			}
			why = fmt.Errorf("%s leads, %d peers are up, lag %d entries, unacknowledged for %s", n.id, r.peersUp, r.lagEntries, r.unacked)
		}
	}
	return nil, fmt.Errorf("the cluster has not settled within %s: %w", settleTime, errors.Join(errors.New("no leader serves"), why))
}

// ready returns why some node but the leader is not ready. A node that has just started
// has no share of the limits until it has replayed its log.
func (c *cluster) ready(leader *node) error {
	for _, n := range c.followers(leader) {
		fields, err := n.info("replication")
		if err != nil {
			return err
		}
		if role := fields["headgate_role"]; role != "following" {
			return fmt.Errorf("%s is %s", n.id, role)
		}
	}
	return nil
}

// replication is what a node says of itself in INFO replication.
type replication struct {
	leads      bool
	term       uint64
	unacked    time.Duration // age of the oldest effect not on a majority
	maxUnacked time.Duration
	batches    uint64
	payload    uint64 // bytes of all batches
	lastBatch  uint64 // bytes
	peersUp    int
	lagEntries uint64 // of the peer that is most behind
	degraded   uint64 // answers of the failure policy
	failures   uint64 // error replies for want of a leader or of a commit
}

func (p *process) replication() (replication, error) {
	fields, err := p.info("replication")
	if err != nil {
		return replication{}, err
	}
	return parseReplication(fields)
}

func parseReplication(fields map[string]string) (r replication, err error) {
	var failed error
	number := func(name string) uint64 {
		v, err := strconv.ParseUint(fields[name], 10, 64)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("INFO replication: %s is %q", name, fields[name]))
		}
		return v
	}
	r = replication{
		leads:      fields["role"] == "master",
		term:       number("headgate_term"),
		unacked:    time.Duration(number("headgate_unacked_ms")) * time.Millisecond,
		maxUnacked: time.Duration(number("headgate_max_unacked_ms")) * time.Millisecond,
		batches:    number("headgate_batches"),
		payload:    number("headgate_payload_bytes"),
		lastBatch:  number("headgate_last_batch_bytes"),
		degraded:   number("headgate_degraded_answers"),
		failures:   number("headgate_refused_without_leader") + number("headgate_uncertain_answers"),
	}
	for name, value := range fields {
		if !strings.HasPrefix(name, "headgate_peer_") {
			continue
		}
		for pair := range strings.SplitSeq(value, ",") {
			switch key, v, _ := strings.Cut(pair, "="); key {
			case "state":
				if v == "up" {
					r.peersUp++
				}
			case "lag_entries":
				lag, err := strconv.ParseUint(v, 10, 64)
				failed = errors.Join(failed, err)
				r.lagEntries = max(r.lagEntries, lag)
			}
		}
	}
	return r, failed
}
