package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/pubsub"
	"github.com/headgate-io/headgate/server/turns"
)

// conn is a connection as a state machine: the driver gives it the bytes that arrived,
// it runs the commands, and it returns the bytes to send. It has no socket and starts no
// goroutine. The driver is an epoll loop, or the two goroutines of a TLS or unix
// connection.
//
// # Threads
//
// All methods, and all fields that are not atomic, belong to the connection's driver
// thread. That is the goroutine of the loop, or the goroutine that holds the lock of a
// goroutine driver. All connections of one thread use the same lane. The lane holds what
// commands need while they run, but an idle connection does not need: the session, the
// time, scratch buffers. Another goroutine that wants to use a connection posts a
// function to its thread (conn.post). A post to a closed connection is dropped.
//
// # The driver's side
//
//	lane.begin()              one clock read
//	c.input(data) | c.resume() | a posted function
//	settle:                   until nothing moves:
//	    c.unpark()                  replies whose tickets are complete
//	    out := lane.takeOutput()    bytes of c, to be written or queued
//	    c.queued(n)                 how many bytes wait for the socket
//	    if c.runnable() c.resume()  buffered input that may now run
//	    if c.departs() take the last input, c.leave()
//	    if c.done()     close
//	lane.end()
//
// If input cannot run yet, it is copied into the connection's own buffer. Such input is
// an incomplete command, or all input while the connection is stalled. A connection is
// stalled while c.stall is not 0: it must wait for something before its next command
// runs. The driver then stops reading from the socket. So if a client sends faster than
// it reads replies, its own socket fills up, not the server's memory. A connection that
// waits for its next command has no buffer.
//
// # Replies leave in the order of commands
//
// A handler writes one reply into c.w. The reply is sent when the batch ends, with two
// exceptions:
//
//   - The call waits for a commit (command.Commit): the change is decided but not yet
//     committed. The reply is then parked, which means that it waits in c.parkedBytes.
//     It is part of a segment, a run of replies that wait for the same commit, and the
//     segment has the number of that commit, the ticket. The connection continues to
//     parse and decide. Because replies leave in the order of commands, all later
//     replies are parked too. A later reply has a ticket of its own, or ticket 0 if it
//     waits only for earlier replies. At max-waiting-replies the connection stalls
//     (stallParked) until some replies have left.
//   - The handler called block(job): the command takes too long for this thread, so a
//     worker runs the job. The connection stalls (stallWorker), because the next command
//     may depend on the job. The job's reply takes the place of the command's reply.
//
// A batch of one connection ends when turnTime has passed and the current command is
// done; see lane.spend. If the connection has more input, it then stalls (stallTurn)
// until the thread has served the other connections. If its last input was much work
// (weighWork), it stalls as soon as it has more input. Between two heavy batches, a loop
// serves connections with light input. Before a stream runs heavy input, it takes one of
// the places in Server.heavy.
//
// Partition.Release(upTo, err) completes every ticket up to upTo, and the segments with
// these tickets join the output. If err is not nil, each reply in a segment with a
// ticket becomes that error; the segment knows how many replies it has. Replies with
// ticket 0 stay unchanged.
//
// A ticket may be completed before its reply is parked. Then c.unpark, which settle
// calls next, finds the reply. Partition.Release explains why no reply is missed.
//
// # The end
//
// QUIT, a protocol error and the end of input set c.ending to closes. The connection
// then runs no more commands, and closes when all replies have left. A connection may
// also depart: it closes at a moment when no input that has arrived is lost; see
// departure.go. kill closes the connection at once, and drops its input and replies.
type conn struct {
	srv  *Server
	lane *lane
	drv  driver
	w    *resp.Writer // &lane.w

	identity
	place
	kept
	onWorker
	parking

	share turns.Share // the time that its slow steps have recently had; see turns

	flight  *flight // commands that are on their way to leaders
	relayed bool    // the peer is a node, which forwards its clients' commands
	moves   bool    // the client came through the cluster door, and follows MOVED
	behalf  Client  // the client, if another node or the caller of a line has named one
	term    uint64  // if relayed, the term that HELLO has told; commands of another term are refused
	since   uint64  // see wait.go

	// The present state.
	stall   stall
	heavy   uint8 // for so many more batches, its input waits until that of others has run
	mode    mode
	db      uint8 // the database that its commands use
	resp3   bool
	inExec  bool
	eof     bool // the peer sends nothing more
	killed  bool // close at once
	starved bool // killed because clients take too much memory
	closed  bool // the driver has closed it
	ending  ending
	pending int // output bytes that wait for the socket
	output  int // the driver's memory for output, in bytes
	sent    int // size of the flight in bytes, while there is one

	tx         *transaction       // after MULTI
	cancel     context.CancelFunc // ends a WAIT that runs
	waiting    *scattered         // that WAIT, if it is of several partitions
	watched    watches
	subscriber pubsub.Subscriber

	// Other threads read meta and the activity, for CLIENT LIST.
	meta       atomic.Pointer[clientMeta]
	lastCmd    atomic.Pointer[command.Spec]
	lastActive atomic.Int64 // lane.now of the last batch
	memory     atomic.Int64 // bytes that clientMemory has accounted
	inbox      inbox
}

