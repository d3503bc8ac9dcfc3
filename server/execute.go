package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

// execute runs one command; it is the hot path. A plain command costs one lookup, one call
// and a few predictable branches. Every exception (authentication, MULTI, MONITOR, timing
// and so on) has a bit in a mode, and passes through carefully.
func (c *conn) execute(args [][]byte) {
	l := c.lane
	cmd := l.find(args)
	if len(l.portions) > 1 {
		c.route(cmd, args)
	}
	call := &l.call
	start := len(l.w.B)
	if (c.mode|l.mode) != 0 || cmd == nil || cmd.Flags&(command.Fast|command.Script) == 0 || !cmd.Accepts(len(args)) {
		l.use(c.db)
		c.carefully(cmd, args)
		l.use(0)
	} else {
		l.count(cmd)
		c.handle(call, cmd, args)
		l.countDecisions(call)
		if call.Sync != command.SyncDefault && c.stall&stallWorker == 0 {
			l.durability(call)
		}
		if call.Refused() || call.Commit.Ticket == partition.TicketLost {
			c.overtaken(call, start)
		}
	}
	if len(l.w.B) > start && l.w.B[start] == '-' {
		l.sawError(c, cmd, l.w.B[start:])
	}
	if call.Commit.Ticket != 0 || len(c.segments) != 0 {
		c.finish(start, call.Commit)
	}
}

// handle runs a command's handler, with call as its Call.
func (c *conn) handle(call *command.Call, cmd *command.Spec, args [][]byte) {
	call.Spec, call.Args, call.Host = cmd, args, c
	call.Outcome = command.Outcome{}
	cmd.Handler(call)
}

