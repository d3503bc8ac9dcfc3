package server

import (
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/decisions"
)

// # The decision log
//
// Commands about limits that clients of this node send are handed to Config.Decisions, with
// their replies. That happens in carefully, so that without a decision log nothing is spent
// on it. The node that forwards a command logs it.

// tellDecision hands over a command with its reply, if it is about limits.
func (c *conn) tellDecision(cmd *command.Spec, args [][]byte, reply []byte) {
	if cmd.Flags&command.Limit == 0 || c.relayed {
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
