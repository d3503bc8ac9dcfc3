// Package raftlog replicates batches of bytes between the nodes of a cluster,
// with hashicorp/raft.
//
// It serves a state machine that decides first and replicates effects. The
// leader changes its state in memory at once. The group's proposer cuts the
// changes into one log entry after another, each as soon as Raft has accepted
// the one before. The package knows bytes; what they mean is the Machine's.
//
// The types:
//   - Group is one node's part in one Raft group: New, Start, Close, Verify,
//     Transfer, membership, Status.
//   - Machine is the replicated state, with the calls that the group makes of
//     it.
//   - Caller sends control requests to a node, from within the cluster or
//     from a command line.
//   - Recover rewrites the membership after a majority is lost for good.
//
// Its rooms: peer is the port on which nodes reach each other. member says who
// belongs to a group. clock holds what a node knows of the cluster's clock. wal
// and stable are the files.
//
// # Concurrency
//
// All methods of Group and Caller may be called concurrently. The group calls
// its Machine under one mutex: Lead, Depose, Apply, Cut, Snapshot and Restore
// happen in one order. The machine must not call back.
//
// # Caveats
//
// Decisions that are not committed are lost when the leader crashes. A node
// whose log cannot be written stops taking part and calls Config.Fatal; it does
// not limp along. Goroutines that wait for a Raft future which never returns
// are left behind, a handful per shutdown at most.
package raftlog
