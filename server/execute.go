package server

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
)

// execute runs one command: the hot path. A plain command costs one lookup,
// one call and a few predictable branches; every exception (authentication,
// MULTI, MONITOR, timing, …) has its bit in a mode and goes through carefully.
func (c *conn) execute(args [][]byte) {
	l := c.lane
	cmd := l.find(args)
	start := len(l.w.B)
	if (c.mode|l.mode) != 0 || cmd == nil || cmd.flags&flagFast == 0 || !cmd.accepts(len(args)) {
		c.carefully(cmd, args)
	} else {
		l.count(cmd)
		cmd.handler(c, args)
		if c.sess.Refused() || c.ticket == partition.TicketLost {
			c.overtaken(cmd, args, start)
		}
	}
	if len(l.w.B) > start && l.w.B[start] == '-' {
		l.countError(cmd)
	}
	if c.ticket != 0 || len(c.segments) != 0 {
		c.finish(start, true)
	}
}

// carefully runs a command that execute has no short way for. The order of the
// checks is Redis's.
func (c *conn) carefully(cmd *command, args [][]byte) {
	l := c.lane
	m := c.mode | l.mode
	start := len(l.w.B)
	if c.frame != nil && !c.joins(cmd, args) {
		c.deferred = cloneArgs(args)
		c.stall |= stallLeader
		return
	}
	switch {
	case cmd == nil && securityRisk(args[0]):
		c.srv.log.Warn("possible security attack: an HTTP request on the Redis port", "client", c.addr)
		c.kill()
		return
	case cmd == nil:
		c.refuse(c.notFound(args))
	case !cmd.accepts(len(args)):
		c.refuse(wrongArity(cmd))
	case m&modeNoAuth != 0 && cmd.flags&flagNoAuth == 0:
		c.refuse("NOAUTH Authentication required.")
	case m&modeSubscribed != 0 && cmd.flags&flagSubscribed == 0:
		c.refuse("ERR Can't execute '" + cmd.full + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	case m&modePaused != 0 && c.mustPause(cmd):
		c.deferred = cloneArgs(args)
		c.stall |= stallPause
		return
	case m&modeElsewhere != 0 && c.refers(cmd, args):
	case m&modeMulti != 0 && cmd.flags&flagImmediate == 0:
		c.enqueue(cmd, args)
	case m&modeElsewhere != 0 && c.needsLeader(cmd):
		c.relay(cmd, args)
	default:
		c.call(cmd, args)
		if c.sess.Refused() || c.ticket == partition.TicketLost {
			c.overtaken(cmd, args, start)
		}
	}
	if (m|c.mode)&(modeReplyOff|modeReplySkip|modeSkipNext) != 0 {
		c.withholdReply(start)
	}
}

// notFound is the error for args that are no command of this connection's.
func (c *conn) notFound(args [][]byte) string {
	if c.relayed {
		return fmt.Sprintf("NOPERM '%s' is not accepted from another node", clip(args[0], 128))
	}
	return c.srv.table.notFound(args)
}

// refuse replies an error to a command that is not run; within MULTI it spoils
// the transaction.
func (c *conn) refuse(msg string) {
	if c.tx != nil {
		c.tx.spoiled = true
	}
	c.lane.counters.rejected.Add(1)
	c.lane.refused = true
	c.error(msg)
}

// call runs a command that has passed every check, and times it when it is not
// a fast one, or this batch is sampled, or the slow log asks for all.
func (c *conn) call(cmd *command, args [][]byte) {
	l := c.lane
	l.count(cmd)
	if l.mode&modeMonitors != 0 && cmd.flags&flagSkipMonitor == 0 {
		c.srv.watchers.feed(c, cmd.public(args))
	}
	sampled := l.mode & modeSample
	l.mode &^= modeSample
	if sampled == 0 && l.mode&modeTimeAll == 0 && cmd.flags&flagFast != 0 {
		cmd.handler(c, args)
	} else {
		begin := time.Now()
		cmd.handler(c, args)
		if c.stall&stallWorker != 0 {
			c.jobArgs = clipArgs(args)
		} else {
			c.srv.record(c, cmd, args, time.Since(begin))
		}
	}
	switch {
	case !l.commits(cmd):
	case c.stall&stallWorker != 0:
		c.jobSince, c.jobCommits = l.since, true
	default:
		c.commit(l.srv.part.Durable())
	}
}

// securityRisk reports whether a command's name is one that a browser, made to
// post to this port, would send first.
func securityRisk(name []byte) bool {
	return equalFold(name, "post") || equalFold(name, "host:")
}

// withholdReply drops what a command replied from start on, as CLIENT REPLY
// asks.
func (c *conn) withholdReply(start int) {
	if c.mode&(modeReplyOff|modeReplySkip) != 0 {
		c.w.B = c.w.B[:start]
		c.muteJob = c.stall&stallWorker != 0
	}
	c.mode &^= modeReplySkip
	if c.mode&modeSkipNext != 0 {
		c.mode = c.mode&^modeSkipNext | modeReplySkip
	}
}

// block runs job on a worker, for a command that may take more than 100 µs:
// the reply is what job writes. The connection executes nothing until then;
// everyone else goes on. job must not touch the connection, its session, or the
// command's arguments (copy them). Within EXEC it runs at once.
func (c *conn) block(job func(w *resp.Writer)) {
	if c.inExec {
		job(c.w)
		return
	}
	w := &resp.Writer{RESP3: c.resp3}
	cmd := c.lane.counted
	decides := c.decides(cmd)
	accepted := c.srv.workers.submit(cmd.flags&flagLong != 0, decides, func() {
		begin := time.Now()
		job(w)
		took := time.Since(begin)
		ticket := uint64(0)
		if decides {
			ticket = c.srv.jobTicket()
		}
		c.post(func() {
			c.srv.record(c, cmd, c.jobArgs, took)
			c.jobArgs = nil
			if len(w.B) > 0 && w.B[0] == '-' {
				c.lane.countError(cmd)
			}
			c.unblock(w.B, ticket)
		})
	})
	if !accepted {
		c.error(errWorkersBusy)
		return
	}
	c.stall |= stallWorker
	if decides {
		c.jobSince = c.lane.since
	}
}

const errWorkersBusy = "BUSY too many long-running commands are waiting, try again later"

// blockKeeping is block for a job that holds on to size bytes of its command.
// All that wait hold on to no more than client-query-buffer-limit, as one client
// may have of them as many as it has connections.
func (c *conn) blockKeeping(size int, job func(w *resp.Writer)) {
	p := c.srv.workers
	if !p.keep(size, c.srv.cfg.QueryBufferLimit) {
		c.error(errWorkersBusy)
		return
	}
	c.block(func(w *resp.Writer) {
		defer p.letGo(size)
		job(w)
	})
	if !c.inExec && c.stall&stallWorker == 0 { // refused
		p.letGo(size)
	}
}

// blockAside runs job on a goroutine of its own, for a command that waits rather
// than works. ctx ends with the connection or the server; within EXEC it has
// ended, and job runs at once.
func (c *conn) blockAside(job func(ctx context.Context, w *resp.Writer)) {
	ctx, cancel := context.WithCancel(context.Background())
	if c.inExec {
		cancel()
		job(ctx, c.w)
		return
	}
	w := &resp.Writer{RESP3: c.resp3}
	c.cancel = cancel
	c.stall |= stallWorker
	go func() {
		defer cancel()
		stop := context.AfterFunc(c.srv.ending, cancel)
		job(ctx, w)
		stop()
		c.post(func() {
			c.cancel, c.jobArgs = nil, nil
			c.unblock(w.B, 0)
		})
	}()
}

// unblock takes the reply of a worker, whose job ended under ticket if it
// decided.
func (c *conn) unblock(reply []byte, ticket uint64) {
	start := len(c.w.B)
	c.stall &^= stallWorker
	if c.jobSince != 0 {
		reply = c.jobReply(reply, c.jobSince, ticket, c.jobCommits)
		c.jobSince, c.jobCommits = 0, false
	}
	if !c.muteJob {
		c.w.B = append(c.w.B, reply...)
	}
	c.muteJob = false
	if c.ticket != 0 || len(c.segments) != 0 {
		c.finish(start, true)
	}
}

// argOverhead is what an argument takes beside its bytes.
const argOverhead = 24

// argsSize is how many bytes arguments take.
func argsSize(args [][]byte) int {
	size := argOverhead * len(args)
	for _, a := range args {
		size += len(a)
	}
	return size
}

// cloneArgs copies arguments out of the input buffer, in one allocation for
// the bytes.
func cloneArgs(args [][]byte) [][]byte {
	buf := make([]byte, 0, argsSize(args)-argOverhead*len(args))
	out := make([][]byte, len(args))
	for i, a := range args {
		buf = append(buf, a...)
		out[i] = buf[len(buf)-len(a) : len(buf) : len(buf)]
	}
	return out
}

// equalFold reports whether b is the ASCII word s, which is in lower case, in
// any case.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, x := range b {
		if x-'A' <= 'Z'-'A' {
			x += 'a' - 'A'
		}
		if x != s[i] {
			return false
		}
	}
	return true
}
