package server

import (
	"net"

	"github.com/headgate-io/headgate/cluster/partition"
)

// relayedIdle is how long a stream of another node stays without traffic, and
// without a command under way: twice what the other node keeps it idle. A node
// that is gone without a word leaves its streams behind.
const relayedIdle = 2 * partition.StreamIdle

// ServeForwarded accepts streams of other nodes, on which they send commands of
// their clients, until Shutdown, and then returns ErrClosed. ln must let in
// nobody else, and bound their number: the streams need no password and do not
// count against maxclients. Their buffers are bounded as a client's, and they
// are closed after relayedIdle whatever the timeout of clients is.
//
// A stream takes what nodes forward and nothing else (command.Forwarded). A command
// that comes on it is not forwarded again: a node that is not the leader answers
// TRYAGAIN.
func (s *Server) ServeForwarded(ln net.Listener) error {
	return s.serve(ln, func() error {
		return s.acceptEach(ln, func(nc net.Conn) {
			s.streamsWG.Go(func() { s.serveStream(&stream{nc: nc, conn: conn{relayed: true}}) })
		})
	})
}