// carefully runs a command that execute cannot run in the short way. It makes the checks in
// the same order as Redis.
func (c *conn) carefully(cmd *command.Spec, args [][]byte) {
	l := c.lane
	m := c.mode | l.mode
	start := len(l.w.B)
	call := &l.call
	call.Outcome = command.Outcome{}
	if c.flight != nil && !c.flight.sent && !c.joins(cmd, args) {
		c.deferred = command.CloneArgs(args)
		c.stall |= stallLeader
		return
	}
	referral := ""
	if m&modeElsewhere != 0 && cmd != nil && cmd.Accepts(len(args)) {
		referral = c.referral(cmd, args)
	}
	switch {
	case cmd == nil && securityRisk(args[0]):
		c.srv.log.Warn("possible security attack: an HTTP request on the Redis port", "client", c.addr)
		c.kill()
		return
	case cmd == nil:
		c.refuse(c.notFound(args))
	case !cmd.Accepts(len(args)) && cmd.Flags&command.Exec != 0:
		c.refuse("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(command.WrongArity(cmd), "ERR "))
		c.endTransaction()
	case !cmd.Accepts(len(args)):
		c.refuse(command.WrongArity(cmd))
	case m&modeNoAuth != 0 && cmd.Flags&command.NoAuth == 0:
		c.refuse("NOAUTH Authentication required.")
	case !c.permitted(cmd, args):
		c.deny(cmd)
	case m&modeSubscribed != 0 && cmd.Flags&command.Subscribed == 0:
		c.refuse("ERR Can't execute '" + cmd.Full + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	case m&modePaused != 0 && c.mustPause(cmd):
		c.deferred = command.CloneArgs(args)
		c.stall |= stallPause
		return
	case m&modeCrossing != 0:
		c.refuse(l.crossing)
	case referral != "":
		c.refuse(referral)
		if cmd.Flags&command.Subscribed != 0 && c.tx == nil && greets(c.lastCmd.Load()) {
			c.mode |= modeDeaf
		}
	case m&modeMulti != 0 && cmd.Flags&command.Immediate == 0:
		c.enqueue(cmd, args)
	case m&modeScattered != 0:
		c.scatter(cmd, args)
	case m&(modeElsewhere|modeRefusing) != 0 && c.needsLeader(cmd):
		c.answerElsewhere(cmd, args)
		if m&modeDecisions != 0 {
			c.tellDecision(cmd, args, l.w.B[start:])
		}
	case l.events && c.tx != nil && cmd.Flags&command.Exec != 0 && c.execHoldsUp(m):
		c.deferred = command.CloneArgs(args)
		c.endTurn()
		return
	default:
		c.call(call, cmd, args)
		if call.Refused() || call.Commit.Ticket == partition.TicketLost {
			c.overtaken(call, start)
		}
		if m&modeDecisions != 0 && c.stall&stallWorker == 0 {
			c.tellDecision(cmd, args, l.w.B[start:])
		}
	}
	if m&modeTracking != 0 && c.tx == nil && cmd != nil {
		c.subscriber.EndCaching(cmd)
	}
	if (m|c.mode)&(modeReplyOff|modeReplySkip|modeSkipNext) != 0 {
		c.withholdReply(cmd, start)
	}
	if c.flight != nil && !c.flight.sent && len(l.w.B) > start {
		if l.w.B[start] == '-' {
			l.sawError(c, cmd, l.w.B[start:])
		}
		c.keepOwn(start, call.Commit)
		call.Commit = command.Commit{}
	}
}

// notFound returns the error for an unknown command. A command is also unknown if this
// connection may not use it.
func (c *conn) notFound(args [][]byte) string {
	if c.relayed {
		return fmt.Sprintf("NOPERM '%s' %s", command.Clip(args[0], 128), errNotForwarded)
	}
	return c.lane.table.NotFound(args)
}

const errNotForwarded = "is not accepted from another node"

// refuse replies an error to a command that is not run. In MULTI, the error also makes the
// transaction fail.
func (c *conn) refuse(msg string) {
	if c.tx != nil {
		c.tx.spoiled = true
	}
	c.lane.counters.rejected.Add(1)
	c.lane.refused = true
	c.error(msg)
}

// call runs a command that has passed all checks. It measures the command's time in three
// cases: the command is not fast, this batch is sampled, or the slow log asks for all. A
// script counts as fast; if call does not measure an interpreted script, eval does.
func (c *conn) call(call *command.Call, cmd *command.Spec, args [][]byte) {
	l := c.lane
	l.count(cmd)
	watched := l.mode&modeMonitors != 0
	if watched && cmd.Flags&command.Script != 0 {
		c.show(cmd, args)
	}
	sampled := l.mode & modeSample
	l.mode &^= modeSample
	if sampled == 0 && l.mode&modeTimeAll == 0 && cmd.Flags&(command.Fast|command.Script) != 0 {
		c.handle(call, cmd, args)
	} else {
		begin := time.Now()
		l.timed = true
		c.handle(call, cmd, args)
		l.timed = false
		took := time.Since(begin)
		l.spend(took)
		if c.stall&stallWorker != 0 {
			c.jobArgs = clipArgs(args)
		} else {
			c.srv.record(c, cmd, args, took)
		}
	}
	if watched && cmd.Flags&(command.Script|command.Exec) == 0 {
		c.show(cmd, args)
	}
	l.countDecisions(call)
	if (c.mode|l.mode)&modeTracking != 0 {
		c.subscriber.HasRead(cmd, args, c.stall&stallWorker != 0)
	}
	if c.stall&stallWorker == 0 {
		l.durability(call)
	} else if l.commits(call) {
		c.jobSince, c.jobCommits, c.jobStrict = l.since, true, call.Sync == command.SyncCommit
	}
}

// securityRisk reports whether name is the first word that a browser would send if a web
// page made it post to this port.
func securityRisk(name []byte) bool {
	return command.EqualFold(name, "post") || command.EqualFold(name, "host:")
}

// withholdReply drops the reply that a command has written from start on, because of CLIENT
// REPLY. Confirmations of subscriptions are not replies.
func (c *conn) withholdReply(cmd *command.Spec, start int) {
	confirmed := cmd != nil && cmd.Confirms() && len(c.w.B) > start && c.w.B[start] != '-'
	if c.mode&(modeReplyOff|modeReplySkip) != 0 && !confirmed {
		c.w.B = c.w.B[:start]
		c.muteJob = c.stall&stallWorker != 0
	}
	c.mode &^= modeReplySkip
	if c.mode&modeSkipNext != 0 {
		c.mode = c.mode&^modeSkipNext | modeReplySkip
	}
}

// block runs job on a worker, for a command that may take more than 100 µs. job writes the
// reply. Until then the connection executes nothing; other connections continue. job must
// not use the connection or its session. It must use copies of the command's arguments. In
// EXEC, block runs job before it returns.
func (c *conn) block(job func(w *resp.Writer)) { c.blockKeeping(0, job) }

// refused handles the reply of a job that found no memory. The reply becomes an error. If
// the command writes, the client may learn only that the outcome is unknown, so its
// connection is closed.
func (c *conn) refused(cmd *command.Spec, w *resp.Writer) {
	switch {
	case !w.Refused:
	case cmd.Flags&command.Write != 0:
		c.killForMemory()
	default:
		*w = resp.Writer{RESP3: w.RESP3}
		w.Error("ERR " + memory.ErrFull.Error())
	}
}

// turnClient returns the client of a connection, for the turns of slow steps.
func turnClient(c *conn) turns.Client {
	address, _, err := net.SplitHostPort(c.addr)
	if err != nil {
		address = c.addr
	}
	return c.srv.workers.turns.Client(address, &c.share)
}

const errWorkersBusy = "BUSY too many long-running commands are waiting, try again later"

// Block implements command.Host.
func (c *conn) Block(call *command.Call, keep int, job func(w *resp.Writer)) {
	if call.Waits {
		wait(c, call, job)
		return
	}
	c.jobArgs = clipArgs(call.Args)
	c.blockKeeping(keep, job)
}

// BlockSync implements command.Host.
func (c *conn) BlockSync(call *command.Call, keep int, job func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) command.SyncMode) {
	c.jobArgs = clipArgs(call.Args)
	c.blockSync(keep, func() {}, job)
}

// Took implements command.Host.
func (c *conn) Took(call *command.Call, took time.Duration) {
	c.lane.spend(took)
	if !c.lane.timed && c.stall&stallWorker == 0 {
		c.srv.record(c, call.Spec, call.Args, took)
	}
}

// Uncertain implements command.Host.
func (c *conn) Uncertain(w *resp.Writer) { c.srv.uncertain(w) }

// MostReply implements command.Host.
func (c *conn) MostReply() int { return c.srv.cfg.OutputBufferLimit }

// largeJob is the size of a command, in bytes, from which on its job may have taken much
// memory: a file of policies takes ten times its length. When such a job ends, it asks the
// scavenger to run.
const largeJob = 1 << 20

// blockKeeping does the same as block for a job that keeps size bytes of its command.
func (c *conn) blockKeeping(size int, job func(w *resp.Writer)) {
	c.blockSync(size, func() {}, func(w *resp.Writer, _ *memory.Spending, _ *turns.Turn) command.SyncMode {
		job(w)
		return command.SyncDefault
	})
}

// blockSync does the same as blockKeeping, for a job that returns the durability of its
// reply. The job reserves its memory from spent. If the command is a slow step, the job
// has the turn x. ended is called when the job has ended. It is also called when the job
// will never begin: the connection has closed, or the server drops or refuses the job. All waiting jobs
// together hold at most client-query-buffer-limit bytes, because one client may have
// many connections with a job each.
func (c *conn) blockSync(size int, ended func(), job func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) command.SyncMode) {
	p, spent := c.srv.workers, c.srv.memory.spend(c)
	refuse := func(msg string) {
		spent.end()
		ended()
		c.error(msg)
	}
	if !p.keep(size, c.srv.cfg.QueryBufferLimit) {
		refuse(errWorkersBusy)
		return
	}
	letGo := ended
	ended = func() { p.letGo(size); letGo() }
	if !spent.Take(size) {
		refuse("ERR " + memory.ErrFull.Error())
		return
	}
	if c.inExec {
		job(c.w, &spent.Spending, nil)
		ended()
		spent.end()
		return
	}
	w := &resp.Writer{RESP3: c.resp3, Room: spent.Room, MayDivide: true}
	cmd, part := c.lane.call.Spec, c.lane.part
	decides := c.decides(cmd)
	held := len(c.segments) > 0 || c.flight != nil || decides && c.lane.mode&(modeWaiting|modeDurable) != 0
	c.lastCmd.Store(cmd) // the job may list this connection
	reply := func(mode command.SyncMode, took time.Duration) {
		ended()
		ticket := uint64(0)
		if decides {
			ticket = jobTicket(part, true)
		}
		c.lane.postSpent(c, func() {
			if took > 0 {
				c.srv.record(c, cmd, c.jobArgs, took)
			}
			c.jobArgs = nil
			spent.handTo(c)
			c.refused(cmd, w)
			if head := w.Head(); len(head) > 0 && head[0] == '-' {
				c.lane.sawError(c, cmd, head)
			}
			c.unblock(w, ticket, mode)
		}, spent)
	}
	run := func(x *turns.Turn) {
		if size >= largeJob {
			defer c.srv.memory.scavenger.Ask()
		}
		begin := time.Now()
		mode := job(w, &spent.Spending, x)
		if held || decides && mode == command.SyncCommit {
			w.Join() // on the worker, not on the loop
		}
		reply(mode, max(time.Since(begin), 1))
	}
	spent.reads = cmd.Flags&command.Readonly != 0
	spent.dropped = func() {
		w = &resp.Writer{RESP3: w.RESP3}
		w.Error("ERR " + memory.ErrFull.Error())
		reply(command.SyncDefault, 0)
	}
	spent.run.Store(&run)
	if !p.submitOf(turnClient(c), workKind(cmd), decides, spent.begin) && spent.run.Swap(nil) != nil {
		refuse(errWorkersBusy)
		return
	}
	c.job = spent
	c.stall |= stallWorker
	c.jobPortion = c.lane.at
	if decides {
		c.jobSince = c.lane.since
	}
}

