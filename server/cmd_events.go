package server

import (
	"errors"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

func (s *Server) eventCommands() []command.Spec {
	return []command.Spec{{
		Name: "rl.events", Arity: -1, Flags: command.Readonly | command.Local, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(N), N the number of events in the reply",
		Summary: "Returns the events of this node: denials, penalties, changes of policies, and changes of the leader.",
		Syntax:  "[SINCE id] [COUNT count]",
		Handler: s.tellEventsTo,
	}}
}

const (
	// eventsDefault is how many events RL.EVENTS replies without COUNT. eventsMost is the
	// largest COUNT. eventsBytes bounds the reply in bytes.
	eventsDefault = 100
	eventsMost    = 1000
	eventsBytes   = 256 << 10
)

// eventsArgs are the parsed options of RL.EVENTS.
type eventsArgs struct {
	since int64 // id of the last event that the client knows; -1 for none
	count int
}

func parseEvents(args [][]byte) (a eventsArgs, err error) {
	a = eventsArgs{-1, eventsDefault}
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return a, command.ErrSyntax
		}
		n, ok := resp.ParseInt(args[1])
		switch {
		case command.EqualFold(args[0], "since"):
			if !ok || n < 0 {
				return a, errors.New("ERR SINCE must be the id of an event")
			}
			a.since = n
		case command.EqualFold(args[0], "count"):
			if !ok || n < 1 {
				return a, errors.New("ERR COUNT must be at least 1")
			}
			a.count = int(min(n, eventsMost))
		default:
			return a, command.ErrSyntax
		}
	}
	return a, nil
}

// tellEventsTo handles RL.EVENTS.
func (s *Server) tellEventsTo(call *command.Call) {
	a, err := parseEvents(call.Args[1:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	s.policies.Set() // waits until the events of committed changes are posted
	s.events.Poll()
	from := a.since + 1
	if a.since < 0 {
		from = s.events.Newest(a.count)
	}
	lines, next, lost, _ := s.events.Read(nil, from, a.count, eventsBytes)
	out := command.NewPairs(call.W)
	out.Int("last", next-1)
	out.Int("lost", lost)
	w := out.List("events", len(lines))
	for i := range lines {
		w.Bulk(lines[i].JSON)
	}
	out.Flush()
}
