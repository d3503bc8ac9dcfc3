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
// commands runs. Only the driver thread uses it, except for post.
type lane struct {
	srv      *Server
	table    *command.Table // the server's table, or the part that the peer may use if it is a node
	w        resp.Writer    // the output of the connection that is being served
	reserved int            // bytes of the output's growth that are reserved; see room
	parts    [][]byte       // pieces of a job's long reply, which come before w; see takeParts
	args     [][]byte       // scratch memory of the parser
	ahead    ahead          // scratch memory of runAhead
	mode     mode           // the server's bits, for all connections
	batches  uint64
	terms    uint64 // Server.terms when the batch began, or termsLost
	counters *counters

	// The last two commands that were found. Pipelines repeat commands, or alternate two of
	// them, and a comparison of a few bytes is cheaper than a hash.
	last, before named
	counting
	refused bool // the error being written belongs to a command that did not run
	timed   bool // the time of the running command, or of the whole transaction, is measured

	left int  // units of work until the batch looks at the clock; see spend
	done int  // units of work up to the last look
	late bool // the batch has taken turnTime: connections with more input must wait
	// turns holds the connections that have ended their turn. They wait until the other
	// connections of the thread are served.
	turns []*conn
	looks bool // the driver looks at turns itself, so nobody need wake it
	// events is set while a loop serves all sockets that epoll has returned.
	events bool

	call   command.Call // the running command
	queued command.Call // the running command of a transaction, while call is its EXEC

	routing
	asked  bool          // partition.Await was called since the driver last looked
	beat   atomic.Uint64 // odd during a batch, and different in all batches
	called bool          // the lane belongs to a line; guarded by srv.lanesMu

	frames  []*frame  // empty frames, for commands that a leader executes
	flights []*flight // empty flights
	spare   [][]byte  // buffers for kept input and parked replies
	parked  []*conn   // connections that have parked replies

	waiting atomic.Int64 // len(parked), which other threads read

	// wake makes the driver thread call runPosts soon. The caller must hold mu, so that
	// nobody calls wake after close: the descriptor that wakes the loop may then have a new
	// owner.
	wake   func()
	mu     sync.Mutex
	posts  []post // guarded by mu
	woken  bool   // guarded by mu: wake was called since the last runPosts
	closed bool   // guarded by mu
}

// counting holds the calls of one command that are not yet in counters.
type counting struct {
	counted *command.Spec // the command
	counts  uint64        // how often counted has changed
	run     uint64        // consecutive calls of counted
	passed  uint64        // decisions of limits in these calls that passed
	denied  uint64
	errors  uint64
}

// post is a function that the driver thread must run. It is for the connection c or, if c
// is nil, for the lane.
type post struct {
	c     *conn
	fn    func()
	spent *spending // ends with the post; nil for most posts
}

const (
	// bufferSize is the capacity of a new buffer for kept input, in bytes. Usually the
	// input is the rest of a pipeline, at most one incomplete command.
	bufferSize = 4 << 10
	// bufferKept is the largest buffer, in bytes, that is kept for reuse. spareBuffers is
	// how many a lane keeps.
	bufferKept   = 128 << 10
	spareBuffers = 64
	// argsKept is the most arguments for which the scratch memory is kept after a batch.
	argsKept = 4096
	// outputKept is the largest output buffer, in bytes, that is kept after a batch.
	outputKept = 1 << 20
	// turnTime is how long a batch runs commands while others may wait for the thread.
	turnTime = time.Millisecond
	// A batch reads the clock after each unitsOfLook units of work, which is about 100 µs.
	// A unit stands for 100 ns of work: one entry of a value, or command.BytesOfEntry bytes
	// of a command or a reply. A command counts as unitsOfCommand; most take less.
	unitsOfLook    = command.InlineEntries
	unitsOfCommand = 8
	unitTime       = 100 * time.Nanosecond
	// unitsOfLight is the most work of light input: about 20 commands. A connection with
	// more work is heavy for heavyBatches: its input waits until the input of light
	// connections has run.
	unitsOfLight = 200
	heavyBatches = 8
	// sampleEvery is how many batches pass between two whose time is measured. The cost of
	// two clock reads in 64 batches is not measurable.
	sampleEvery = 64
)

func (s *Server) newLane(wake func()) *lane {
	l := &lane{srv: s, table: s.table, routing: routing{portions: s.newPortions()}, wake: wake, counters: s.stripe()}
	l.call.W, l.queued.W, l.w.Room = &l.w, &l.w, l.room
	l.enter(0)
	l.queued.InExec = true
	s.lanesMu.Lock()
	s.lanes[l] = struct{}{}
	s.lanesMu.Unlock()
	return l
}

// close ends the lane, after its last connection has closed. Later posts are dropped.
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
		if sess := l.portions[i].sess; sess != nil {
			sess.Close()
		}
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

// begin begins a batch. It reads the server's modes, and the role and clock of the first
// partition. Those of other partitions are read when the batch first uses them.
func (l *lane) begin() {
	l.mode = mode(l.srv.mode.Load())
	l.batches++
	l.terms = l.srv.terms.Load() // before the roles
	if l.batches%sampleEvery == 0 {
		l.mode |= modeSample
	}
	l.beat.Store(l.batches<<1 | 1)
	l.left, l.done, l.late = unitsOfLook, 0, false
	l.begun = l.begun[:0]
	l.enter(0)
}

