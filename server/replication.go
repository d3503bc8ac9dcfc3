package server

import (
	"context"
	"net"
	"strconv"
)

// Replication connects a server to the cluster node that it is part of. A
// server without one decides everything itself. Methods are called by any
// goroutine and, except for DialLeader, must not block.
type Replication interface {
	// Role is what this node may do now; it is read once per batch.
	Role() Role
	// Ticket is the commit that covers everything decided by now, for
	// Server.Release.
	Ticket() uint64
	// Await asks for that commit soon, since a reply waits for it. It is
	// called at most once a batch.
	Await()
	// Durable tells whether replies wait for their commit unless a call says
	// ASYNC.
	Durable() bool
	// DialLeader opens a stream to the leader, on which its server reads
	// commands as from a client of its own that has authenticated. It fails
	// with an error when no leader is known, or it is this node.
	DialLeader(ctx context.Context) (net.Conn, error)
	// Topology is what this node knows of the cluster.
	Topology() Topology
	// AwaitReplicas waits until n other nodes have everything decided by now,
	// or ctx is done, and returns how many have.
	AwaitReplicas(ctx context.Context, n int) int
}

// Role is what a node of a cluster may do.
type Role uint32

// The roles. Only Leading and Holding decide.
const (
	// Starting: the node has not replayed its log yet; it answers errors.
	Starting Role = iota
	// Leading: decides; replies leave at once unless they are durable.
	Leading
	// Holding: decides, but its followers are behind: every reply waits for
	// its commit.
	Holding
	// Stalled: the leader, but its followers are so far behind that the
	// failure policy answers.
	Stalled
	// Following: another node decides.
	Following
	// Orphaned: no leader is known.
	Orphaned
	// Handover: no leader, but the last one has said that another follows.
	Handover
)

// String returns the role in lower case.
func (r Role) String() string {
	names := []string{"starting", "leading", "holding", "stalled", "following", "orphaned", "handover"}
	if int(r) < len(names) {
		return names[r]
	}
	return "role " + strconv.Itoa(int(r))
}

// Topology is a view of a cluster.
type Topology struct {
	Self  string // node id
	Term  uint64
	Nodes []TopologyNode
}

// TopologyNode is one node of a cluster. Host and Port are where its clients
// connect.
type TopologyNode struct {
	ID     string
	Host   string
	Port   int
	Leader bool
	Voter  bool
	Alive  bool
	// LagEntries and LagMillis tell how far its log is behind the leader's.
	LagEntries uint64
	LagMillis  int64
}

// Redirect is how a client of a node that does not decide gets to the leader.
type Redirect uint8

const (
	// RedirectForward passes commands on to the leader and its replies back:
	// any client may talk to any node.
	RedirectForward Redirect = iota
	// RedirectMoved answers MOVED, for clients of Redis Cluster.
	RedirectMoved
)

// OnFailure is what answers while no leader does.
type OnFailure uint8

const (
	// FailClosed answers CLUSTERDOWN to what has certainly not been executed,
	// and UNCERTAIN to the rest.
	FailClosed OnFailure = iota
	// FailOpen answers every call of a limit as if the limit were full, flagged
	// as degraded; other commands get the answers of FailClosed.
	FailOpen
	// FailLocal decides limits on this node's share of them, flagged as
	// degraded: see localPolicy. Refunds, leases, counters and everything else
	// get the answers of FailClosed.
	FailLocal
)
