package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// lane is the part of the server that belongs to one driver thread. The connections of an
// event loop, or a single connection with its own goroutines, use it while a batch of
// commands runs. Except for post, only that thread uses it.
type lane struct {
	srv      *Server
	table    *command.Table // the server's, or the part that a node may send
	w        resp.Writer    // the output of the connection being served
	reserved int            // bytes of its growth that are reserved: see room
	parts    [][]byte       // of a job's long reply, before w: see takeParts
	args     [][]byte       // scratch of the parser
	ahead    ahead          // scratch of runAhead
	mode     mode           // the server's bits for every connection
	batches  uint32
	counters *counters

	// The last two commands found. Pipelines repeat or alternate their commands, and a
	// comparison of a few bytes is cheaper than a hash.
	last, before named
	counting
	refused bool // the error being written is of a command that did not run
	timed   bool // the running command, or the whole transaction, is timed

	left int  // units of work until the batch looks at the clock; see spend
	done int  // units of work up to the last look
	late bool // the batch has taken turnTime: connections with more input wait
	// turns are the connections that wait until the others of the thread are served.
	turns []*conn
	looks bool // the driver looks at turns itself and need not be woken
	// events is set while a loop serves all sockets that epoll has named.
	events bool

	call   command.Call // the running command
	queued command.Call // the running command of a transaction, while call is its EXEC

	// Who decides; see leader.go and route.go.
	portions []portion
	*portion               // the one that commands run on
	at       uint8         // the index of the portion
	asked    bool          // Await was called since the driver's last look
	beat     atomic.Uint64 // odd within a batch, and never the same in two batches
	called   bool          // the lane is a line's; guarded by srv.lanesMu

	frames []*frame // empty ones, for commands that the leader executes
	spare  [][]byte // buffers for kept input and parked replies
	parked []*conn  // connections with parked replies

	waiting atomic.Int64 // len(parked), for recheck and Stats

	// wake makes the driver thread call runPosts soon. mu must be held, so that no call
	// comes after close: by then the descriptor that wakes the loop may have a new owner.
	wake   func()
	mu     sync.Mutex
	posts  []post // guarded by mu
	woken  bool   // guarded by mu: wake was called since the last runPosts
	closed bool   // guarded by mu
}

// counting is the calls of one command that are not in counters yet.
type counting struct {
	counted *command.Spec // the command
	counts  uint64        // how often a command was made the counted one
	run     uint64        // consecutive calls of it
	passed  uint64        // limits' decisions among them
	denied  uint64
	errors  uint64
}

// post is a function for the driver thread, for a connection or, if c is nil, for the lane.
type post struct {
	c     *conn
	fn    func()
	spent *spending // ends with it; nil for most
}

const (
	// bufferSize is the capacity of a fresh buffer for kept input: usually the tail of a
	// pipeline, one command at most.
	bufferSize = 4 << 10
	// bufferKept is the largest buffer that is reused, and spareBuffers how many a lane
	// keeps.
	bufferKept   = 128 << 10
	spareBuffers = 64
	// argsKept is the largest argument scratch kept after a batch.
	argsKept = 4096
	// outputKept is the largest output scratch kept after a batch.
	outputKept = 1 << 20
	// turnTime is how long a batch runs commands while others may wait for the thread.
	turnTime = time.Millisecond
	// A batch reads the clock after each unitsOfLook units of work, some 100 µs. A unit
	// stands for 100 ns of work: one entry of a value, or command.BytesOfEntry bytes of a
	// command or a reply. A command counts as unitsOfCommand: most take less.
	unitsOfLook    = command.InlineEntries
	unitsOfCommand = 8
	unitTime       = 100 * time.Nanosecond
	// unitsOfLight is the most work of light input: some 20 commands. A connection with
	// more work is heavy for heavyBatches: its input waits until the input of light
	// connections has run.
	unitsOfLight = 200
	heavyBatches = 8
	// sampleEvery is how many batches pass between two timed ones. Two clock reads in 64
	// batches cost nothing that shows.
	sampleEvery = 64
)

func (s *Server) newLane(wake func()) *lane {
	l := &lane{srv: s, table: s.table, portions: s.newPortions(), wake: wake, counters: s.stripe()}
	l.call.W, l.queued.W, l.w.Room = &l.w, &l.w, l.room
	l.enter(0)
	l.queued.InExec = true
	s.lanesMu.Lock()
	s.lanes[l] = struct{}{}
	s.lanesMu.Unlock()
	return l
}

// close ends the lane, after its last connection. Later posts are dropped.
func (l *lane) close() {
	l.end()
	l.mu.Lock()
	l.closed = true
	for _, p := range l.posts {
		p.end()
	}
	l.posts, l.turns = nil, nil
	l.mu.Unlock()
	for i := range l.portions {
		l.portions[i].sess.Close()
	}
	l.srv.lanesMu.Lock()
	delete(l.srv.lanes, l)
	l.srv.lanesMu.Unlock()
}

