package server

import (
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/decisions"
)

// # The decision log
//
// Commands about limits from clients of this node are passed to Config.Decisions, together
// with their replies. This happens in carefully, so it costs nothing if there is no
// decision log. If a command is forwarded, the forwarding node logs it.

// tellDecision logs a command with its reply, if the command is about limits.
func (c *conn) tellDecision(cmd *command.Spec, args [][]byte, reply []byte) {
	if cmd.Flags&command.Limit == 0 || cmd.Flags&command.Guarded != 0 || c.relayed {
		return
	}
	from := decisions.Origin{Front: decisions.Redis}
	if ln, ok := c.drv.(*line); ok {
		from = ln.origin
	}
	c.srv.cfg.Decisions.Note(cmd, args, reply, from)
}

// DecisionLog returns the counts of the decision log.
func (s *Server) DecisionLog() decisions.Stats { return s.cfg.Decisions.Stats() }
