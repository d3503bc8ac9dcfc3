// Package partition says who decides for a range of hash slots. It has what a server
// needs for that: this node's role, the topology, and the errors and policies for when no
// node decides.
package partition
