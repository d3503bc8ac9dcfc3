// Package cluster makes the engine of a process one node of a replicated
// limiter. It puts the engine's replica under a Raft group. It tells the server
// what this node may do and which replies may leave.
//
// The types:
//   - Node is this process's part in the cluster. It implements
//     partition.Replication.
//   - Front is what a node asks of the server.
//   - Client asks a running node from outside, for the command line.
//
// # Concurrency
//
// All methods of Node but Start and Close may be called concurrently. Those
// that the server calls for a batch of commands take no lock.
package cluster
