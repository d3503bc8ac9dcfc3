// Package member says who belongs to a group of nodes, and how a node comes to belong to
// one.
//
// The types:
//
//   - Identity says whose data a directory holds: of which node, and of which cluster. It
//     decides which peers the node hears.
//   - Convener makes a node part of a cluster: it joins one, or founds one with others. Node
//     is what it needs from its node.
//   - Voter is a node of a cluster after a recovery: see Recover.
//
// A member is a node with its data. A node that has lost its data is another member: see
// ServerID. The founders of a cluster decide its founding in two votes. founding.go has
// the transitions, without input and output.
//
// All methods may be called concurrently.
package member
