package cluster

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/diskspace"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/raftlog"
)

// watch renews the view of the cluster until ctx ends.
func (n *Node) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var alarms alarms
	differing := make(differing)
	var leader partition.TopologyNode
	led := false    // a leader is known
	var goal uint64 // see follow
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.changed:
		case <-timer.C:
		}
		s := n.group.Status()
		if meta := n.meta(s.ClusterID); !maps.Equal(meta, s.Meta) {
			n.group.SetMeta(meta)
		}
		t := topology(&s)
		n.topology.Store(t)
		n.removed.Store(s.Removed)
		for _, node := range t.Nodes {
			if node.Leader && (node.ID != leader.ID || node.Address != leader.Address) {
				n.front.LeaderChanged(leader, node)
				leader = node
			}
		}
		known := slices.ContainsFunc(t.Nodes, func(n partition.TopologyNode) bool { return n.Leader })
		if led && !known {
			n.front.LeaderLost()
		}
		led = known
		goal = n.follow(ctx, &s, goal)
		if s.Serving {
			// The next leader would continue the clock from here. Otherwise each handover
			// would set the cluster clock back by the travel time of its last entry.
			n.engine.Clock().Discipline()
		}
		alarms.check(n, &s)
		differing.check(n.log, Differences(&s))
		next := refreshInterval
		select {
		case <-n.caughtUp:
			if slices.ContainsFunc(t.Nodes, func(n partition.TopologyNode) bool { return n.Host == "" }) {
				next = startInterval // until the node has been met
			}
		default:
			next = startInterval
		}
		timer.Reset(next)
	}
}

// topology is the part of s that clients see.
func topology(s *raftlog.Status) *partition.Topology {
	t := &partition.Topology{Self: s.NodeID, Term: s.Term}
	for _, m := range s.Members {
		node := partition.TopologyNode{
			ID: m.ID, Leader: m.Leader, Voter: m.Voter, Alive: m.Up,
			LagEntries: m.Lag, LagMillis: m.LagTime.Milliseconds(),
		}
		node.Address, node.Cluster = address(m.Meta[metaClient]), address(m.Meta[metaCluster])
		t.Nodes = append(t.Nodes, node)
	}
	return t
}

// address parses host:port, which a node's configuration has checked.
func address(s string) (a partition.Address) {
	if host, port, err := net.SplitHostPort(s); err == nil {
		a.Host = host
		a.Port, _ = strconv.Atoi(port)
	}
	return a
}

// ClientAddr returns the address for the clients of a node; "" if it is unknown.
func ClientAddr(m *raftlog.Member) string { return m.Meta[metaClient] }

// follow finds out when the replay at the start is complete. A follower learns only from
// the leader what is committed. So this node must have applied everything that the leader
// had when it was first asked. goal is that index; 0 if unknown.
func (n *Node) follow(ctx context.Context, s *raftlog.Status, goal uint64) uint64 {
	select {
	case <-n.caughtUp:
		return goal
	default:
	}
	for _, m := range s.Members {
		if goal == 0 && m.Leader && !m.Self {
			asked, cancel := context.WithTimeout(ctx, startTimeout)
			if leader, err := n.group.Caller().Status(asked, m.Addr); err == nil && leader.NodeID == m.ID && leader.Serving {
				goal = leader.AppliedIndex
			}
			cancel()
		}
	}
	if goal > 0 && s.AppliedIndex >= goal {
		n.mu.Lock()
		n.finishStart()
		n.publishRole()
		n.mu.Unlock()
	}
	return goal
}

// Topology implements partition.Replication. It is at most refreshInterval old.
func (n *Node) Topology() partition.Topology { return *n.topology.Load() }

var errRemoved = errors.New("this node has been removed from the cluster")

// Fit returns an error if this node was removed from the cluster, because it can then
// answer only by its failure policy.
func (n *Node) Fit() error {
	if n.removed.Load() {
		return errRemoved
	}
	return nil
}