// blockAside runs job on a goroutine of its own, for a command that waits rather than
// works. ctx ends with the connection or the server. In EXEC, ctx has already ended, and
// blockAside runs job before it returns.
func (c *conn) blockAside(job func(ctx context.Context, w *resp.Writer)) {
	ctx, cancel := context.WithCancel(context.Background())
	if c.inExec {
		cancel()
		job(ctx, c.w)
		return
	}
	w := &resp.Writer{RESP3: c.resp3}
	c.cancel, c.jobPortion = cancel, c.lane.at
	c.stall |= stallWorker
	go func() {
		defer cancel()
		stop := context.AfterFunc(c.srv.ending, cancel)
		job(ctx, w)
		stop()
		c.post(func() {
			c.cancel, c.jobArgs = nil, nil
			c.unblock(w, 0, command.SyncDefault)
		})
	}()
}

// wait does the same as Block for a call that waits.
func wait(c *conn, call *command.Call, job func(w *resp.Writer)) {
	part := c.lane.part
	c.jobArgs, c.jobPortion, c.jobSince = clipArgs(call.Args), c.lane.at, c.lane.since
	c.stall |= stallWorker
	w, sync := &resp.Writer{RESP3: c.resp3}, call.Sync
	go func() {
		job(w)
		ticket := jobTicket(part, true)
		c.post(func() {
			c.jobArgs = nil
			c.unblock(w, ticket, sync)
		})
	}()
}