// tick reads the clocks again, for input that was read after the batch began.
func (l *lane) tick() {
	for _, i := range l.begun {
		p := &l.portions[i]
		p.now = p.part.Engine().Now()
	}
	l.enter(l.at)
}

// spend subtracts a command's measured time from the work that is left until the batch
// looks at the clock.
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

// end ends a batch and publishes its counts.
func (l *lane) end() {
	l.flushCount()
	if l.errors > 0 {
		l.counters.errors.Add(l.errors)
		l.errors = 0
	}
	if cap(l.args) > argsKept {
		l.args = nil
	}
	for _, i := range l.begun {
		p := &l.portions[i]
		if p.decided > 0 {
			l.counters.decided[i].Add(p.decided)
			p.decided = 0
		}
		if p.await {
			p.await, l.asked = false, true
			p.part.Await()
		}
	}
	l.beat.Store(l.batches << 1)
}

// named is a command, with one of its names in upper or lower case.
type named struct {
	cmd  *command.Spec
	name []byte
}

// find does the same as table.find, with a cache of two names.
func (l *lane) find(args [][]byte) *command.Spec {
	if l.last.cmd != nil && string(args[0]) == string(l.last.name) {
		return l.last.cmd
	}
	return l.findOther(args)
}

// findOther does the same as find for a command that is not the last one.
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

// count counts a call. It adds up consecutive calls of the same command, which reach the
// shared counters together.
func (l *lane) count(cmd *command.Spec) {
	l.turnTo(cmd)
	l.run++
}

// turnTo makes cmd the command whose calls are being counted.
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
	l.portion.decided += uint64(call.Passed) + uint64(call.Denied)
}

// sawError counts a reply to c that is an error. cmd is nil for an unknown command. If the
// peer is a node and the error is a refusal, its following commands are refused too; see
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

// takeOutput returns what the connection being served has written since the last call. The
// bytes are valid until the connection writes again. takeOutput first publishes the counts
// of the commands, so that a client that has a reply finds its command in the metrics.
func (l *lane) takeOutput() []byte {
	l.flushCount()
	out := l.w.B
	l.w.B = out[:0]
	if cap(out) > outputKept {
		l.w.B = nil
	}
	l.w.Refused = false
	if l.reserved > 0 {
		l.srv.memory.Add(-int64(l.reserved)) // the driver accounts for the output that it keeps
		l.reserved = 0
	}
	return out
}

// takeParts returns the pieces of a long reply, which come before takeOutput. The driver
// owns them from then on.
func (l *lane) takeParts() [][]byte {
	parts := l.parts
	l.parts = nil
	return parts
}

// room reserves n more bytes for output that is being written. length is the output's
// length with these bytes. If there is too little memory or the output is too long, room
// closes the connection and returns false.
func (l *lane) room(n, length int) bool {
	c, ok := l.call.Host.(*conn)
	switch {
	case !ok: // no command has been executed yet
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

// recycle keeps a buffer for reuse.
func (l *lane) recycle(b []byte) {
	if cap(b) > 0 && cap(b) <= bufferKept && len(l.spare) < spareBuffers {
		l.spare = append(l.spare, b[:0])
	}
}

// park notes that c has parked replies. If their tickets are already complete, the settle
// of c that follows finds this; see Partition.Release.
func (l *lane) park(c *conn) {
	if c.parkedAt != 0 {
		return
	}
	l.parked = append(l.parked, c)
	c.parkedAt = len(l.parked)
	l.waiting.Store(int64(len(l.parked)))
}

// unpark notes that c has no parked replies any more.
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

// passOn lets the connections whose first parked replies wait for partition of check which
// tickets are complete.
func (l *lane) passOn(of uint16) {
	// Use a copy: a connection that has all its replies leaves the list, and one that
	// resumes may be added again.
	for _, c := range slices.Clone(l.parked) {
		if !c.closed && len(c.segments) > 0 && c.segments[0].portion == of {
			c.drv.settle()
		}
	}
}

// post runs fn on the lane's thread. If c is not nil, c is settled afterwards; fn does not
// run if c is closed by then.
func (l *lane) post(c *conn, fn func()) { l.postSpent(c, fn, nil) }

// postSpent does the same as post for the end of a job. spent ends afterwards, whether fn
// has run or not.
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

// rouse wakes the driver. The caller holds mu.
func (l *lane) rouse() {
	if !l.woken && !l.closed {
		l.woken = true
		l.wake()
	}
}

// runPosts runs the posts, and then the connections that have ended their turn. The driver
// thread must call it, outside of a batch.
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

// putOff leaves posts to the next runPosts, which runs them before all others.
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

// runTurns resumes connections that have ended their turn, in the order in which they ended
// it. It runs for turnTime.
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

// end ends the spending of the post's job.
func (p *post) end() {
	if p.spent != nil {
		p.spent.end()
	}
}
