package partition

import (
	"context"
	"net"
)

// Replication connects a partition to its node of a cluster. Methods are called by any
// goroutine and, except for DialLeader, must not block.
type Replication interface {
	// Role returns what this node may do now. It is read once per batch. A node whose
	// engine is sealed does not decide.
	Role() Role
	// Ticket returns the ticket of everything decided so far, for Partition.Release.
	Ticket() uint64
	// Await asks for the commit of that ticket soon, since a reply waits for it. It is
	// called at most once per batch.
	Await()
	// Durable reports whether replies wait for their commit unless a call has ASYNC.
	Durable() bool
	// DialLeader opens a stream to the leader, whose server reads commands from it as
	// from an authenticated client. It returns an error if no leader is known, or this
	// node leads.
	DialLeader(ctx context.Context) (net.Conn, error)
	// Topology returns what this node knows of the cluster.
	Topology() Topology
	// AwaitReplicas waits until n other nodes have everything decided so far, or ctx is
	// done. It returns how many have.
	AwaitReplicas(ctx context.Context, n int) int
}
