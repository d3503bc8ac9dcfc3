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

// conn is a connection as a state machine: bytes in, commands, bytes out. It
// knows no socket and starts no goroutine. A driver owns it: the epoll loop, or
// the goroutines of a TLS or unix connection.
//
// # Threads
//
// Every method and every field that is not atomic belongs to the connection's
// driver thread: the goroutine of the loop, or whoever holds the lock of a
// goroutine driver. All connections of one thread share a lane, which holds
// what a batch needs and an idle connection does not: the session, the time,
// scratch buffers. Another goroutine reaches a connection only by posting a
// function to its thread (conn.post); a post to a closed connection is dropped.
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
// Input that cannot run yet (half a command, or all of it while stalled) is
// copied into the connection's own buffer; a connection that waits for its
// next command holds none. While c.stall is not 0 the driver stops reading, so
// that a client which is ahead of its replies fills its own socket and nobody
// else's memory.
//
// # Replies in order, held or not
//
// A handler writes one reply into c.w. It leaves with the batch, unless
//
//   - the call waits for a commit (command.Commit): the effect is decided but
//     not yet committed. The reply goes to c.parkedBytes as part of a segment with that
//     ticket. The connection is then *parked*: it goes on parsing and deciding,
//     and since replies leave in command order, every later reply queues behind
//     (with its own ticket, or with ticket 0: it waits for its predecessors and
//     for nothing else). Consecutive replies of one ticket share a segment. At
//     max-waiting-replies the connection stalls (stallParked) until some leave.
//   - the handler called block(job): the command takes too long for this
//     thread and runs on a worker. The connection stalls (stallWorker), since
//     the next command may depend on this one; the job's reply takes the
//     command's place in the order.
//
// A batch takes turnTime at most, and a command more: see lane.spend. Then the
// connections that have more input stall (stallTurn) until the thread has served
// the others. So does one whose last input was heavy (weighWork), as soon as it has
// more: a loop looks for light input between two batches of heavy ones, and streams
// take a place of Server.heavy.
//
// Partition.Release(upTo, err) completes every ticket up to upTo: released
// segments join the output; with an error each reply of a segment that carries
// a ticket is replaced by that error (a segment knows how many it holds), and
// the replies in between that wait for no ticket stay what they are.
//
// A ticket that is completed before its reply is held is found by the settle
// that follows; see Partition.Release for why none can be missed.
//
// # The end
//
// closes: no more commands; close once everything owed has left (QUIT, an
// error of the protocol, an end of input). Before it a connection may depart,
// which loses nothing that has arrived: see departure.go. kill: close now, and
// drop everything.
type conn struct {
	srv  *Server
	lane *lane
	drv  driver
	w    *resp.Writer // &lane.w

	identity
	kept
	onWorker
	parking

	share turns.Share // what its slow steps have had of late: see turns

	frame   *frame // commands on their way to the leader
	relayed bool   // the peer is a node that forwards its clients' commands
	behalf  Client // whose the commands are, if another node or the caller of a line says so

	// What is going on.
	stall   stall
	heavy   uint8 // for so many batches more its input waits for that of others
	mode    mode
	db      uint8 // the database that its commands are about
	resp3   bool
	inExec  bool
	eof     bool // the peer sends no more
	killed  bool // close now
	closed  bool // the driver has let go
	ending  ending
	pending int // output bytes that wait for the socket
	output  int // what the driver holds for output, in bytes
	sent    int // what the frame takes, while there is one

	tx         *transaction       // after MULTI
	cancel     context.CancelFunc // ends a WAIT, if there is one
	watched    watches
	subscriber pubsub.Subscriber

	// meta and the activity are read by CLIENT LIST on any thread.
	meta       atomic.Pointer[clientMeta]
	lastCmd    atomic.Pointer[command.Spec]
	lastActive atomic.Int64 // lane.now of its last batch
	memory     atomic.Int64 // what clientMemory has accounted
	inbox      inbox
}

