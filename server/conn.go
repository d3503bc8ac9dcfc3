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

// conn is a connection as a state machine: bytes in, commands, bytes out. It knows no
// socket and starts no goroutine. A driver owns it: the epoll loop, or the goroutines of a
// TLS or unix connection.
//
// # Threads
//
// Every method and every field that is not atomic belongs to the connection's driver
// thread: the goroutine of the loop, or the holder of a goroutine driver's lock. All
// connections of one thread use the same lane. It holds what a batch needs and an idle
// connection does not: the session, the time, scratch buffers. Another goroutine reaches a
// connection only by posting a function to its thread (conn.post). A post to a closed
// connection is dropped.
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
// Input that cannot run yet is copied into the connection's own buffer: half a command, or
// all input while stalled. A connection that waits for its next command has no buffer.
// While c.stall is not 0 the driver stops reading. So a client that is ahead of its replies
// fills its own socket, not the server's memory.
//
// # Replies in order, parked or not
//
// A handler writes one reply into c.w. It leaves with the batch, unless
//
//   - the call waits for a commit (command.Commit): the effect is decided but
//     not yet committed. The reply goes to c.parkedBytes as part of a segment with that
//     ticket. The connection is then *parked*. It goes on parsing and deciding. Replies
//     leave in command order, so every later reply queues behind: with its own ticket,
//     or with ticket 0 if it only waits for its predecessors. Consecutive replies of
//     one ticket are one segment. At max-waiting-replies the connection stalls
//     (stallParked) until some leave.
//   - the handler called block(job): the command takes too long for this
//     thread and runs on a worker. The connection stalls (stallWorker), since
//     the next command may depend on this one. The job's reply takes the
//     command's place in the order.
//
// A batch ends after turnTime, once its current command is done: see lane.spend. Then the
// connections that have more input stall (stallTurn) until the thread has served the
// others. A connection whose last input was heavy (weighWork) stalls as soon as it has
// more. A loop looks for light input between two heavy batches. A stream with heavy input
// first takes one of the places of Server.heavy.
//
// Partition.Release(upTo, err) completes every ticket up to upTo. Released segments join
// the output. After an error each reply of a segment that has a ticket is replaced by that
// error; a segment knows how many it holds. Replies in between that wait for no ticket stay
// as they are.
//
// A ticket may complete before its reply is parked. The settle that follows finds it; see
// Partition.Release for why none is missed.
//
// # The end
//
// closes: the connection runs no more commands, and closes once all replies have left
// (QUIT, an error of the protocol, an end of input). Before that a connection may depart,
// which loses nothing that has arrived: see departure.go. kill: it closes now, and drops
// everything.
type conn struct {
	srv  *Server
	lane *lane
	drv  driver
	w    *resp.Writer // &lane.w

	identity
	kept
	onWorker
	parking

	share turns.Share // the time that its slow steps have had of late: see turns

	frame   *frame // commands on their way to the leader
	relayed bool   // the peer is a node that forwards its clients' commands
	behalf  Client // the client, if another node or the caller of a line has named it

	// The present state.
	stall   stall
	heavy   uint8 // for so many more batches its input waits for that of others
	mode    mode
	db      uint8 // the database of its commands
	resp3   bool
	inExec  bool
	eof     bool // the peer sends no more
	killed  bool // close now
	closed  bool // the driver has let go
	ending  ending
	pending int // output bytes that wait for the socket
	output  int // memory of the driver for output, in bytes
	sent    int // memory of the frame, while there is one

	tx         *transaction       // after MULTI
	cancel     context.CancelFunc // ends a WAIT, if there is one
	watched    watches
	subscriber pubsub.Subscriber

	// Any thread reads meta and the activity, for CLIENT LIST.
	meta       atomic.Pointer[clientMeta]
	lastCmd    atomic.Pointer[command.Spec]
	lastActive atomic.Int64 // lane.now of its last batch
	memory     atomic.Int64 // what clientMemory has accounted
	inbox      inbox
}

// identity names a connection. It does not change once others see it.
type identity struct {
	id      uint64 // 0 for a Caller's line
	addr    string
	laddr   string
	fd      int
	created int64 // Unix ns of the wall clock
}

// kept is the input of a connection that has not run.
type kept struct {
	parser   resp.Parser
	limits   *resp.Limits
	in       []byte // input that has not run, from inOff on
	inOff    int
	deferred [][]byte // a parsed command that must wait, before in
	unrun    bool     // it, or input, was kept because of a stall, not because it is half a command
}

