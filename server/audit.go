package server

import (
	"strings"

	"github.com/headgate-io/headgate/server/command"
)

// # Audit
//
// A command that changes more than counters is logged to Config.Audit, on the node that
// executes it: who, from where, and what. The Book of package policies logs the changes of
// policies and overrides, with their versions, when they are committed. The code below logs
// other guarded commands after they have run: FLUSHALL, CONFIG SET, CLIENT KILL. Secret
// values are left out, as in MONITOR.

const (
	// auditArgs and auditBytes bound how much of a command a line shows.
	auditArgs  = 16
	auditBytes = 256
)

// audited makes guarded commands write a line when they have run.
func (s *Server) audited(lists [][]command.Spec) [][]command.Spec {
	for _, list := range lists {
		s.auditEach(list)
	}
	return lists
}

func (s *Server) auditEach(list []command.Spec) {
	for i := range list {
		cmd := &list[i]
		s.auditEach(cmd.Subs)
		if booked := cmd.Flags&command.Guarded != 0 && cmd.Group == limiterGroup; booked || cmd.Flags&command.Guarded == 0 && cmd.Guards == nil {
			continue
		}
		run := cmd.Handler
		cmd.Handler = func(call *command.Call) {
			if !cmd.ForAdmin(call.Args) {
				run(call)
				return
			}
			args, who := auditText(call), call.Host.(*conn).client() // before the handler, because it may end the connection
			start := len(call.W.B)
			run(call)
			if !call.Moves {
				failed := len(call.W.B) > start && call.W.B[start] == '-'
				s.audit(who, args, failed)
			}
		}
	}
}

// limiterGroup is the group of commands whose changes the Book logs.
const limiterGroup = "limiter"

// auditText returns a command without its secrets.
func auditText(call *command.Call) string {
	var words []string
	for i, a := range call.Spec.Public(call.Args) {
		if i == auditArgs {
			words = append(words, "…")
			break
		}
		words = append(words, string(command.Clip(a, auditBytes)))
	}
	return strings.Join(words, " ")
}

// audit writes the line of a command.
func (s *Server) audit(who Client, text string, failed bool) {
	s.cfg.Audit.Info("command", "user", who.User, "name", who.Name, "from", who.Addr, "command", text, "failed", failed)
}
