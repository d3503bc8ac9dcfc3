// Package partition says who decides for a range of hash slots. It holds what a
// server needs to know of that: this node's role, the topology, and the errors
// and policies for when nobody decides.
package partition