// identity is what a connection is called. It does not change once others see it.
type identity struct {
	id      uint64 // 0 for a Caller's line
	addr    string
	laddr   string
	fd      int
	created int64 // Unix ns of the wall clock
}

// kept is the input of a connection, as far as it has not run.
type kept struct {
	parser   resp.Parser
	limits   *resp.Limits
	in       []byte // input that has not run, from inOff on
	inOff    int
	deferred [][]byte // a parsed command that has to wait, before in
	unrun    bool     // it, or input, was kept because of a stall, not for being half a command
}

// onWorker is the command of a connection that runs on a worker.
type onWorker struct {
	job        *spending // runs on a worker, or waits for one
	jobArgs    [][]byte  // of the command that runs on a worker, for the slow log
	jobPortion uint8     // of the lane, that it is about
	jobSince   uint64    // the portion's since of its batch, if it decides; else 0
	jobCommits bool      // its reply waits for its commit
	jobStrict  bool      // and tells if that fails, whatever the durability
	muteJob    bool      // its reply is not wanted (CLIENT REPLY)
}

// parking has the replies of a connection that wait for their commit: see park.
type parking struct {
	parkedBytes   []byte
	segments      []segment
	parkedReplies int
	parkedAt      int // position in lane.parked, from 1; 0 is none
}

// driver is what a connection needs from its driver.
type driver interface {
	// settle moves output out and lets stalled input run; see conn. It must
	// be called on the driver thread.
	settle()
}

// stall is a set of reasons why a connection runs no further commands.
type stall uint8

const (
	stallWorker stall = 1 << iota // a command of it runs on a worker
	stallParked                   // max-waiting-replies are held
	stallOutput                   // the peer reads its replies too slowly
	stallPause                    // CLIENT PAUSE
	stallLeader                   // commands of it are on their way to the leader
	stallTurn                     // its turn is over: others of its thread go first
)

// mode is a set of reasons why a command needs more than a call of its
// handler. The server's own (MONITOR, …) are in lane.mode.
type mode uint32

const (
	modeNoAuth     mode = 1 << iota // requirepass, and no password yet
	modeMulti                       // between MULTI and EXEC
	modeSubscribed                  // RESP2 with subscriptions: few commands are allowed
	modeReplyOff                    // CLIENT REPLY OFF
	modeReplySkip                   // CLIENT REPLY SKIP: this command's reply
	modeSkipNext                    // CLIENT REPLY SKIP: the next command's reply
	modeFramed                      // commands before this one are in a frame
	modeDatabase                    // its database is not 0
	modeTracking                    // CLIENT TRACKING ON
	modeRefusing                    // a stream of another node: a command was refused

	modeMonitors  // somebody watches with MONITOR
	modePaused    // CLIENT PAUSE is on
	modeTimeAll   // slowlog-log-slower-than is too low to time slow commands only
	modeSample    // this batch's first command is timed
	modeDecisions // there is a decision log

	modeElsewhere // this node does not decide: see leader.go
	modeWaiting   // every reply about keys waits for its commit
	modeDurable   // so do those that did not say ASYNC
	modeCrossing  // the command's keys are of several partitions
)

// now returns the engine's time of this batch in Unix nanoseconds.
func (c *conn) now() int64 { return c.lane.now }

// error replies an error; msg begins with its code.
func (c *conn) error(msg string) { c.w.Error(msg) }

// post runs fn on the connection's driver thread, soon, unless it is closed by
// then. It may be called by any goroutine and does not wait.
func (c *conn) post(fn func()) { c.lane.post(c, fn) }

// input takes bytes from the peer and runs the commands that they complete.
// data may be reused afterwards.
func (c *conn) input(data []byte) {
	if c.ending == closes {
		return
	}
	if len(c.in) == 0 && c.stall == 0 {
		if n := c.run(data); n < len(data) {
			c.keep(data[n:])
		}
		c.sendFrame()
		return
	}
	c.keep(data)
	if c.stall == 0 {
		c.resume()
	} else {
		c.unrun = true
	}
}

// keep appends input that cannot run yet.
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

