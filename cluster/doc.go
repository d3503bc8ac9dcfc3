// Package cluster makes a process's engine a node of a replicated limiter. It runs the
// engine's replica in a Raft group. It tells the server what this node may do, and which
// replies may be sent.
//
// The types:
//
//   - Node is this process's part in the cluster: what it shares between groups.
//   - Group is the node's part in one Raft group. It implements partition.Replication.
//   - Front is what a group needs from the server.
//   - Client asks a running node from outside, for the command line.
//
// # Concurrency
//
// All methods of Node and Group except Start and Close are safe for concurrent use. Methods that the
// server calls for each batch of commands take no lock.
package cluster
