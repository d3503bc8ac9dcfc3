package server

import (
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/decisions"
)

// # The decision log
//
// What clients of this node are answered about limits is handed to Config.Decisions,
// with their commands, on the way that commands take that are not plain (carefully):
// while there is no decision log, nothing asks for it. What another node has forwarded
// that node tells.

// tellDecision hands a command over with its reply, if it is one about limits.
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
