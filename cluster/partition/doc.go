// Package partition says which node decides for a range of hash slots. It contains what a
// server needs for that: this node's role, the topology, and the errors and failure
// policies for the time when no node decides.
package partition