// onWorker is the command of a connection that runs on a worker.
type onWorker struct {
	job        *spending // runs on a worker, or waits for one
	jobArgs    [][]byte  // of the command on the worker, for the slow log
	jobPortion uint8     // the index of the portion in the lane
	jobSince   uint64    // the portion's since of its batch, if it decides; else 0
	jobCommits bool      // its reply waits for its commit
	jobStrict  bool      // and is an error if that fails, whatever the durability
	muteJob    bool      // its reply is suppressed (CLIENT REPLY)
}

// parking holds the replies of a connection that wait for their commit: see park.
type parking struct {
	parkedBytes   []byte
	segments      []segment
	parkedReplies int
	parkedAt      int // position in lane.parked, from 1; 0 if it is not in it
}

// driver is what a connection needs from its driver.
type driver interface {
	// settle moves output out and lets stalled input run; see conn. It must be called on
	// the driver thread.
	settle()
}

// stall is a set of reasons why a connection runs no further commands.
type stall uint8

const (
	stallWorker stall = 1 << iota // a command of it runs on a worker
	stallParked                   // max-waiting-replies are parked
	stallOutput                   // the peer reads its replies too slowly
	stallPause                    // CLIENT PAUSE
	stallLeader                   // commands of it are on their way to the leader
	stallTurn                     // others of its thread go first
)

// mode is a set of reasons why a command needs more than a call of its handler. The
// server's own bits (MONITOR, …) are in lane.mode.
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
	modeDeaf                        // it may wait for messages of another node: see greets

	modeMonitors  // somebody watches with MONITOR
	modePaused    // CLIENT PAUSE is on
	modeTimeAll   // slowlog-log-slower-than is too low to time slow commands only
	modeSample    // this batch's first command is timed
	modeDecisions // the decision log is on

	modeElsewhere // this node does not decide: see leader.go
	modeWaiting   // every reply about keys waits for its commit
	modeDurable   // every reply without ASYNC waits for its commit
	modeCrossing  // the command's keys are of several partitions
)

// now returns the engine's time of this batch in Unix nanoseconds.
func (c *conn) now() int64 { return c.lane.now }

// error replies an error; msg begins with its code.
func (c *conn) error(msg string) { c.w.Error(msg) }

// post runs fn on the connection's driver thread, soon, unless it is closed by then. Any
// goroutine may call it. It does not wait.
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

// keepFactor bounds the room of a long argument: so many times the bytes that have arrived.
// So these are copied once or twice, and a client that only announces an argument gets
// little.
const keepFactor = 8

// endOfInput notes that the peer sends no more. What it has sent still runs, and its
// replies are still sent.
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

// run executes the complete commands of buf until something stalls or closes the
// connection. It returns how many bytes are done.
func (c *conn) run(buf []byte) int {
	l := c.lane
	l.w.RESP3 = c.resp3
	n, last, work, counts := 0, 0, l.work(), l.counts
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
			// The error comes after the replies of the leader.
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
		if n == last && n == len(buf) { // nobody waits for another reply
			c.ending = closes
		}
	}
	if l.counts != counts { // else the counted command may be another connection's
		c.lastCmd.Store(l.counted)
	}
	if c.ending == closes {
		return len(buf)
	}
	c.unrun = c.stall != 0
	return n
}

// weighWork notes the work of a batch of input.
func (c *conn) weighWork(units int) {
	if units > unitsOfLight {
		c.heavy = heavyBatches
	} else if c.heavy > 0 {
		c.heavy--
	}
}

// runOne runs a parsed command of size bytes. An empty one does nothing.
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

// endTurn stalls the connection until the other connections of its thread are served.
func (c *conn) endTurn() {
	if c.stall&stallTurn != 0 {
		return
	}
	c.stall |= stallTurn
	c.lane.turns = append(c.lane.turns, c)
	c.lane.rouseForTurns()
}

// queued sets how many bytes of output wait for the socket. It ends stallOutput once half
// of the soft limit has gone.
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

// kill closes the connection now. Replies that have not left are lost.
func (c *conn) kill() { c.killed, c.ending = true, closes }

// done reports whether the driver must close the connection.
func (c *conn) done() bool {
	return c.killed || c.ending == closes && c.pending == 0 && len(c.segments) == 0 && c.stall&(stallWorker|stallLeader) == 0
}

// idleLimit returns how long the connection may be idle; 0 means for ever.
func (c *conn) idleLimit() time.Duration {
	if c.relayed {
		return relayedIdle
	}
	return c.srv.runtime.Load().Timeout
}

// expired reports whether the connection has been idle for too long. With waiting output it
// reports whether the peer has taken none since waitingSince for too long. Subscribers, and
// clients that wait for the server, are not idle.
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

// clientMeta is what CLIENT LIST shows and commands do not need. It is replaced as a whole,
// so that any thread may read it.
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

// resetSession gives the connection the state of a new one, including its name, but not its
// id.
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