// identity names a connection. It does not change once other threads can see it.
type identity struct {
	id      uint64 // 0 for a line of a Caller
	addr    string
	laddr   string
	fd      int
	created int64 // Unix ns of the wall clock
}

// place says which portions the commands of a connection belong to; see route.
type place struct {
	home uint16 // the portion of commands without keys
	only bool   // the connection has no commands for other portions
}

// kept is the input of a connection that has not run yet.
type kept struct {
	parser   resp.Parser
	limits   *resp.Limits
	in       []byte // the input, from inOff on
	inOff    int
	deferred [][]byte // a parsed command that must wait; it comes before in
	unrun    bool     // input or deferred was kept because of a stall, not because a command is incomplete
}

// onWorker describes a connection's command that runs on a worker.
type onWorker struct {
	job        *spending // runs on a worker, or waits for one
	jobArgs    [][]byte  // the command's arguments, for the slow log
	jobPortion uint16    // the index in the lane of the portion that the job uses
	jobSince   uint64    // if the job decides, since of the portion's batch; else 0
	jobCommits bool      // the job's reply waits for its commit
	jobStrict  bool      // the job's reply becomes an error if the commit fails, with every durability
	muteJob    bool      // the job's reply is suppressed (CLIENT REPLY)
}

// parking holds the replies of a connection that wait for their commit; see park.
type parking struct {
	parkedBytes   []byte
	segments      []segment
	parkedReplies int
	parkedAt      int // position in lane.parked, from 1; 0 if it is not there
}

// driver is what a connection calls of its driver.
type driver interface {
	// settle writes output and lets stalled input run; see conn. Only the driver thread may
	// call it.
	settle()
}

// stall is a set of reasons why a connection does not run further commands now.
type stall uint8

const (
	stallWorker stall = 1 << iota // a command of the connection runs on a worker
	stallParked                   // max-waiting-replies are parked
	stallOutput                   // the peer reads its replies too slowly
	stallPause                    // CLIENT PAUSE
	stallLeader                   // commands of the connection are on their way to the leader
	stallTurn                     // other connections of the thread go first
)

// mode is a set of reasons why a command needs more than a call of its handler. The bits
// that are about the server and not about a connection (MONITOR and others) are in
// lane.mode.
type mode uint32

const (
	modeNoAuth     mode = 1 << iota // requirepass is set, and the client has not authenticated
	modeMulti                       // between MULTI and EXEC
	modeSubscribed                  // RESP2 with subscriptions: few commands are allowed
	modeReplyOff                    // CLIENT REPLY OFF
	modeReplySkip                   // CLIENT REPLY SKIP: drop this command's reply
	modeSkipNext                    // CLIENT REPLY SKIP: drop the next command's reply
	modeFramed                      // earlier commands are in a flight, which goes to leaders
	modeDatabase                    // the connection's database is not 0
	modeTracking                    // CLIENT TRACKING ON
	modeRefusing                    // the peer is another node, and a command of it was refused
	modeDeaf                        // the client may be about to wait for messages of another node; see greets

	modeMonitors  // somebody watches with MONITOR
	modePaused    // CLIENT PAUSE is on
	modeTimeAll   // slowlog-log-slower-than is so low that fast commands are timed too
	modeSample    // the first command of this batch is timed
	modeDecisions // the decision log is on

	modeElsewhere // this node does not decide: see leader.go
	modeWaiting   // every reply about keys waits for its commit
	modeDurable   // every reply without ASYNC waits for its commit
	modeScattered // the command runs in parts; see scatter.go
	modeCrossing  // the command may not use its keys together: see slotOf
)

// now returns the engine's time of this batch in Unix nanoseconds.
func (c *conn) now() int64 { return c.lane.now }

// error replies an error; msg begins with its code.
func (c *conn) error(msg string) { c.w.Error(msg) }

// post runs fn soon on the connection's driver thread, unless the connection is closed by
// then. Any goroutine may call post, which does not wait.
func (c *conn) post(fn func()) { c.lane.post(c, fn) }

