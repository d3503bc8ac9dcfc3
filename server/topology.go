package server

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/pubsub"
)

// clusterView is the topology of one partition in the form that commands show: a shard, the
// leader as its master, the other nodes as its replicas.
type clusterView struct {
	partition.Topology
	slots  partition.Slots
	self   *partition.TopologyNode // nil while the node does not know its own address
	leader *partition.TopologyNode // nil while no leader is known
	// master is the leader or, while there is none, the last known leader. As in Redis,
	// clients see the last leader until there is a new one.
	master *partition.TopologyNode
	// lost is how long clients have seen no leader.
	lost     time.Duration
	electing time.Duration // how long an election may take
}

// view returns the present topology of partition i.
func (s *Server) view(i uint16) *clusterView {
	p := s.parts[i]
	v := &clusterView{Topology: p.Topology(), slots: p.Slots(), electing: s.electing}
	last := p.LastLeader()
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.ID == v.Self {
			v.self = n
		}
		if n.Leader {
			v.leader = n
		}
		if n.ID == last {
			v.master = n
		}
	}
	if v.leader != nil {
		v.master = v.leader
	}
	v.lost = p.Leaderless(v.leader != nil)
	return v
}

// shown returns the index of the partition by which a node tells its role. Clients of
// Sentinel need one master, the leader of the first partition. To clients of Redis Cluster,
// a node is a master if it leads any partition.
func shown(parts []*partition.Partition, moves bool) uint16 {
	if moves {
		for i, p := range parts {
			if p.Role().Decides() {
				return uint16(i)
			}
		}
	}
	return 0
}

// leads reports whether this node is the leader.
func (v *clusterView) leads() bool { return v.leader != nil && v.leader.ID == v.Self }

// replicas returns the nodes other than the master that have an address for clients. If
// alive is set, it returns only nodes that answer.
func (v *clusterView) replicas(alive bool) []*partition.TopologyNode {
	var out []*partition.TopologyNode
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n != v.master && n.Addressed() && (n.Alive || !alive) {
			out = append(out, n)
		}
	}
	return out
}

// voters returns how many nodes have a vote, and how many of them answer.
func (v *clusterView) voters() (all, alive int) {
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Voter {
			all++
			if n.Alive || n.ID == v.Self {
				alive++
			}
		}
	}
	return all, alive
}

// quorum returns how many voters must agree to elect a leader.
func (v *clusterView) quorum() int {
	all, _ := v.voters()
	return all/2 + 1
}

// electing bounds the time of an election. An election takes one or two seconds, and is
// repeated if it fails.
const electing = 10 * time.Second

// standIn makes this node the master in the view while a new leader is being elected, or
// while the new leader has no address yet. The last leader does not answer, but this
// node does: by its failure policy, and later by forwarding. Without standIn, clients
// that read the topology now would dial a dead node until they read the topology again.
// If there is no majority, or if no election will end this state (as on a removed node),
// the view keeps the last leader, because clients may still reach it.
func (v *clusterView) standIn() {
	if v.master == nil || v.self == nil || !v.self.Addressed() {
		return
	}
	_, alive := v.voters()
	if v.leader == nil && alive >= v.quorum() && v.lost < v.electing || !v.master.Addressed() {
		v.master = v.self
	}
}

// hexID converts a node's id to the form that clients of Redis expect: 40 hex digits.
func hexID(id string) string {
	sum := sha1.Sum([]byte(id))
	return hex.EncodeToString(sum[:])
}

// replicationID returns an id of a leader's term, as Redis's master_replid is the id of a
// master's history. It is the same on every node.
func (v *clusterView) replicationID() string {
	id := ""
	if v.master != nil {
		id = v.master.ID
	}
	return hexID(fmt.Sprintf("%s in term %d", id, v.Term))
}

// leaderAddr returns the address at which clients of Redis Cluster reach the leader of
// partition i. ok is false if no other node is known to lead, or it has no address.
func (s *Server) leaderAddr(i uint16) (addr string, ok bool) {
	v := s.view(i)
	if v.leader == nil || v.leads() || !v.leader.Addressed() {
		return "", false
	}
	a := v.leader.ForCluster()
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)), true
}

// masterNames holds the names for which clients have asked SENTINEL. When there is a new
// leader, each name gets an announcement, because clients look for their name in it.
type masterNames struct {
	mu    sync.Mutex
	names []string // guarded by mu
}

// masterNamesKept bounds the number of names. A deployment usually has one.
const masterNamesKept = 16

func (m *masterNames) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.names {
		if n == name {
			return
		}
	}
	if len(m.names) < masterNamesKept {
		m.names = append(m.names, strings.Clone(name))
	}
}

func (m *masterNames) each(fn func(name string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.names {
		fn(n)
	}
}

// switchMaster is the channel on which Sentinel announces a new master.
const switchMaster = "+switch-master"

// announceMaster publishes a new leader to the subscribers of +switch-master. old may be
// the zero value.
func (s *Server) announceMaster(old, leader partition.TopologyNode) {
	if !leader.Addressed() {
		return
	}
	if !old.Addressed() {
		old.Host = "0.0.0.0"
	}
	s.masters.each(func(name string) {
		s.pubsub.PublishOwn(pubsub.Channels, switchMaster, fmt.Appendf(nil, "%s %s %d %s %d", name, old.Host, old.Port, leader.Host, leader.Port))
	})
}

// redisMode returns "cluster" for connections that follow MOVED, else "standalone".
func redisMode(moves bool) string {
	if moves {
		return "cluster"
	}
	return "standalone"
}
