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

// clusterView is a topology as commands show it: one shard with every slot, the leader as
// its master, the others as its replicas.
type clusterView struct {
	partition.Topology
	self   *partition.TopologyNode // nil while the node does not know its own address
	leader *partition.TopologyNode // nil while no leader is known
	// master is the leader, or the last one known. As in Redis, clients see the last one
	// until there is another.
	master *partition.TopologyNode
	// lost is for how long clients have seen no leader.
	lost     time.Duration
	electing time.Duration // how long an election may take
}

// view returns the present topology.
func (s *Server) view() *clusterView {
	v := &clusterView{Topology: s.Partition().Topology(), electing: s.electing}
	last := s.Partition().LastLeader()
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
	v.lost = s.Partition().Leaderless(v.leader != nil)
	return v
}

// leads reports whether this node is the leader.
func (v *clusterView) leads() bool { return v.leader != nil && v.leader.ID == v.Self }

// replicas returns the nodes other than the master that have an address for clients; with
// alive only those that answer.
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

// quorum returns how many voters elect a leader.
func (v *clusterView) quorum() int {
	all, _ := v.voters()
	return all/2 + 1
}

// electing bounds an election: it takes one or two seconds, and again if it fails.
const electing = 10 * time.Second

// standIn makes this node the master while a new leader is being elected, or has no
// address yet. This node answers, by its failure policy and then by forwarding, but the
// last leader does not. Without standIn, clients that read the topology now would dial a
// dead node until they read it again. Without a majority, or if no election ends this (as
// on a removed node), the last leader stays: clients may still reach it.
func (v *clusterView) standIn() {
	if v.master == nil || v.self == nil || !v.self.Addressed() {
		return
	}
	_, alive := v.voters()
	if v.leader == nil && alive >= v.quorum() && v.lost < v.electing || !v.master.Addressed() {
		v.master = v.self
	}
}

// hexID returns an id for a node's id in the form that clients of Redis expect: 40 hex
// digits.
func hexID(id string) string {
	sum := sha1.Sum([]byte(id))
	return hex.EncodeToString(sum[:])
}

// replicationID names a leader's term, as master_replid names a master's history. It is the
// same on every node.
func (v *clusterView) replicationID() string {
	id := ""
	if v.master != nil {
		id = v.master.ID
	}
	return hexID(fmt.Sprintf("%s in term %d", id, v.Term))
}

// leaderAddr returns where the leader's clients connect, if another node is known to lead
// and has an address.
func (s *Server) leaderAddr() (addr string, ok bool) {
	v := s.view()
	if v.leader == nil || v.leads() || !v.leader.Addressed() {
		return "", false
	}
	return net.JoinHostPort(v.leader.Host, strconv.Itoa(v.leader.Port)), true
}

// masterNames are the names that SENTINEL was asked for. Clients look for their name in the
// announcement of a new leader, so each name gets one.
type masterNames struct {
	mu    sync.Mutex
	names []string // guarded by mu
}

// masterNamesKept bounds the names; a deployment has one.
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
// empty.
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

// redisMode returns cluster if clients must find the leader themselves, else standalone.
func (s *Server) redisMode() string {
	if !s.Partition().Alone() && s.cfg.Redirect == RedirectMoved {
		return "cluster"
	}
	return "standalone"
}
