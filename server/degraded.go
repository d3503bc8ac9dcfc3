package server

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Without a leader
//
// If on-failure is open or local, a node without a leader answers some commands itself:
// commands about limits, and commands that count, such as INCR and EXPIRE. It also answers
// transactions and scripts that contain only such commands. For commands about limits,
// Call.Limits is then a limiter of the failure policy instead of the session. Under open, a
// multiple of each limit bounds what this limiter admits (engine.Backstop). For commands
// about counters, the handlers run on a session of another engine, with copies of the
// counters or without any (engine.Local, engine.Empty).

// answerDegraded lets the failure policy answer, and reports whether it did. tx is the
// transaction if cmd is EXEC.
func (c *conn) answerDegraded(cmd *command.Spec, args [][]byte, tx *transaction, sent bool) bool {
	c.watched.astray = len(c.watched.keys) > 0
	switch {
	case tx != nil && tx.limits():
		c.inExec = true
		c.w.Array(len(tx.queue))
		for _, q := range tx.queue {
			if q.cmd.Flags&command.Limit != 0 {
				c.decideDegraded(q.cmd, q.args, sent)
			} else {
				c.call(&c.lane.queued, q.cmd, q.args)
			}
		}
		c.inExec = false
	case tx != nil && tx.counts():
		c.inExec = true
		c.countDegraded(tx.keys(nil, c.now()), sent, func(step *engine.CountStep) error {
			c.w.Array(len(tx.queue))
			for _, q := range tx.queue {
				if q.cmd.Flags&command.Counter == 0 {
					c.call(&c.lane.queued, q.cmd, q.args)
				} else if err := c.count(step, q.cmd, q.args); err != nil {
					return err
				}
			}
			return nil
		})
		c.inExec = false
	case tx != nil:
		return false
	case cmd.Flags&command.Limit != 0:
		c.decideDegraded(cmd, args, sent)
	case cmd.Flags&command.Counter != 0:
		c.countDegraded(keysOf(cmd, args), sent, func(step *engine.CountStep) error { return c.count(step, cmd, args) })
	case cmd.Flags&command.Script != 0:
		c.countDegraded(keysOf(cmd, args), sent, func(step *engine.CountStep) error { return c.countScript(step, cmd, args) })
	default:
		return false
	}
	return true
}

// limits reports whether all commands of the transaction that are for the leader are about
// limits.
func (tx *transaction) limits() bool { return tx.only(command.Limit) }

// counts reports whether all commands of the transaction count, in the same database.
func (tx *transaction) counts() bool {
	for _, q := range tx.queue {
		if q.cmd.Flags&command.Select != 0 {
			return false
		}
	}
	return tx.only(command.Counter)
}

// only reports whether all commands of the transaction that are for the leader have a flag.
func (tx *transaction) only(flag command.Flag) bool {
	for _, q := range tx.queue {
		if q.cmd.Flags&command.Leader != 0 && q.cmd.Flags&flag == 0 {
			return false
		}
	}
	return true
}

// keysOf returns the keys of a command.
func keysOf(cmd *command.Spec, args [][]byte) [][]byte {
	var keys [][]byte
	for _, i := range cmd.Keys.Positions(args, nil) {
		keys = append(keys, args[i])
	}
	return keys
}

// decideDegraded runs the handler of a limit's command without the leader. If the failure
// policy has no answer and the command was sent, the reply says that the leader may have
// executed it.
func (c *conn) decideDegraded(cmd *command.Spec, args [][]byte, sent bool) {
	l := c.lane
	l.turnTo(cmd)
	c.srv.stats.counts[countDegraded].Add(1)
	failure, h := c.headless(cmd, args)
	by := c.lane.part.DegradedBy(failure, h.Backstop)
	switch {
	case by == nil && sent:
		c.srv.uncertain(c.w)
		return
	case by == nil: // in a transaction, a check of a policy that fails closed
		c.error(errNoLeader)
		return
	}
	call, start := &l.call, len(c.w.B)
	call.Limits, call.Degraded = by, true
	if db := l.db; db != 0 {
		call.Limits = ofDatabase{call.Limits, db}
	}
	c.handle(call, cmd, args)
	call.Limits, call.Degraded = l.sess, false
	if sent && errors.Is(call.Err, engine.ErrNotLocal) {
		c.w.B = c.w.B[:start]
		c.srv.uncertain(c.w)
	}
	call.Outcome = command.Outcome{}
}

// Decides returns nil if a leader or a failure policy decides now. Otherwise it returns the
// reason why nobody does. With several groups, one is enough, because callers of the others
// would lose their server, too. But this node must have started in all groups.
func (s *Server) Decides() error {
	decided, reason := false, error(nil)
	for _, p := range s.parts {
		role := p.Role()
		headless := role == partition.Stalled || role == partition.Orphaned && !p.HandingOver()
		undecided := headless && p.OnFailure() == partition.FailClosed && !s.policies.DecidesAlone()
		decided = decided || !undecided
		if undecided || role == partition.Starting {
			reason = fmt.Errorf("no leader decides: this node is %v", role)
		}
		if role == partition.Starting {
			return reason
		}
	}
	if decided {
		return nil
	}
	return reason
}

// headless returns how a command is answered without a leader. The call chooses, or else
// the call's policy, or else the node.
func (c *conn) headless(cmd *command.Spec, args [][]byte) (by partition.OnFailure, h command.Headless) {
	if cmd.Headless != nil {
		h = cmd.Headless(args)
	}
	switch h.Failure {
	case policy.FailOpen:
		by = partition.FailOpen
	case policy.FailClosed:
		by = partition.FailClosed
	case policy.FailLocal:
		by = partition.FailLocal
	default:
		by = c.lane.part.OnFailure()
	}
	if h.NoShare && by == partition.FailLocal {
		by = partition.FailClosed
	}
	return by, h
}

// countDegraded runs a step about counters without the leader. The step writes its reply.
// If the node has no answer and the command was sent, the reply says that the leader may
// have executed it.
func (c *conn) countDegraded(keys [][]byte, sent bool, fn func(step *engine.CountStep) error) {
	l, start := c.lane, len(c.w.B)
	c.srv.stats.counts[countDegraded].Add(1)
	err := l.part.Degraded().Count(l.now, l.db, keys, fn)
	l.call.Outcome = command.Outcome{}
	if err == nil {
		return
	}
	c.w.B = c.w.B[:start]
	if sent {
		c.srv.uncertain(c.w)
		return
	}
	c.error(command.EngineError(err).Error())
}

// count runs one command of a step about counters. If it returns an error, the step ends.
func (c *conn) count(step *engine.CountStep, cmd *command.Spec, args [][]byte) error {
	l := c.lane
	l.turnTo(cmd)
	call := &l.call
	call.Sess, call.Limits, call.InExec = step.Session, step.Session, true
	defer func() { call.Sess, call.Limits, call.InExec = l.sess, l.sess, false }()
	run := func() { c.handle(call, cmd, args) }
	if cmd.Sets == nil {
		run()
	} else if err := step.Set(args[1], cmd.Sets(args), run); err != nil {
		return err
	}
	if errors.Is(call.Err, engine.ErrFull) {
		return call.Err
	}
	return nil
}

// countScript runs a script as a step about counters. It returns an error if the script
// does anything else than count, or is too slow for an event loop.
func (c *conn) countScript(step *engine.CountStep, cmd *command.Spec, args [][]byte) error {
	c.lane.turnTo(cmd)
	call := &c.lane.call
	call.Spec, call.Args, call.Host = cmd, args, c
	return c.srv.scripts.Count(call, step)
}
