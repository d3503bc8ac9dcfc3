// Package member says which nodes belong to a group, and how a node becomes a member.
//
// The types:
//
//   - Identity says which node's and which cluster's data a directory holds. So it also
//     decides with which peers the node talks.
//   - Convener makes a node part of a cluster: it joins one, or founds one with other
//     nodes. Node is what a Convener needs from its node.
//   - Voter is one of the nodes that make up the cluster after a recovery: see Recover.
//
// A member is a node together with its data. A node that has lost its data is a
// different member: see ServerID. Founders found a cluster together, in two votes:
// founding.go has the steps, without input and output.
//
// All methods are safe for concurrent use.
package member
