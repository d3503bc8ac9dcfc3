package cluster

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/raftlog"
)

// watch renews the view of the cluster until ctx ends.
func (g *Group) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var alarms alarms
	differing := make(differing)
	var leader partition.TopologyNode
	led := false // a leader is known
	replay := replay{patience: startTimeout}
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
		case <-timer.C:
		}
		s := g.raft.Status()
		if meta := g.node.meta(s.ClusterID); !maps.Equal(meta, s.Meta) {
			g.raft.SetMeta(meta)
		}
		t := topology(&s)
		g.topology.Store(t)
		for _, node := range t.Nodes {
			if node.Leader && (node.ID != leader.ID || node.Address != leader.Address) {
				g.front.LeaderChanged(leader, node)
				leader = node
			}
		}
		known := slices.ContainsFunc(t.Nodes, func(n partition.TopologyNode) bool { return n.Leader })
		if known {
			g.front.SeeTerm(s.Term)
		}
		if led && !known {
			g.front.LeaderLost()
		}
		led = known
		g.follow(ctx, &s, &replay)
		if s.Serving {
			// The next leader would continue the clock from here. Otherwise each handover
			// would set the cluster clock back by the travel time of its last entry.
			g.engine.Clock().Discipline()
		}
		alarms.checkClock(g, s.Serving, g.engine.Clock().Skew(), time.Now())
		if g.id == 0 { // the other groups have the same members
			g.node.removed.Store(s.Removed)
			alarms.checkPeers(g, &s)
			differing.check(g.log, Differences(&s))
		}
		next := refreshInterval
		select {
		case <-g.caughtUp:
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
			ID: m.ID, Leader: m.Leader, Voter: m.Voter, Waits: m.Waits, Alive: m.Up,
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

// replay is what a node knows about the replay at its start.
type replay struct {
	goal     uint64        // what the leader had applied when it was first asked; 0 if unknown
	patience time.Duration // how long the next question to the leader may take
}

// follow finds out when the replay at the start is complete. A follower learns only from
// the leader what is committed. So this node must have applied everything that the leader
// had when it was first asked.
func (g *Group) follow(ctx context.Context, s *raftlog.Status, r *replay) {
	select {
	case <-g.caughtUp:
		return
	default:
	}
	for _, m := range s.Members {
		if r.goal == 0 && m.Leader && !m.Self {
			asked, cancel := context.WithTimeout(ctx, r.patience)
			leader, err := g.raft.Caller().Status(asked, m.Addr)
			switch {
			case err == nil && leader.NodeID == m.ID && leader.Serving:
				r.goal = leader.AppliedIndex
			case asked.Err() != nil:
				r.patience = min(2*r.patience, startPatience)
			}
			cancel()
		}
	}
	if r.goal > 0 && s.AppliedIndex >= r.goal {
		g.mu.Lock()
		g.finishStart()
		g.publishRole()
		g.mu.Unlock()
	}
}

// Topology implements partition.Replication. It is at most refreshInterval old.
func (g *Group) Topology() partition.Topology { return *g.topology.Load() }

// Status returns what the node knows about itself and the cluster. Before Start it returns
// the zero value.
func (g *Group) Status() raftlog.Status {
	select {
	case <-g.opened:
		return g.raft.Status()
	default:
		return raftlog.Status{NodeID: g.node.cfg.NodeID}
	}
}

// flush waits until everything decided so far is committed, if this node leads.
func (g *Group) flush(ctx context.Context) error {
	ticket := g.ledger.Open()
	g.ledger.Flush()
	return poll.Until(ctx, flushPoll, func() bool {
		_, serving := g.raft.Serving()
		return !serving || g.ledger.Settled() >= ticket
	})
}

// flushPoll is how often flush checks. Clients wait for it in a handover.
const flushPoll = 200 * time.Microsecond

// deciding reports whether this node leads, and so has been started.
func (g *Group) deciding() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.situation.serving
}

// askInterval is how often AwaitReplicas asks the other nodes.
const askInterval = 20 * time.Millisecond

// AwaitReplicas implements partition.Replication. A commit proves that a majority, which
// includes this node, has everything. For more nodes, AwaitReplicas asks them.
func (g *Group) AwaitReplicas(ctx context.Context, replicas int) int {
	if !g.deciding() {
		return 0
	}
	term, _ := g.raft.Serving()
	if g.flush(ctx) != nil {
		return 0
	}
	s := g.raft.Status()
	if now, _ := g.raft.Serving(); now != term || term == 0 {
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
			have = max(have, g.ask(ctx, others, has, s.CommitIndex))
		}
		return have >= min(replicas, len(others))
	})
	return have
}

// ask counts the nodes that have applied the log up to index. has keeps the
// answers between calls.
func (g *Group) ask(ctx context.Context, others []raftlog.Member, has []bool, index uint64) (count int) {
	var wg sync.WaitGroup
	for i, m := range others {
		if !has[i] {
			wg.Go(func() {
				s, err := g.raft.Caller().Status(ctx, m.Addr)
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
type alarms struct {
	skewed       time.Time // since when the clock has been skewed, zero if it is not
	clock, peers bool
}

// skewedFor is how long the clock of a leader must be skewed until that is an alarm. Other
// groups follow the clock of group 0. If group 0 gets a new leader, its clock on the other
// nodes is late until the new leader's first batch arrives there.
const skewedFor = 5 * time.Second

func (a *alarms) checkClock(g *Group, serving bool, skew time.Duration, now time.Time) {
	switch {
	case !serving || skew.Abs() <= engine.MaxSlew:
		a.skewed = time.Time{}
	case a.skewed.IsZero():
		a.skewed = now
	}
	if on := !a.skewed.IsZero() && now.Sub(a.skewed) >= skewedFor; on != a.clock {
		a.clock = on
		if on {
			g.log.Error("the cluster clock differs from this leader's wall clock; see headgate cluster set-clock", "wall_ahead_by", skew.String())
		} else {
			g.log.Info("the clock alarm is over")
		}
	}
}

func (a *alarms) checkPeers(g *Group, s *raftlog.Status) {
	var far []any
	for _, m := range s.Members {
		if !m.Self && m.Up && m.Skew.Abs() > engine.MaxSlew {
			far = append(far, m.ID, m.Skew.Round(time.Millisecond).String())
		}
	}
	if on := len(far) > 0; on != a.peers {
		a.peers = on
		if on {
			g.log.Warn("wall clocks of nodes differ from this one's", far...)
		} else {
			g.log.Info("wall clocks of the nodes agree again")
		}
	}
}
