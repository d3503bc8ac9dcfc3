package server

import (
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/scripts"
)

// aside is a line without a client, for the commands that scripts call. Its lane takes the
// replies of these commands.
type aside struct{ *line }

// newAside implements scripts.Config.Aside.
func (s *Server) newAside() scripts.Aside {
	a := aside{s.newLine()}
	a.inExec = true
	return a
}

// The methods of scripts.Aside.

func (a aside) Host() command.Host   { return &a.conn }
func (a aside) Writer() *resp.Writer { return a.w }
func (a aside) Speak(resp3 bool)     { a.resp3 = resp3 }
func (a aside) Database() uint8      { return a.db }
func (a aside) Close()               { a.lane.close() }

func (a aside) Begin(now int64, db uint8, addr string) {
	a.lane.now, a.addr = now, addr
	a.enterDatabase(db)
}

func (a aside) Count(call *command.Call, failed bool) {
	n, i := a.lane.counters, call.Spec.Index
	n.calls[i].Add(1)
	n.commands.Add(1)
	if failed {
		n.failed[i].Add(1)
	}
	if call.Passed|call.Denied != 0 {
		n.passed[i].Add(uint64(call.Passed))
		n.denied[i].Add(uint64(call.Denied))
	}
}