// eachLane calls fn with every lane.
func (s *Server) eachLane(fn func(*lane)) {
	s.lanesMu.Lock()
	defer s.lanesMu.Unlock()
	for l := range s.lanes {
		fn(l)
	}
}

// begin opens a batch: it reads the clock of each partition once, and the server's modes.
func (l *lane) begin() {
	l.mode = mode(l.srv.mode.Load())
	l.batches++
	if l.batches%sampleEvery == 0 {
		l.mode |= modeSample
	}
	l.beat.Store(uint64(l.batches)<<1 | 1)
	l.left, l.done, l.late = unitsOfLook, 0, false
	for i := range l.portions {
		l.portions[i].begin()
	}
	l.enter(0)
}

// spend counts the time of a command of the batch.
func (l *lane) spend(d time.Duration) { l.left -= int(d / unitTime) }

// work returns how many units of work the batch has done.
func (l *lane) work() int { return l.done + unitsOfLook - l.left }

// overdue reads the clock, and reports whether the batch has taken turnTime.
func (l *lane) overdue() bool {
	l.done, l.left = l.work(), unitsOfLook
	first := &l.portions[0]
	l.late = first.part.Engine().Now()-first.now >= int64(turnTime)
	return l.late
}

// end closes a batch and publishes its counts.
func (l *lane) end() {
	l.flushCount()
	if l.errors > 0 {
		l.counters.errors.Add(l.errors)
		l.errors = 0
	}
	if cap(l.args) > argsKept {
		l.args = nil
	}
	for i := range l.portions {
		if p := &l.portions[i]; p.await {
			p.await, l.asked = false, true
			p.part.Await()
		}
	}
	l.beat.Store(uint64(l.batches) << 1)
}

// named is a command under one of its names, in upper or lower case.
type named struct {
	cmd  *command.Spec
	name []byte
}

// find is table.find with a cache of two names.
func (l *lane) find(args [][]byte) *command.Spec {
	if l.last.cmd != nil && string(args[0]) == string(l.last.name) {
		return l.last.cmd
	}
	return l.findOther(args)
}

// findOther is find for a command other than the last one.
func (l *lane) findOther(args [][]byte) *command.Spec {
	if l.before.cmd != nil && string(args[0]) == string(l.before.name) {
		l.last, l.before = l.before, l.last
		return l.last.cmd
	}
	cmd := l.table.Find(args)
	if cmd != nil && cmd.Alone() {
		l.last, l.before = l.before, l.last
		l.last = named{cmd, append(l.last.name[:0], args[0]...)}
	}
	return cmd
}

// count counts a call. Consecutive calls of one command are added up and reach the shared
// counters together.
func (l *lane) count(cmd *command.Spec) {
	l.turnTo(cmd)
	l.run++
}

// turnTo makes cmd the counted command.
func (l *lane) turnTo(cmd *command.Spec) {
	l.counts++
	if cmd != l.counted {
		l.flushCount()
		l.counted = cmd
	}
}

func (l *lane) flushCount() {
	if l.run > 0 {
		l.counters.calls[l.counted.Index].Add(l.run)
		l.counters.commands.Add(l.run)
		l.run = 0
	}
	if t := l.call.Tally; t != nil {
		t.Flush()
	}
	if t := l.queued.Tally; t != nil {
		t.Flush()
	}
	if l.passed > 0 {
		l.counters.passed[l.counted.Index].Add(l.passed)
		l.passed = 0
	}
	if l.denied > 0 {
		l.counters.denied[l.counted.Index].Add(l.denied)
		l.denied = 0
	}
}

// countDecisions counts the decisions of a call of the counted command.
func (l *lane) countDecisions(call *command.Call) {
	l.passed += uint64(call.Passed)
	l.denied += uint64(call.Denied)
}

// sawError counts a reply to c that begins with an error. cmd is nil for an unknown
// command. After a refusal the stream refuses the following commands too: see
// partition.Refuses.
func (l *lane) sawError(c *conn, cmd *command.Spec, reply []byte) {
	if c.relayed && partition.Refuses(reply) {
		c.mode |= modeRefusing
	}
	l.errors++
	l.srv.stats.errors.count(reply[1:])
	refused := l.refused
	l.refused = false
	switch {
	case cmd == nil:
	case refused:
		l.counters.refused[cmd.Index].Add(1)
	default:
		l.counters.failed[cmd.Index].Add(1)
	}
}

// takeOutput returns what the connection being served has written since the last call.
// The bytes are valid until it writes again. The commands are counted before this
// returns: a client that has a reply finds its command in the metrics.
func (l *lane) takeOutput() []byte {
	l.flushCount()
	out := l.w.B
	l.w.B = out[:0]
	if cap(out) > outputKept {
		l.w.B = nil
	}
	l.w.Refused = false
	if l.reserved > 0 {
		l.srv.memory.Add(-int64(l.reserved)) // the driver accounts for what it keeps
		l.reserved = 0
	}
	return out
}

