package partition

import (
	"context"
	"net"
)

// Replication connects a partition to its node of a cluster. Any goroutine may call the
// methods. Except for DialLeader and DialNode, they must not block.
type Replication interface {
	// Role returns what this node may do now. The server reads it once per batch. A node
	// whose engine is sealed does not decide.
	Role() Role
	// Term returns the term in which this node decides, or 0. It only rises, except for 0. A
	// node that decides in a term returns it before its role is Leading.
	Term() uint64
	// Ticket returns the ticket of everything decided so far, for Partition.Release.
	Ticket() uint64
	// Since returns the first ticket that may cover a decision made from now on.
	Since() uint64
	// Await asks the node to commit that ticket soon, because a reply waits for it. It is
	// called at most once per batch.
	Await()
	// Expect asks for the same at the usual time of commits.
	Expect()
	// Durable reports whether replies wait for their commit unless a call has ASYNC.
	Durable() bool
	// DialLeader opens a stream to the leader. The leader's server treats the stream as an
	// authenticated client. It returns an error if no leader is known, or if this node is
	// leader.
	DialLeader(ctx context.Context) (net.Conn, error)
	// DialNode opens a stream to any other node of the cluster, by its id. The node treats
	// the stream as that of a leader's client.
	DialNode(ctx context.Context, id string) (net.Conn, error)
	// Topology returns what this node knows of the cluster.
	Topology() Topology
	// AwaitReplicas waits until n other nodes have everything decided so far, or until ctx
	// is done. It returns how many nodes have it.
	AwaitReplicas(ctx context.Context, n int) int
}