// input takes bytes from the peer and runs the commands that are now complete. The caller
// may reuse data afterwards.
func (c *conn) input(data []byte) {
	if c.ending == closes {
		return
	}
	if len(c.in) == 0 && c.stall == 0 && c.flight == nil {
		if n := c.run(data); n < len(data) {
			c.keep(data[n:])
		}
		c.takeOff()
		return
	}
	c.keep(data)
	if c.stall == 0 {
		c.resume()
	} else {
		c.unrun = true
	}
}

// keep copies input that cannot run yet.
func (c *conn) keep(data []byte) {
	if c.inOff > 0 {
		c.in = c.in[:copy(c.in, c.in[c.inOff:])]
		c.inOff = 0
	}
	if len(c.in)+len(data) > c.srv.cfg.QueryBufferLimit {
		c.srv.stats.counts[countQueryBufferKills].Add(1)
		c.kill()
		return
	}
	if c.in == nil {
		c.in = c.lane.buffer()
	}
	if least := len(c.in) + len(data); least > max(cap(c.in), bufferKept) {
		size := max(least, cap(c.in)+cap(c.in)/4, min(c.parser.Needs(), keepFactor*cap(c.in)))
		if !c.reserve(size - cap(c.in)) {
			return
		}
		c.in = append(make([]byte, 0, size), c.in...)
	}
	c.in = append(c.in, data...)
}

// keepFactor bounds the buffer for a long argument: at most that many times the bytes that
// have arrived. So the bytes are copied once or twice, and a client that only announces a
// long argument gets little memory.
const keepFactor = 8

// endOfInput notes that the peer sends nothing more. The input that has arrived still runs,
// and its replies are still sent.
func (c *conn) endOfInput() {
	c.eof = true
	if c.stall == 0 {
		c.ending = closes
	}
}

// runnable reports whether resume has something to do.
func (c *conn) runnable() bool {
	return c.stall == 0 && c.ending != closes && (c.unrun || c.eof)
}

// resume runs the input that was kept while the connection was stalled.
func (c *conn) resume() {
	if c.lane.late {
		c.endTurn()
		return
	}
	c.unrun = false
	c.w.RESP3 = c.resp3
	if c.flight != nil && !c.flight.reruns {
		c.undefer()
	}
	if args := c.deferred; args != nil && c.catchUp() {
		c.deferred = nil
		c.execute(args)
		c.noteTerms()
		if c.flight != nil && c.flight.sent {
			c.land()
		}
		if c.lane.left < 0 && c.lane.overdue() {
			c.endTurn()
		}
	}
	if c.flight != nil && c.flight.sent && !c.rerun() {
		c.unrun = true
		return
	}
	c.unrun = c.deferred != nil
	if c.inOff < len(c.in) {
		c.inOff += c.run(c.in[c.inOff:])
	}
	if c.inOff >= len(c.in) && c.in != nil {
		c.lane.recycle(c.in)
		c.in, c.inOff = nil, 0
	}
	c.takeOff()
	if c.eof && c.stall == 0 {
		c.ending = closes
	}
}

// run executes the complete commands of buf until the connection stalls or closes. It
// returns how many bytes it has executed.
func (c *conn) run(buf []byte) int {
	l := c.lane
	l.w.RESP3 = c.resp3
	n, last, work, counts := 0, 0, l.work(), l.counts
	if c.term != 0 && c.term != l.portions[c.home].part.Term() {
		c.mode |= modeRefusing
	}
	for n < len(buf) && c.stall == 0 && c.ending != closes && c.catchUp() {
		if ahead := c.runAhead(buf[n:]); ahead > 0 {
			n += ahead
			continue
		}
		args, used, err := c.parser.Next(buf[n:], c.limits, l.args)
		if cap(args) > cap(l.args) {
			l.args = args
		}
		if err != nil && c.flight != nil {
			// The leader's replies come before the error.
			c.stall |= stallLeader
			break
		}
		if err != nil {
			c.srv.stats.counts[countProtocolErrors].Add(1)
			start := len(l.w.B)
			c.error("ERR " + err.Error())
			c.finish(start, command.Commit{})
			c.ending = closes
			break
		}
		if used == 0 {
			break
		}
		n, last = n+used, used
		c.runOne(args, used)
	}
	c.weighWork(l.work() - work)
	if c.mode&modeDeaf != 0 {
		c.mode &^= modeDeaf
		if n == last && n == len(buf) { // no reply of another command is waiting
			c.ending = closes
		}
	}
	if l.counts != counts { // otherwise the counted command may belong to another connection
		c.lastCmd.Store(l.counted)
		c.noteTerms()
	}
	if c.ending == closes {
		return len(buf)
	}
	c.unrun = c.stall != 0
	return n
}

// weighWork notes how much work a batch of input was.
func (c *conn) weighWork(units int) {
	if units > unitsOfLight {
		c.heavy = heavyBatches
	} else if c.heavy > 0 {
		c.heavy--
	}
}