// takeParts returns the parts of a long reply, which precede takeOutput. The driver owns
// them.
func (l *lane) takeParts() [][]byte {
	parts := l.parts
	l.parts = nil
	return parts
}

// room reserves n more bytes of output while it is written; length is its length by then.
// If memory is missing or the output is too long, the connection is closed.
func (l *lane) room(n, length int) bool {
	c, ok := l.call.Host.(*conn)
	switch {
	case !ok: // nothing was executed yet
		return true
	case c.killed:
		return false
	case c.pending+length > c.srv.cfg.OutputBufferLimit:
		c.killForOutput()
		return false
	case !l.srv.memory.Borrow(int64(n)):
		c.killForMemory()
		return false
	}
	l.reserved += n
	return true
}

// buffer returns an empty buffer.
func (l *lane) buffer() []byte {
	if n := len(l.spare); n > 0 {
		b := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return b
	}
	return make([]byte, 0, bufferSize)
}

// recycle takes a buffer for reuse.
func (l *lane) recycle(b []byte) {
	if cap(b) > 0 && cap(b) <= bufferKept && len(l.spare) < spareBuffers {
		l.spare = append(l.spare, b[:0])
	}
}

// park notes that c has parked replies. Tickets that are complete already are found when c
// is settled, after this; see Partition.Release.
func (l *lane) park(c *conn) {
	if c.parkedAt != 0 {
		return
	}
	l.parked = append(l.parked, c)
	c.parkedAt = len(l.parked)
	l.waiting.Store(int64(len(l.parked)))
}

// unpark forgets c.
func (l *lane) unpark(c *conn) {
	if c.parkedAt == 0 {
		return
	}
	i, last := c.parkedAt-1, len(l.parked)-1
	l.parked[i] = l.parked[last]
	l.parked[i].parkedAt = i + 1
	l.parked[last] = nil
	l.parked = l.parked[:last]
	c.parkedAt = 0
	l.waiting.Store(int64(last))
}

// passOn tells the parked connections which tickets are complete.
func (l *lane) passOn() {
	// A copy, since a connection that has all its replies leaves the list, and one that
	// resumes may come back to it.
	for _, c := range slices.Clone(l.parked) {
		if !c.closed {
			c.drv.settle()
		}
	}
}

// post runs fn on the lane's thread. If c is not nil, it is settled afterwards, and fn does
// not run once it is closed.
func (l *lane) post(c *conn, fn func()) { l.postSpent(c, fn, nil) }

// postSpent is post for the end of a job. spent ends afterwards, whether fn has run or not.
func (l *lane) postSpent(c *conn, fn func(), spent *spending) {
	p := post{c, fn, spent}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		p.end()
		return
	}
	l.posts = append(l.posts, p)
	l.rouse()
}

// rouse wakes the driver. mu must be held.
func (l *lane) rouse() {
	if !l.woken && !l.closed {
		l.woken = true
		l.wake()
	}
}

// runPosts runs the posts, and then the connections that have ended their turn. It must be
// called on the driver thread, outside of a batch.
func (l *lane) runPosts() {
	l.mu.Lock()
	posts := l.posts
	l.posts = nil
	l.woken = false
	l.mu.Unlock()
	if len(posts) > 0 {
		l.runBatch(posts)
	}
	if len(l.turns) > 0 {
		l.runTurns()
	}
}

// runBatch runs posts until the batch has taken turnTime.
func (l *lane) runBatch(posts []post) {
	l.begin()
	for i, p := range posts {
		if l.late {
			l.putOff(posts[i:])
			break
		}
		if p.c == nil {
			p.fn()
			continue
		}
		if !p.c.closed {
			l.w.RESP3 = p.c.resp3
			p.fn()
			p.c.drv.settle()
		}
		p.end()
	}
	l.end()
}

// putOff leaves posts to the next runPosts, before all others.
func (l *lane) putOff(posts []post) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posts = append(posts, l.posts...)
	l.rouse()
}

// rouseForTurns wakes the driver, unless it looks at turns itself.
func (l *lane) rouseForTurns() {
	if !l.looks {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rouse()
	}
}

// runTurns resumes connections that have ended their turn, in the order in which they did,
// for turnTime.
func (l *lane) runTurns() {
	n, over := 0, int64(0)
	for ; n < len(l.turns) && (n == 0 || l.portions[0].now < over); n++ {
		l.begin()
		if n == 0 {
			over = l.portions[0].now + int64(turnTime)
		}
		if c := l.turns[n]; !c.closed {
			c.stall &^= stallTurn
			l.w.RESP3 = c.resp3
			c.drv.settle()
		}
		l.end()
	}
	if l.turns = slices.Delete(l.turns, 0, n); len(l.turns) > 0 {
		l.rouseForTurns()
	}
}

// end ends what the post's job has spent.
func (p *post) end() {
	if p.spent != nil {
		p.spent.end()
	}
}
