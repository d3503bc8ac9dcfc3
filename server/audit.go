package server

import (
	"strings"

	"github.com/headgate-io/headgate/server/command"
)

// # Audit
//
// What changes more than counters leaves a line in Config.Audit, on the node that
// carries it out: who, whence, and what. Of policies and overrides the Book writes it,
// with their versions, when they are committed; of other guarded commands it is
// written here, when they have run: FLUSHALL, CONFIG SET, CLIENT KILL. Values that
// nobody is to read are left out as in MONITOR.

const (
	// auditArgs and auditBytes are how much of a command a line has.
	auditArgs  = 16
	auditBytes = 256
)

// audited makes guarded commands leave their line.
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
			args, who := auditText(call), call.Host.(*conn).client() // which the handler may be the end of
			start := len(call.W.B)
			run(call)
			if !call.Moves {
				failed := len(call.W.B) > start && call.W.B[start] == '-'
				s.audit(who, args, failed)
			}
		}
	}
}

// limiterGroup is that of commands whose changes the Book tells of.
const limiterGroup = "limiter"

// auditText is a command as it may be shown.
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
