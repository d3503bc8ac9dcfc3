// Package raftlog replicates batches of bytes between the nodes of a cluster,
// with hashicorp/raft.
//
// It serves a state machine that decides first and replicates effects. The leader changes
// its state in memory at once. The group's proposer cuts the changes into log entries. It
// cuts each entry as soon as Raft has accepted the previous entry. The package handles
// bytes; only the Machine knows what they mean.
//
// The types:
//
//   - Group is one node's part in one Raft group: New, Start, Close, Verify, Transfer,
//     membership, Status.
//   - Machine is the replicated state, with the calls that the group makes.
//   - Caller sends control requests to a node, from the cluster or from a command line.
//   - Recover rewrites the membership after a majority is lost for good.
//
// Its rooms: peer is the port on which nodes reach each other. member says who belongs to
// a group. clock is what a node knows of the cluster's clock. wal, stable and disk are
// the files.
//
// # Concurrency
//
// All methods of Group and Caller may be called concurrently. The group calls
// its Machine under one mutex: Lead, Depose, Apply, Cut, Snapshot and Restore
// happen in one order. The machine must not call back.
//
// # Caveats
//
// Decisions that are not committed are lost when the leader crashes. A node that cannot
// write its log stops taking part and calls Config.Fatal. Goroutines that wait for a Raft
// future which never returns are left behind, at most a few per shutdown.
package raftlog