// Aside implements command.Host.
func (c *conn) Aside(call *command.Call, job func(call *command.Call) (then func())) {
	part, decides := c.lane.part, c.decides(call.Spec)
	durable := part.Durable() || call.Sync == command.SyncCommit
	inner := &command.Call{
		Spec: call.Spec, Args: command.CloneArgs(call.Args), W: &resp.Writer{RESP3: c.resp3}, Now: call.Now,
		Sess: call.NewSession(), Host: c, OnWorker: true,
	}
	c.jobArgs, c.jobPortion, c.jobSince = clipArgs(call.Args), c.lane.at, 0
	if decides {
		c.jobSince = c.lane.since
		c.srv.workers.deciding.Add(1)
	}
	c.stall |= stallWorker
	go func() {
		begin := time.Now()
		then := job(inner)
		ticket := uint64(0)
		if decides {
			ticket = jobTicket(part, durable || inner.Sync == command.SyncCommit)
			c.srv.workers.deciding.Add(-1)
		}
		if then != nil { // not before: a handover waits for jobs that decide
			then()
		}
		inner.Sess.Close()
		if inner.Refused() {
			inner.W.Cut(0)
			c.srv.uncertain(inner.W)
		}
		took := time.Since(begin)
		c.post(func() {
			l, w := c.lane, inner.W
			c.srv.record(c, inner.Spec, c.jobArgs, took)
			c.jobArgs = nil
			l.turnTo(inner.Spec)
			l.countDecisions(inner)
			if len(w.B) > 0 && w.B[0] == '-' {
				l.sawError(c, inner.Spec, w.B)
			}
			if (c.mode|l.mode)&modeDecisions != 0 {
				c.tellDecision(inner.Spec, inner.Args, w.B)
			}
			c.unblock(w, ticket, inner.Sync)
		})
	}()
}

// unblock takes the reply of a job. ticket is the ticket of its commit, if the job decided.
// mode is the SYNC or ASYNC of the job's call.
func (c *conn) unblock(w *resp.Writer, ticket uint64, mode command.SyncMode) {
	start := len(c.w.B)
	c.job = nil
	c.stall &^= stallWorker
	c.lane.enter(c.jobPortion)
	var commit command.Commit
	if c.jobSince != 0 {
		if mode == command.SyncCommit {
			c.jobCommits, c.jobStrict = true, true
		}
		commit = c.jobReply(w, ticket)
		c.jobSince, c.jobCommits, c.jobStrict = 0, false, false
	}
	inFlight := c.flight != nil && !c.flight.reruns
	if commit.Ticket != 0 || len(c.segments) != 0 || inFlight {
		if w.Join(); w.Refused {
			c.killForMemory()
		}
	}
	switch {
	case c.muteJob:
	case len(w.Parts) > 0:
		c.lane.parts = append(append(c.lane.parts, c.w.B), w.Parts...)
		c.w.B, start = w.B, 0
	case start == 0 && cap(w.B) > outputKept: // nobody else uses the buffer any more
		c.w.B = w.B
	default:
		c.w.B = append(c.w.B, w.B...)
	}
	c.muteJob = false
	c.subscriber.Answered()
	switch {
	case inFlight:
		c.keepOwn(start, commit)
	case commit.Ticket != 0 || len(c.segments) != 0:
		c.finish(start, commit)
	}
	if c.flight != nil {
		c.land()
	}
}
