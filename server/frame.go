package server

import (
	"bytes"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// frame is a group of the connection's commands on their way to the leader of one portion.
// Its flight fills the frame and sends it; see flight. Then the frame belongs to the
// partition, which returns it by a post that calls takeFrame.
type frame struct {
	partition.Frame
	of      *conn
	take    func() // calls takeFrame with this frame
	portion uint16 // index in the lane of the portion whose leader gets the frame
	items   []item
	scripts bool      // the frame begins with a script
	back    bool      // the partition has returned the frame
	refused bool      // too many frames are waiting
	landed  int       // items whose replies were passed on, or which have run here
	weight  int       // bytes of it in conn.sent
	spent   *spending // memory for large replies; nil before there are any
}

const (
	// spareFrames is how many empty frames a loop keeps. frameKept is how many bytes of
	// memory each may hold.
	spareFrames = 64
	frameKept   = 4 << 10
)

// frame returns an empty frame.
func (l *lane) frame() *frame {
	if last := len(l.frames) - 1; last >= 0 {
		f := l.frames[last]
		l.frames = l.frames[:last]
		return f
	}
	f := new(frame)
	f.Done = func() { f.of.frameDone(f) }
	f.take = func() { f.of.takeFrame(f) }
	f.Room = func(n int) bool {
		if f.spent == nil {
			f.spent = f.of.srv.memory.spend(f.of)
		}
		return f.spent.Take(n)
	}
	return f
}

// reuse keeps a frame for the next connection of the loop. It does so only if the leader
// has answered all commands, because nobody then uses their arguments. A stream keeps no
// frame, because idle connections keep no buffers.
func (c *conn) reuse(f *frame) {
	if c.fd < 0 || len(c.lane.frames) >= spareFrames || f.Footprint() > frameKept || (c.mode|c.lane.mode)&modeTracking != 0 {
		return
	}
	clear(f.items)
	f.Reset()
	*f = frame{Frame: f.Frame, take: f.take, items: f.items[:0]}
	c.lane.frames = append(c.lane.frames, f)
}

// item is a command of a frame.
type item struct {
	cmd  *command.Spec
	mute bool         // the command's reply is suppressed (CLIENT REPLY)
	tx   *transaction // the transaction, if the command is EXEC

	tracked bool // the connection tracks the command's keys
}

// needsLeader reports whether only the leader may execute cmd now.
func (c *conn) needsLeader(cmd *command.Spec) bool {
	if cmd.Flags&command.Leader == 0 || cmd.Flags&command.Peers != 0 && !c.relayed {
		return false // commands of other nodes are refused here, not forwarded
	}
	return cmd.Flags&command.Exec == 0 || c.tx != nil && !c.tx.spoiled && (c.tx.leader || len(c.watched.keys) > 0)
}

// isSlow reports whether a command may work or wait for a long time.
func isSlow(cmd *command.Spec) bool { return cmd.Flags&command.Fast == 0 }

// takes reports whether a command may be in the frame. A command must not wait for a slow
// command. But fast commands may follow a script, because scripts are rarely slow.
// Otherwise, if replies wait for commits, each script would cost a round to the leader.
func (f *frame) takes(cmd *command.Spec) bool {
	if f.scripts {
		return !isSlow(cmd) || cmd.Flags&command.Script != 0
	}
	return isSlow(cmd) == f.Slow
}

// addToFrame appends a command to a frame. For EXEC it appends the whole transaction.
func (c *conn) addToFrame(f *frame, cmd *command.Spec, args [][]byte) {
	f.Prompt = f.Prompt && c.mayBePrompt(cmd, args)
	f.speaksFor(c, cmd)
	it := item{cmd: cmd, mute: c.mode&(modeReplyOff|modeReplySkip) != 0, tracked: c.subscriber.Tracks()}
	if cmd.Flags&command.Exec != 0 {
		it.tx = c.tx
		c.sent += it.tx.size
		f.Begin(len(it.tx.queue) + 1)
		f.Append([][]byte{[]byte("MULTI")})
		for _, q := range it.tx.queue {
			f.Slow = f.Slow || isSlow(q.cmd)
			f.Selects = f.Selects || q.cmd.Flags&command.Select != 0
			f.Append(q.args)
		}
		c.endTransaction()
	} else {
		f.Begin(0)
		f.scripts = f.scripts || len(f.items) == 0 && cmd.Flags&command.Script != 0
		f.Slow = f.Slow || isSlow(cmd)
	}
	f.Append(args)
	f.items = append(f.items, it)
}

// show shows item i to MONITOR.
func (f *frame) show(i int) {
	it, args := &f.items[i], f.Args(i)
	if it.tx != nil {
		for _, q := range it.tx.queue {
			f.of.show(q.cmd, q.args)
		}
		args = [][]byte{[]byte("EXEC")}
	}
	f.of.show(it.cmd, args)
}

// frameDone returns a frame to the connection's thread, whether the leader has answered or
// not.
func (c *conn) frameDone(f *frame) {
	if f.End() == partition.Answered {
		c.srv.stats.counts[countForwarded].Add(uint64(len(f.items)))
	}
	c.lane.postSpent(c, f.take, f.spent)
}

// mayBePrompt reports whether the failure policy may answer a command while the leader is
// late.
func (c *conn) mayBePrompt(cmd *command.Spec, args [][]byte) bool {
	if cmd.Flags&command.Limit == 0 || c.lane.part.Durable() {
		return false
	}
	by, h := c.headless(cmd, args)
	return h.Prompt && (by == partition.FailOpen || by == partition.FailLocal && c.lane.part.HasShare())
}

// fromLeader converts a leader's reply for a client. A leader of an older version does not
// know all commands that this node forwards.
func fromLeader(reply []byte) []byte {
	if bytes.HasPrefix(reply, []byte("-NOPERM '")) && bytes.HasSuffix(reply, []byte("' "+errNotForwarded+"\r\n")) {
		return []byte("-" + command.ErrNotYet + "\r\n")
	}
	return reply
}

// followFrame makes the changes to this connection that item i of a frame has made to the
// leader's connection. The item must have its reply.
func (c *conn) followFrame(f *frame, i int) {
	it := &f.items[i]
	if it.tx != nil && f.Selects && f.Reply(i)[0] == '*' {
		c.enterDatabase(it.tx.selects(c))
	}
	switch {
	case (c.mode|c.lane.mode)&modeTracking == 0:
	case it.tx == nil:
		c.subscriber.ReadBy(it.cmd, f.Args(i), it.tracked)
	default:
		for _, q := range it.tx.queue {
			c.subscriber.ReadBy(q.cmd, q.args, it.tracked)
		}
	}
}

// frameReply calls write to write the reply of item i of a frame. Then it sends, parks or
// drops the reply.
func (c *conn) frameReply(f *frame, i int, write func()) {
	it, start := &f.items[i], len(c.w.B)
	write()
	if c.lane.mode&modeDecisions != 0 {
		c.tellDecision(it.cmd, f.Args(i), c.w.B[start:])
	}
	if it.mute {
		c.w.B = c.w.B[:start]
		return
	}
	if len(c.w.B) > start && c.w.B[start] == '-' {
		c.lane.sawError(c, it.cmd, c.w.B[start:])
	}
	if len(c.segments) != 0 {
		c.finish(start, command.Commit{})
	}
}
