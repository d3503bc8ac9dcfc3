// Package partition says who decides for a range of hash slots, and what a
// server needs to know of it: the role of this node, the topology, and the
// errors and policies for when nobody decides.
package partition
