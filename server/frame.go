package server

import (
	"time"

	"github.com/headgate-io/headgate/resp"
)

// frame is a run of one connection's commands on their way to the leader. It
// is built on the connection's thread by relay, sent when the batch ends
// (sendFrame), belongs to the forwarder until that posts it back, and is taken
// by takeFrame. A connection has at most one and executes nothing meanwhile
// (stallLeader): a command that is not for the leader waits behind the frame,
// so that replies keep the order of commands.
type frame struct {
	c     *conn
	resp3 bool
	slow  bool // its commands are not fast ones
	// prompt: the failure policy can answer all of its commands.
	prompt bool
	buf    []byte
	items  []item

	started time.Time
	retry   time.Time // until then it is sent again if it was not executed
	answer  time.Time // until then its replies are waited for
	// handover: it waits for the next leader, up to HandoverHold, rather than
	// have another answer.
	handover bool

	// Set by the forwarder.
	out     []byte // replies
	replied int    // items that have their reply
	end     frameEnd
}

// item is a command of a frame.
type item struct {
	cmd        *command
	start, end int          // in frame.buf
	drop       int          // replies that precede the one to pass on
	mute       bool         // its reply is not wanted (CLIENT REPLY)
	tx         *transaction // of an EXEC
	reply      int          // where its reply ends in frame.out
}

// frameEnd is what became of the items of a frame without reply.
type frameEnd uint8

const (
	frameAnswered  frameEnd = iota // there are none
	frameUnwritten                 // certainly not executed
	frameRefused                   // the same: the forwarder has too much to do
	frameUncertain                 // sent, and not answered
	frameOurs                      // not sent: this node leads now
)

// Bounds of a frame: what keeps the leader busy for well under a millisecond.
const (
	frameCommands = 512
	frameBytes    = 64 << 10
)

// needsLeader reports whether only the leader may execute cmd now.
func (c *conn) needsLeader(cmd *command) bool {
	if cmd.flags&flagLeader == 0 || cmd.flags&flagPeers != 0 && !c.relayed {
		return false // what is for nodes only is refused here, not forwarded
	}
	return cmd.flags&flagExec == 0 || c.tx != nil && !c.tx.spoiled && (c.tx.leader || len(c.watched.keys) > 0)
}

// isSlow reports whether a command may take, or wait, long.
func (cmd *command) isSlow() bool { return cmd.flags&flagFast == 0 }

// joins reports whether a command may follow those of the connection's frame.
// A transaction's EXEC, and a command whose reply alone is not wanted, travel
// by themselves, slow commands not with fast ones.
func (c *conn) joins(cmd *command, args [][]byte) bool {
	return cmd != nil && cmd.accepts(len(args)) && c.needsLeader(cmd) && c.lane.mode&modeElsewhere != 0 &&
		cmd.flags&(flagExec|flagOwnConn) == 0 && c.mode&modeReplySkip == 0 && cmd.isSlow() == c.frame.slow
}

// addToFrame appends a command, or the whole transaction of an EXEC, to the
// connection's frame.
func (c *conn) addToFrame(cmd *command, args [][]byte) {
	f := c.frame
	if f == nil {
		f = &frame{c: c, resp3: c.resp3, prompt: true}
		c.frame = f
	}
	f.prompt = f.prompt && c.mayBePrompt(cmd, args)
	it := item{cmd: cmd, start: len(f.buf), mute: c.mode&(modeReplyOff|modeReplySkip) != 0}
	if cmd.flags&flagExec != 0 {
		it.tx, it.drop = c.tx, len(c.tx.queue)+1
		f.buf = resp.AppendCommand(f.buf, [][]byte{[]byte("MULTI")})
		for _, q := range it.tx.queue {
			f.slow = f.slow || q.cmd.isSlow()
			f.buf = resp.AppendCommand(f.buf, q.args)
		}
		c.endTransaction()
	} else {
		f.slow = cmd.isSlow()
	}
	f.buf = resp.AppendCommand(f.buf, args)
	it.end = len(f.buf)
	f.items = append(f.items, it)
	if len(f.items) >= frameCommands || len(f.buf) >= frameBytes || it.tx != nil || c.mode&modeReplySkip != 0 {
		c.stall |= stallLeader
	}
}

// sendFrame hands the frame that the batch has built to the forwarder.
func (c *conn) sendFrame() {
	f := c.frame
	if f == nil || !f.started.IsZero() {
		return
	}
	f.started = time.Now()
	c.stall |= stallLeader
	forward := c.srv.forward
	if f.slow {
		forward = c.srv.forwardSlow
	}
	if !forward.submit(f) {
		f.end = frameRefused
		c.post(func() { c.takeFrame(f) })
	}
}

func (c *conn) endFrame() {
	c.frame = nil
	c.stall &^= stallLeader
	c.unrun = c.unrun || len(c.in) > c.inOff || c.deferred != nil
}

// takeFrame passes the replies of a frame on, and lets the failure policy, or
// this node itself, answer the rest.
func (c *conn) takeFrame(f *frame) {
	c.endFrame()
	begin := 0
	for i := range f.items[:f.replied] {
		it := &f.items[i]
		c.frameReply(it, func() { c.w.B = append(c.w.B, f.out[begin:it.reply]...) })
		begin = it.reply
	}
	rest := f.items[f.replied:]
	if len(rest) > 0 && f.end == frameOurs {
		c.takeBack(f, rest)
		return
	}
	down := errLeaderSilent
	if f.end == frameRefused {
		down = errBusy
	}
	for i := range rest {
		it := &rest[i]
		c.frameReply(it, func() { c.giveUp(it.cmd, f.args(it), it.tx, f.end == frameUncertain, down) })
	}
}

// frameReply lets write write the reply of it, and sends, holds or drops it.
func (c *conn) frameReply(it *item, write func()) {
	start := len(c.w.B)
	write()
	if it.mute {
		c.w.B = c.w.B[:start]
		return
	}
	if len(c.w.B) > start && c.w.B[start] == '-' {
		c.lane.countError(it.cmd)
	}
	if c.ticket != 0 || len(c.segments) != 0 {
		c.finish(start, true)
	}
}

// args parses an item's command; of a transaction, its MULTI.
func (f *frame) args(it *item) [][]byte {
	var p resp.Parser
	// Never fails: the bytes are AppendCommand's.
	args, _, _ := p.Next(f.buf[it.start:it.end], &resp.Limits{MaxArgs: len(f.buf), MaxBulk: len(f.buf)}, nil)
	return args
}

// takeBack puts commands that were not sent in front of the connection's
// input, where they came from: this node decides now.
func (c *conn) takeBack(f *frame, items []item) {
	var in []byte
	if it := &items[0]; it.tx != nil {
		c.tx = it.tx
		c.mode |= modeMulti
		in = resp.AppendCommand(nil, [][]byte{[]byte("EXEC")})
	} else {
		in = append(in, f.buf[it.start:]...)
	}
	if items[0].mute && c.mode&modeReplyOff == 0 {
		c.mode |= modeReplySkip
	}
	if c.deferred != nil {
		in = resp.AppendCommand(in, c.deferred)
		c.deferred = nil
	}
	in = append(in, c.in[c.inOff:]...)
	c.lane.recycle(c.in)
	c.in, c.inOff = in, 0
	// What the parser knows of the input's start is not at its start any more.
	c.parser = resp.Parser{}
	c.unrun = true
}
