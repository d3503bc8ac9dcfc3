// Package peer is the port on which nodes reach each other. One listener serves all kinds
// of connections, Raft's and others, of all groups of a process.
//
// The types:
//
//   - Mux listens on the port, and passes each connection to the Listener of its kind and
//     group.
//   - Dialer opens connections to other nodes' muxes, also for a process that is not a
//     node. Purpose says what a connection is for.
//   - Secrets are shared by all nodes. In the handshake of each connection, both ends
//     prove that they know a secret (handshake.go), unless the connections use mutual
//     TLS.
//
// The number of connections is bounded in three ways: connections whose handshake is not
// complete, connections of one peer, and connections of one kind.
package peer
