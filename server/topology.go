package server

import (
	"net"
	"strconv"
)

// leaderAddr returns where the leader's clients connect, if one is known.
func (s *Server) leaderAddr() (addr string, ok bool) {
	t := s.repl.Topology()
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.Leader && n.ID != t.Self {
			return net.JoinHostPort(n.Host, strconv.Itoa(n.Port)), true
		}
	}
	return "", false
}
