package partition

import (
	"context"
	"net"
)

// Replication connects a partition to the node of a cluster that it is on. Methods are called by any
// goroutine and, except for DialLeader, must not block.
type Replication interface {
	// Role is what this node may do now; it is read once per batch. A node
	// whose engine is sealed does not decide.
	Role() Role
	// Ticket is the commit that covers everything decided by now, for
	// Partition.Release.
	Ticket() uint64
	// Await asks for that commit soon, since a reply waits for it. It is
	// called at most once a batch.
	Await()
	// Durable reports whether replies wait for their commit unless a call says
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
