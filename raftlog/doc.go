// Package raftlog replicates batches of bytes between the nodes of a cluster, with
// hashicorp/raft.
//
// The package is for a state machine that decides first and replicates the effects. The
// leader changes its state in memory at once. A goroutine of the group, the proposer,
// collects all changes since the last batch; this is called a cut. It makes log entries
// of the batch, and makes the next cut when Raft has accepted these entries. The package
// handles bytes. Only the Machine knows what the bytes mean.
//
// The types:
//
//   - Group is one node's part in one Raft group: New, Start, Close, Verify, Transfer,
//     membership, Status.
//   - Machine is the replicated state, with the calls that the group makes.
//   - Caller sends control requests to a node, from the cluster or from a command line.
//   - Recover rewrites the membership after a majority is lost for good.
//
// The packages below raftlog: peer is the port on which nodes reach each other. member
// says which nodes belong to a group. clock finds the time from which a new leader
// continues the cluster's clock. wal, stable and disk write the files.
//
// # Concurrency
//
// All methods of Group and Caller are safe for concurrent use. The group calls its Machine
// under one mutex, so Lead, Depose, Apply, Cut, Snapshot and Restore happen one after the
// other. The machine must not call the group.
//
// # Caveats
//
// Decisions that are not committed are lost when the leader crashes. A node that cannot
// write its log stops taking part and calls Config.Fatal. A Raft future may never
// return. So goroutines that wait for such a future may remain after a shutdown, at most
// a few each time.
package raftlog
