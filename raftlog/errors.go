package raftlog

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
)

// These errors are returned by calls on a Group.
var (
	// ErrNotLeader is returned if a call needs the leader and this node is not leader.
	// Nothing was executed.
	ErrNotLeader = errors.New("not the leader")

	// ErrNoAnswer is returned by a Caller if the other end of a connection does not answer
	// in the way of a node.
	ErrNoAnswer = errors.New("no answer")

	// ErrClosed is returned once Close has begun.
	ErrClosed = errors.New("group is closed")

	// ErrUnknownMember is returned when a node id is not part of the cluster.
	ErrUnknownMember = errors.New("unknown member")

	// ErrOtherCluster is returned to a node with data of another cluster. Wipe the data
	// before the node can join.
	ErrOtherCluster = member.ErrOtherCluster

	// ErrQuorum is returned by Remove if too few of the remaining voters answer.
	ErrQuorum = errors.New("the removal would lose the majority")

	// ErrSilent is returned by a join if the node to be added does not answer at its
	// address.
	ErrSilent = errors.New("the node does not answer")

	// ErrUnknownOp is returned by a Caller if the node does not know the operation, because
	// the node is of another version.
	ErrUnknownOp = errors.New("unknown operation")

	// ErrNoTarget is returned by Transfer when no other voter is reachable and
	// caught up.
	ErrNoTarget = errors.New("no reachable voter to transfer leadership to")
)

// These errors are returned while a data directory is opened, or stop a running
// node through Config.Fatal.
var (
	// ErrVersion is returned if a log entry or a snapshot has a version that this build
	// does not know.
	ErrVersion = errors.New("unknown format version")

	// ErrLevel is returned if the cluster's feature level is above the levels that this
	// build supports. It is also returned to a node of such a build that wants to join.
	ErrLevel = errors.New("feature level of the cluster is too high")

	// ErrCorrupt is returned when a log entry or a snapshot header cannot be
	// decoded.
	ErrCorrupt = disk.ErrCorrupt

	// ErrGap is returned when the log does not continue the newest readable
	// snapshot.
	ErrGap = disk.ErrGap

	// ErrLocked is returned when another process holds the data directory.
	ErrLocked = disk.ErrLocked

	// ErrOtherNode is returned when a data directory belongs to a node of
	// another id.
	ErrOtherNode = member.ErrOtherNode

	// ErrSetBack is reported to Config.Fatal if a peer remembers that this node had more
	// data than it has now. Either the data directory is an older copy, or the disk has
	// lost acknowledged data.
	ErrSetBack = errors.New("data directory is older than what this node has acknowledged")

	// ErrDataGone is reported to Config.Fatal if the data directory was deleted or replaced
	// while the node runs. The node's writes would be lost.
	ErrDataGone = errors.New("the data directory has been deleted or replaced while this node runs")

	// ErrDisk is reported to Config.Fatal when the log cannot be written.
	ErrDisk = disk.ErrDisk

	// ErrDiskFull is returned to a node that wants to join a single node whose disk is
	// full. That single node keeps its decisions in memory only.
	ErrDiskFull = errors.New("the disk of the only member is full: make room there first")

	// ErrStalled is reported to Config.Fatal if a log write hangs. It is also reported if
	// a leader's oldest batch stays uncommitted and leadership cannot be handed over.
	ErrStalled = errors.New("replication is stalled")

	// ErrInvariant is reported to Config.Fatal when the replicated log
	// contradicts what Raft guarantees.
	ErrInvariant = errors.New("replication invariant violated")
)

// GroupsError stops a node that has another number of groups than its cluster.
type GroupsError = member.GroupsError

// formatError returns the error for data of another version than oldest to newest, which
// this build knows.
func formatError(what string, got, oldest, newest byte) error {
	advice := "upgrade this node"
	if got < oldest {
		advice = "it is from before the first release; wipe this node's data and join again"
	}
	return fmt.Errorf("%w: %s has version %d, this build knows %d to %d; %s", ErrVersion, what, got, oldest, newest, advice)
}
