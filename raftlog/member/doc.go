// Package member says who belongs to a group of nodes, and how a node comes to
// belong to one.
//
// The types:
//   - Identity is whose data a directory holds: which node's, and of which
//     cluster. It decides whom the node hears.
//   - Convener makes a node part of a cluster: it joins one, or founds one with
//     others. Node is what it needs of the node for that.
//   - Voter is a node of a cluster after a recovery, see Recover.
//
// A member is a node with its data: a node that has lost its data is another
// member, see ServerID. A founding is decided by its founders in two votes;
// founding.go has its transitions, which are free of input and output.
//
// All methods may be called concurrently.
package member