// Status returns what the node knows about itself and the cluster. Before Start it returns
// the zero value.
func (n *Node) Status() raftlog.Status {
	select {
	case <-n.opened:
		return n.group.Status()
	default:
		return raftlog.Status{NodeID: n.cfg.NodeID}
	}
}

// Disk returns the free bytes and the size of the file system with the data directory.
func (n *Node) Disk() (free, size uint64, err error) { return diskspace.Of(n.cfg.DataDir) }

// MaxUnacked returns the age of the oldest uncommitted effect at which the failure policy
// answers.
func (n *Node) MaxUnacked() time.Duration { return n.cfg.MaxUnacked }

// flush waits until everything decided so far is committed, if this node leads.
func (n *Node) flush(ctx context.Context) error {
	ticket := n.ledger.Open()
	n.ledger.Flush()
	return poll.Until(ctx, flushPoll, func() bool {
		_, serving := n.group.Serving()
		return !serving || n.ledger.Settled() >= ticket
	})
}

// flushPoll is how often flush checks. Clients wait for it in a handover.
const flushPoll = 200 * time.Microsecond

// deciding reports whether this node leads, and so has been started.
func (n *Node) deciding() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.situation.serving
}

// askInterval is how often AwaitReplicas asks the other nodes.
const askInterval = 20 * time.Millisecond

// AwaitReplicas implements partition.Replication. A commit proves that a majority, which
// includes this node, has everything. For more nodes, AwaitReplicas asks them.
func (n *Node) AwaitReplicas(ctx context.Context, replicas int) int {
	if !n.deciding() {
		return 0
	}
	term, _ := n.group.Serving()
	if n.flush(ctx) != nil {
		return 0
	}
	s := n.group.Status()
	if now, _ := n.group.Serving(); now != term || term == 0 {
		return 0 // what was flushed may have been undone
	}
	voters := 0
	var others []raftlog.Member
	for _, m := range s.Members {
		if m.Voter {
			voters++
		}
		if !m.Self {
			others = append(others, m)
		}
	}
	have := voters / 2
	has := make([]bool, len(others))
	// The only error is the end of ctx. The reply is then the number of replicas at that
	// time.
	_ = poll.Until(ctx, askInterval, func() bool {
		if have < min(replicas, len(others)) {
			have = max(have, n.ask(ctx, others, has, s.CommitIndex))
		}
		return have >= min(replicas, len(others))
	})
	return have
}

// ask counts the nodes that have applied the log up to index. has keeps the
// answers between calls.
func (n *Node) ask(ctx context.Context, others []raftlog.Member, has []bool, index uint64) (count int) {
	var wg sync.WaitGroup
	for i, m := range others {
		if !has[i] {
			wg.Go(func() {
				s, err := n.group.Caller().Status(ctx, m.Addr)
				has[i] = err == nil && s.AppliedIndex >= index
			})
		}
	}
	wg.Wait()
	for _, h := range has {
		if h {
			count++
		}
	}
	return count
}

// alarms logs what an operator should look at, when it begins and when it ends.
type alarms struct{ clock, peers bool }

func (a *alarms) check(n *Node, s *raftlog.Status) {
	skew := n.engine.Clock().Skew()
	if on := s.Serving && skew.Abs() > engine.MaxSlew; on != a.clock {
		a.clock = on
		if on {
			n.log.Error("the cluster clock is not this leader's wall clock; see headgate cluster set-clock", "wall_ahead_by", skew.String())
		} else {
			n.log.Info("the clock alarm is over")
		}
	}
	var far []any
	for _, m := range s.Members {
		if !m.Self && m.Up && m.Skew.Abs() > engine.MaxSlew {
			far = append(far, m.ID, m.Skew.Round(time.Millisecond).String())
		}
	}
	if on := len(far) > 0; on != a.peers {
		a.peers = on
		if on {
			n.log.Warn("wall clocks of nodes differ from this one's", far...)
		} else {
			n.log.Info("wall clocks of the nodes agree again")
		}
	}
}