// keepFactor is how much room kept input gets for a long argument at a time: what has
// come of it is copied once or twice, and who just announces one gets little.
const keepFactor = 8

// endOfInput reports whether the peer sends no more. What it has sent still runs,
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
	if args := c.deferred; args != nil && c.catchUp() {
		c.deferred = nil
		c.execute(args)
		if c.lane.left < 0 && c.lane.overdue() {
			c.endTurn()
		}
	}
	c.unrun = c.deferred != nil
	if c.inOff < len(c.in) {
		c.inOff += c.run(c.in[c.inOff:])
	}
	if c.inOff >= len(c.in) && c.in != nil {
		c.lane.recycle(c.in)
		c.in, c.inOff = nil, 0
	}
	c.sendFrame()
	if c.eof && c.stall == 0 {
		c.ending = closes
	}
}

// run executes the complete commands of buf until something stalls or closes
// the connection, and returns how many bytes are done with.
func (c *conn) run(buf []byte) int {
	l := c.lane
	l.w.RESP3 = c.resp3
	n, work := 0, l.work()
	for n < len(buf) && c.stall == 0 && c.ending != closes && c.catchUp() {
		if ahead := c.runAhead(buf[n:]); ahead > 0 {
			n += ahead
			continue
		}
		args, used, err := c.parser.Next(buf[n:], c.limits, l.args)
		if cap(args) > cap(l.args) {
			l.args = args
		}
		if err != nil && c.frame != nil {
			// The error's turn comes after the replies of the leader.
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
		n += used
		c.runOne(args, used)
	}
	c.weighWork(l.work() - work)
	c.lastCmd.Store(l.counted)
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

// runOne runs a parsed command of size bytes; an empty one is nothing.
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

// endTurn stalls the connection until the other connections of its thread have
// had their turn.
func (c *conn) endTurn() {
	if c.stall&stallTurn != 0 {
		return
	}
	c.stall |= stallTurn
	c.lane.turns = append(c.lane.turns, c)
	c.lane.rouseForTurns()
}

// queued tells how many bytes of output wait for the socket, and ends
// stallOutput once half of the soft limit has gone.
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

// killForOutput closes the connection for output of more than
// client-output-buffer-limit.
func (c *conn) killForOutput() {
	if !c.killed {
		c.srv.stats.counts[countOutputKills].Add(1)
		c.kill()
	}
}

// kill closes the connection now; replies still owed are lost.
func (c *conn) kill() { c.killed, c.ending = true, closes }

// done reports whether the driver is to close the connection.
func (c *conn) done() bool {
	return c.killed || c.ending == closes && c.pending == 0 && len(c.segments) == 0 && c.stall&(stallWorker|stallLeader) == 0
}

// idleLimit is how long the connection may be idle; 0 is for ever.
func (c *conn) idleLimit() time.Duration {
	if c.relayed {
		return relayedIdle
	}
	return c.srv.runtime.Load().Timeout
}

// expired reports whether the connection has been idle, or (with output waiting
// and none taken since waitingSince) its peer deaf, for longer than allowed.
// Subscribers, and those who wait for the server, are not idle.
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

// release gives back what the connection holds, once its driver has closed it.
func (c *conn) release() {
	c.closed = true
	c.lane.recycle(c.in)
	c.in, c.parkedBytes, c.segments, c.tx, c.frame = nil, nil, nil, nil, nil
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

// clientMeta is what CLIENT LIST shows and the hot path does not touch. It is
// replaced as a whole, so that any thread may read it.
type clientMeta struct {
	name, libName, libVersion string
	resp3                     bool
	noEvict, noTouch          bool
	multi                     bool
	db                        uint8
	admin                     bool // of the user admin
}

// setMeta replaces the meta with a changed copy.
func (c *conn) setMeta(change func(*clientMeta)) {
	m := *c.meta.Load()
	change(&m)
	c.meta.Store(&m)
}

// resetSession puts the connection into the state of a new one, its name
// included and its id excepted.
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
