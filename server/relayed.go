package server

import "net"

// ServeForwarded accepts streams of other nodes, on which they send commands of
// their clients, until Shutdown, and then returns ErrClosed. Whoever can connect
// to ln is trusted: the streams need no password, do not count against
// maxclients, and stay open without traffic.
//
// A command that comes on such a stream is not forwarded again: a node that is
// not the leader answers TRYAGAIN.
func (s *Server) ServeForwarded(ln net.Listener) error {
	return s.serve(ln, func() error {
		return s.acceptEach(ln, func(nc net.Conn) {
			s.clients.Add(1)
			s.streamsWG.Go(func() { s.serveStream(&stream{nc: nc, conn: conn{relayed: true}}) })
		})
	})
}

// Demoted closes every client's connection, at the end of its batch and after
// the replies that it waits for, so that pools connect again and find the
// leader. It is called when this node has lost its leadership, after Release
// has failed the tickets that were not committed. Streams of other nodes stay:
// what comes on them is refused.
func (s *Server) Demoted() {
	for _, c := range s.connections() {
		if !c.relayed {
			c.post(func() {
				c.closing = true
				if c.cancel != nil {
					c.cancel()
				}
			})
		}
	}
}