// runOne runs a parsed command of size bytes. An empty command does nothing.
func (c *conn) runOne(args [][]byte, size int) {
	if len(args) == 0 {
		return
	}
	l := c.lane
	start := len(l.w.B)
	c.execute(args)
	if len(l.w.B)+c.pending > c.srv.cfg.OutputBufferSoft {
		c.stall |= stallOutput
	}
	if l.left -= unitsOfCommand + l.call.Entries + (size+len(l.w.B)-start)/command.BytesOfEntry; l.left < 0 && l.overdue() {
		c.endTurn()
	}
}

// endTurn stalls the connection until the thread has served its other connections.
func (c *conn) endTurn() {
	if c.stall&stallTurn != 0 {
		return
	}
	c.stall |= stallTurn
	c.lane.turns = append(c.lane.turns, c)
	c.lane.rouseForTurns()
}

// queued sets how many bytes of output wait for the socket. It ends stallOutput when at
// most half of the soft limit waits.
func (c *conn) queued(n int) {
	c.pending = n
	if c.inbox.behind {
		c.goOn(n)
	} else if n <= c.srv.cfg.OutputBufferSoft/2 {
		c.stall &^= stallOutput
	}
	if n > c.srv.cfg.OutputBufferLimit {
		c.killForOutput()
	}
}

// killForOutput closes the connection because its output exceeds
// client-output-buffer-limit.
func (c *conn) killForOutput() {
	if !c.killed {
		c.srv.stats.counts[countOutputKills].Add(1)
		c.kill()
	}
}

// kill closes the connection at once. Replies that have not left are lost.
func (c *conn) kill() { c.killed, c.ending = true, closes }

// done reports whether the driver must close the connection.
func (c *conn) done() bool {
	return c.killed || c.ending == closes && c.pending == 0 && len(c.segments) == 0 && c.stall&(stallWorker|stallLeader) == 0
}

// idleLimit returns how long the connection may be idle; 0 means forever.
func (c *conn) idleLimit() time.Duration {
	if c.relayed {
		return relayedIdle
	}
	return c.srv.runtime.Load().Timeout
}

// expired reports whether the driver should close the connection because of a timeout. With
// waiting output, that is so if the peer has read nothing since waitingSince for too long.
// Otherwise it is so if the connection has been idle for too long. Subscribers, and clients
// that wait for the server, are not idle.
func (c *conn) expired(now, waitingSince int64) bool {
	if t := c.srv.cfg.WriteTimeout; t > 0 && c.pending > 0 && now-waitingSince > int64(t) {
		c.srv.stats.counts[countTimeoutKills].Add(1)
		return true
	}
	t := int64(c.idleLimit())
	if t <= 0 || now-c.lastActive.Load() <= t || c.subscriber.Listens() || c.stall != 0 || len(c.segments) != 0 {
		return false
	}
	c.srv.stats.counts[countTimeoutKills].Add(1)
	return true
}

// release gives back what the connection holds, after its driver has closed it.
func (c *conn) release() {
	c.closed = true
	c.lane.recycle(c.in)
	for _, s := range c.segments {
		if s.ticket != 0 {
			c.lane.portions[s.portion].hold(-1)
		}
	}
	c.in, c.parkedBytes, c.segments, c.tx, c.flight = nil, nil, nil, nil, nil
	c.watched.end()
	c.weigh()
	c.inbox.close()
	if c.cancel != nil {
		c.cancel()
	}
	if c.job != nil {
		c.job.abandon()
	}
	c.lane.unpark(c)
	c.subscriber.End()
	if c.stall&stallPause != 0 {
		c.srv.pauses.leave(c)
	}
	c.srv.forget(c)
}

// clientMeta is what CLIENT LIST shows and what commands do not need. It is only replaced
// as a whole, so any thread may read it.
type clientMeta struct {
	name, libName, libVersion string
	resp3                     bool
	noEvict, noTouch          bool
	multi                     bool
	db                        uint8
	admin                     bool // the client is the user admin
}

// setMeta replaces the meta with a changed copy.
func (c *conn) setMeta(change func(*clientMeta)) {
	m := *c.meta.Load()
	change(&m)
	c.meta.Store(&m)
}

// resetSession gives the connection the state of a new connection, including its name, but
// keeps its id.
func (c *conn) resetSession() {
	c.tx = nil
	c.watched.end()
	c.resp3 = false
	c.mode, c.db = 0, 0
	m := *c.meta.Load()
	c.meta.Store(&clientMeta{libName: m.libName, libVersion: m.libVersion})
	if c.relayed || c.srv.password() == "" {
		c.authenticated()
		return
	}
	c.limits = &resp.Unauthenticated
	c.mode |= modeNoAuth
}
