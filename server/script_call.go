package server

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
)

// Call implements script.Caller: redis.call.
func (r *scriptRun) Call(args [][]byte, resp3 bool) ([]byte, error) {
	s := r.srv
	cmd := r.find(args)
	switch {
	case cmd == nil:
		return nil, script.Refusal("Unknown Redis command called from script")
	case !cmd.Accepts(len(args)):
		return nil, script.Refusal("Wrong number of args calling Redis command from script")
	case cmd.Flags&(command.NoScript|command.Peers) != 0:
		return nil, script.Refusal("This Redis command is not allowed from script")
	case !r.admin && cmd.ForAdmin(args):
		return nil, script.Refusal("ACL failure in script: " + noPermission(access.UserDefault, cmd))
	case r.readonly && (cmd.Flags&command.Write != 0 || cmd == s.publishSpec || cmd == s.spublishSpec):
		return nil, script.Refusal(errReadOnlyWrite)
	}
	if r.grip == gripCounters {
		if !r.counts(cmd, args) {
			return nil, engine.ErrNotLocal
		}
	} else if cmd.Flags&command.Leader != 0 {
		if err := r.take(cmd, args); err != nil {
			return nil, err
		}
	} else if cmd.AboutTable() && r.locks() {
		// INFO and its like lock the table themselves.
		return nil, script.Refusal("This Redis command is not allowed after commands about keys from script")
	}
	w := r.aside.w
	w.B, w.RESP3, r.aside.resp3 = w.B[:0], resp3, resp3
	call := &r.call
	call.Spec, call.Args, call.Outcome = cmd, args, command.Outcome{}
	switch {
	case cmd == s.publishSpec:
		if err := r.publish(pubsub.Channels, args); err != nil {
			return nil, err
		}
	case cmd == s.spublishSpec:
		if err := r.publish(pubsub.Shards, args); err != nil {
			return nil, err
		}
	case r.grip == gripCounters && cmd.Sets != nil:
		if err := r.step.Set(args[1], cmd.Sets(args), func() { cmd.Handler(call) }); err != nil {
			return nil, err
		}
	default:
		cmd.Handler(call)
	}
	if w.Refused {
		w.Refused = false
		if r.bounds.time == loopTime {
			return nil, errScriptSlow
		}
		return nil, memory.ErrFull
	}
	if call.Moves {
		return nil, errScriptSlow
	}
	if cmd.Flags&command.Select != 0 {
		r.sess.Use(r.aside.db)
		call.Sess.Use(r.aside.db)
	}
	if r.calls++; r.calls > r.shown {
		if r.shown = r.calls; s.pubsub.Watched() {
			r.aside.show(cmd, args)
		}
	}
	r.count(cmd, call, len(w.B) > 0 && w.B[0] == '-')
	if err := call.Err; err != nil {
		switch {
		case errors.Is(err, engine.ErrNotIsolated):
			r.need(cmd, args)
			return nil, err
		case errors.Is(err, engine.ErrSealed), errors.Is(err, engine.ErrUndoFull):
			return nil, err
		case errors.Is(err, engine.ErrFull) && (call.Sess != r.sess || r.grip == gripCounters): // of copies, not of the table
			return nil, engine.ErrUndoFull
		}
	}
	if r.grip == gripCopies {
		if err := r.copied(); err != nil {
			return nil, err
		}
	}
	if cmd.Flags&command.Fast == 0 {
		if err := r.look(); err != nil {
			return nil, err
		}
	}
	if bytes.HasPrefix(w.B, []byte("-UNCERTAIN ")) { // a flush that is too large to be taken back
		return nil, engine.ErrUndoFull
	}
	return w.B, nil
}

// find is the table's Find, with a memory of some names.
func (r *scriptRun) find(args [][]byte) *command.Spec {
	name := args[0]
	if len(name) == 0 {
		return nil
	}
	at := &r.names[(len(name)*7+int(name[0])+int(name[len(name)-1])*3)%len(r.names)]
	if at.cmd != nil && at.name == string(name) {
		return at.cmd
	}
	cmd := r.srv.table.Find(args)
	if cmd != nil && cmd.Alone() {
		at.name, at.cmd = string(name), cmd
	}
	return cmd
}

// counts reports whether a command may run in a step about counters: it is about
// such, of the declared keys, or about none.
func (r *scriptRun) counts(cmd *command.Spec, args [][]byte) bool {
	if cmd.Flags&command.Leader == 0 {
		return cmd.Flags&command.Select == 0
	}
	r.at = cmd.Keys.Positions(args, r.at[:0])
	for _, i := range r.at {
		if !slices.ContainsFunc(r.keys, func(k []byte) bool { return bytes.Equal(k, args[i]) }) {
			return false
		}
	}
	return cmd.Flags&command.Counter != 0
}

// publish replies who would get a message, and keeps it for the script's end if
// there is anybody.
func (r *scriptRun) publish(k pubsub.Kind, args [][]byte) error {
	channel, size := string(args[1]), len(args[1])+len(args[2])+pubsub.PayloadSize
	msg := r.srv.pubsub.Refusal(channel)
	switch {
	case msg != "":
		r.aside.error(msg)
		return nil
	case len(r.messages) == maxMessages:
		r.aside.error("ERR at most 1024 messages from one script")
		return nil
	}
	receivers := r.srv.pubsub.Receivers(k, channel)
	switch {
	case receivers == 0:
	case r.posted > 0 && r.posted+size > r.srv.cfg.MaxBulk:
		r.aside.error(errMessages)
		return nil
	case r.bounds.time == loopTime && r.posted+size > loopMessages:
		return errScriptSlow
	case !r.spent.Take(size):
		return memory.ErrFull
	default:
		r.posted += size
		r.messages = append(r.messages, message{k, channel, append([]byte{}, args[2]...)})
	}
	r.aside.w.Int(int64(receivers))
	return nil
}

const errMessages = "ERR the messages of one script are longer together than proto-max-bulk-len"

// count counts a command that the script has called.
func (r *scriptRun) count(cmd *command.Spec, call *command.Call, failed bool) {
	n := r.aside.lane.counters
	n.calls[cmd.Index].Add(1)
	n.commands.Add(1)
	if failed {
		n.failed[cmd.Index].Add(1)
	}
	if call.Passed|call.Denied != 0 {
		n.passed[cmd.Index].Add(uint64(call.Passed))
		n.denied[cmd.Index].Add(uint64(call.Denied))
	}
	if cmd.Flags&command.Leader != 0 {
		r.waits(call.Sync)
	}
}

// waits has the reply of the script wait as the strictest of its commands about
// keys asks: as SYNC if one of them does, and as ASYNC if all do.
func (r *scriptRun) waits(mode command.SyncMode) {
	if !r.asked {
		r.asked, r.outcome.Sync = true, mode
		return
	}
	r.outcome.Sync = r.outcome.Sync.Strictest(mode)
}

// Known implements script.Caller.
func (r *scriptRun) Known(args [][]byte) bool { return r.srv.table.Find(args) != nil }

// Log implements script.Caller.
func (r *scriptRun) Log(level int, line string) {
	r.srv.log.Debug("script", "level", level, "line", line, slog.String("sha1", r.script.SHA))
}
