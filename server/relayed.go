package server

import (
	"net"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/command"
)

// relayedIdle is how long a stream of another node stays open without traffic and without a
// running command. The other node closes an idle stream after half of this time. So only
// streams of a node that has disappeared reach this limit.
const relayedIdle = 2 * partition.StreamIdle

// ServeForwarded accepts streams of other nodes until Shutdown, and then returns
// ErrClosed. On these streams, nodes send commands of their clients. ln must admit only
// nodes, and bound the number of streams, because streams need no password and do not
// count against maxclients. The buffers of streams have the same bounds as the buffers
// of clients. A stream is closed when it was idle for relayedIdle; the timeout of
// clients does not apply.
//
// A stream is for one partition, whose index the connection's method Group returns. Without
// that method it is for the first partition.
//
// A stream accepts only commands that nodes forward (command.Forwarded). Such a command is
// not forwarded again: a node that is not the leader replies TRYAGAIN.
func (s *Server) ServeForwarded(ln net.Listener) error {
	return s.serve(ln, func() error {
		return s.acceptEach(ln, func(nc net.Conn) {
			group := 0
			if of, ok := nc.(interface{ Group() int }); ok {
				group = of.Group()
			}
			if group >= len(s.parts) { // of a cluster with more groups than this node knows
				nc.Close()
				return
			}
			at := place{home: uint16(group), only: true}
			s.streamsWG.Go(func() { s.serveStream(&stream{nc: nc, conn: conn{relayed: true, place: at}}) })
		})
	})
}

// relayedCommands returns RL.CLIENT. With it, another node names the client whose commands
// follow.
func relayedCommands() []command.Spec {
	return []command.Spec{{
		Name: "rl.client", Arity: 4, Flags: command.Fast | command.NoTable | command.NoScript | command.NoMulti | command.SkipSlowlog |
			command.Admin | command.Peers | command.Forwarded | command.OwnConn,
		Categories: command.CatConnection, Group: "connection", Complexity: "O(1)",
		Summary: "Between nodes: names the client of the following commands on the stream. Ends a run of refusals.",
		Syntax:  "user name address", Handler: onConn(cmdClient),
	}}
}

func cmdClient(c *conn, args [][]byte) {
	if !c.relayed {
		c.error("NOPERM RL.CLIENT is for the nodes of a cluster")
		return
	}
	user, name, addr := string(args[1]), string(args[2]), string(args[3])
	c.mode &^= modeRefusing
	c.become(user == access.UserAdmin)
	c.behalf = Client{User: user, Name: name, Addr: addr}
	if user == "" {
		c.behalf = Client{}
	}
	c.w.OK()
}
