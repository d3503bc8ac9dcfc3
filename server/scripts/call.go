package scripts

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
func (r *run) Call(args [][]byte, resp3 bool) ([]byte, error) {
	cmd := r.find(args)
	if err := r.refusal(cmd, args); err != nil {
		return nil, err
	}
	if err := r.reach(cmd, args); err != nil {
		return nil, err
	}
	w, call := r.w, &r.call
	w.B, w.RESP3 = w.B[:0], resp3
	r.aside.Speak(resp3)
	call.Spec, call.Args, call.Outcome = cmd, args, command.Outcome{}
	if err := r.perform(cmd, args); err != nil {
		return nil, err
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
	r.note(cmd, args)
	if err := r.failure(cmd, args); err != nil {
		return nil, err
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
	if bytes.HasPrefix(w.B, []byte("-UNCERTAIN ")) { // a flush that is too large to undo
		return nil, engine.ErrUndoFull
	}
	return w.B, nil
}

// refusal returns the error for a command that the script may not call; cmd is nil if there
// is no such command.
func (r *run) refusal(cmd *command.Spec, args [][]byte) error {
	s := r.of
	switch {
	case cmd == nil:
		return script.Refusal("Unknown Redis command called from script")
	case !cmd.Accepts(len(args)):
		return script.Refusal("Wrong number of args calling Redis command from script")
	case cmd.Flags&(command.NoScript|command.Peers) != 0:
		return script.Refusal("This Redis command is not allowed from script")
	case !r.admin && cmd.ForAdmin(args):
		return script.Refusal("ACL failure in script: " + access.NoPermission(access.UserDefault, cmd.Full))
	case r.readonly && (cmd.Flags&command.Write != 0 || cmd == s.publish || cmd == s.spublish):
		return script.Refusal(errReadOnlyWrite)
	case r.tx == nil && s.cfg.Strays != nil && s.cfg.Strays(r.keys, cmd, args):
		return script.Refusal(errStrays)
	}
	return nil
}

// reach makes sure that the script may touch the command's keys now.
func (r *run) reach(cmd *command.Spec, args [][]byte) error {
	switch {
	case r.grip == gripCounters:
		if !r.counts(cmd, args) {
			return engine.ErrNotLocal
		}
	case cmd.Flags&command.Leader != 0:
		return r.take(cmd, args)
	case cmd.AboutTable() && r.locks():
		// INFO and similar commands lock the table themselves.
		return script.Refusal("This Redis command is not allowed after commands about keys from script")
	}
	return nil
}

// perform runs the command, whose reply goes to w. A message is published when the script
// ends.
func (r *run) perform(cmd *command.Spec, args [][]byte) error {
	switch {
	case cmd == r.of.publish:
		return r.publish(pubsub.Channels, args)
	case cmd == r.of.spublish:
		return r.publish(pubsub.Shards, args)
	case r.grip == gripCounters && cmd.Sets != nil:
		return r.step.Set(args[1], cmd.Sets(args), func() { cmd.Handler(&r.call) })
	}
	cmd.Handler(&r.call)
	return nil
}

// note notes what a command that has run means for the commands after it, for MONITOR, for
// the statistics, and for the script's reply.
func (r *run) note(cmd *command.Spec, args [][]byte) {
	call := &r.call
	if cmd.Flags&command.Select != 0 {
		db := r.aside.Database()
		r.sess.Use(db)
		call.Sess.Use(db)
	}
	if r.calls++; r.calls > r.shown {
		if r.shown = r.calls; r.of.cfg.Hub.Watched() {
			r.of.cfg.Hub.Feed(r.addr, r.aside.Database(), cmd, args)
		}
	}
	r.aside.Count(call, len(r.w.B) > 0 && r.w.B[0] == '-')
	if cmd.Flags&command.Leader != 0 {
		r.waits(call.Sync)
	}
}

// failure returns the error of a command that must end this attempt of the script; other
// errors are replies to the script.
func (r *run) failure(cmd *command.Spec, args [][]byte) error {
	switch err := r.call.Err; {
	case err == nil:
	case errors.Is(err, engine.ErrNotIsolated):
		r.need(cmd, args)
		return err
	case errors.Is(err, engine.ErrSealed), errors.Is(err, engine.ErrUndoFull):
		return err
	case errors.Is(err, engine.ErrFull) && (r.call.Sess != r.sess || r.grip == gripCounters): // the copies are full, not the table
		return engine.ErrUndoFull
	}
	return nil
}

// find does the same as the table's Find, with a cache of some names.
func (r *run) find(args [][]byte) *command.Spec {
	name := args[0]
	if len(name) == 0 {
		return nil
	}
	at := &r.names[(len(name)*7+int(name[0])+int(name[len(name)-1])*3)%len(r.names)]
	if at.cmd != nil && at.name == string(name) {
		return at.cmd
	}
	cmd := r.of.table.Find(args)
	if cmd != nil && cmd.Alone() {
		at.name, at.cmd = string(name), cmd
	}
	return cmd
}

// counts reports whether a command may run in a step about counters: either its keys are
// declared, or it has no keys.
func (r *run) counts(cmd *command.Spec, args [][]byte) bool {
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

// publish replies how many subscribers of this node would get a message. If there may be
// any on some node, it keeps the message until the script ends. A transaction's own bounds
// suffice for its messages.
func (r *run) publish(k pubsub.Kind, args [][]byte) error {
	channel, size := string(args[1]), len(args[1])+len(args[2])+pubsub.PayloadSize
	msg := r.of.cfg.Hub.Refusal(channel)
	switch {
	case msg != "":
		r.call.Error(msg)
		return nil
	case r.tx == nil && len(r.messages) == maxMessages:
		r.call.Error("ERR at most 1024 messages from one script")
		return nil
	}
	receivers := r.of.cfg.Hub.Receivers(k, channel)
	switch {
	case !r.of.cfg.Hub.Reaches(receivers):
	case r.tx == nil && r.posted > 0 && r.posted+size > r.of.cfg.MaxMessages:
		r.call.Error(errMessages)
		return nil
	case r.bounds.time == loopTime && r.posted+size > loopMessages:
		return errScriptSlow
	case !r.spent.Take(size):
		return memory.ErrFull
	default:
		r.posted += size
		r.messages = append(r.messages, message{k, channel, append([]byte{}, args[2]...)})
	}
	r.w.Int(int64(receivers))
	return nil
}

const errMessages = "ERR the messages of one script together exceed proto-max-bulk-len"

// waits sets the durability of the script's reply to that of its strictest command about
// keys. So it is SYNC if one command asks for SYNC, and ASYNC if all ask for ASYNC.
func (r *run) waits(mode command.SyncMode) {
	if !r.asked {
		r.asked, r.outcome.Sync = true, mode
		return
	}
	r.outcome.Sync = r.outcome.Sync.Strictest(mode)
}

// Known implements script.Caller.
func (r *run) Known(args [][]byte) bool { return r.of.table.Find(args) != nil }

// Log implements script.Caller.
func (r *run) Log(level int, line string) {
	r.of.cfg.Logger.Debug("script", "level", level, "line", line, slog.String("sha1", r.script.SHA))
}
