package server

import (
	"slices"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # Flights
//
// A command that another node decides joins the connection's flight. The flight has a frame
// for each portion whose leader is asked. The connection's thread fills the frames while it
// runs the batch, and sends all of them when the batch ends. So a pipeline takes one round
// trip, however many groups its keys belong to.
//
// While a flight gathers, the connection also runs commands that this node decides. The
// flight keeps their replies, because replies leave in the order of commands. So the order
// of replies is kept, and the order of commands on each key. Commands on different keys may
// run in another order, as if several clients had sent them. With CLIENT TRACKING, commands
// that read here do not join a flight: an invalidation must not come before the reply.
//
// Only commands with a slot may be in a flight of several portions. Each other command,
// such as RL.POLICY SET or SCRIPT LOAD, may change what later commands mean. It waits for
// the flight that is under way, and later commands wait for it.
//
// After a flight was sent, the connection executes nothing until the flight has landed
// (stallLeader). A flight lands in parts: land passes the replies on, as far as they
// have come. If this node has become the leader of a frame's commands before they were
// sent, they run here in their turn.

// flight is the connection's commands that are under way, with the replies that wait for
// them.
type flight struct {
	frames    []*frame
	stretches []stretch // in the order of commands
	own       []byte    // replies of this node, in the order of their stretches
	at        int       // the stretch that lands next
	offset    int       // in own, of that stretch
	commands  int
	size      int  // bytes of the commands in frames
	mixed     bool // the flight has commands of several portions
	keyless   bool // the flight has commands without a slot
	sent      bool
	reruns    bool // commands of the flight run here
}

// stretch is some consecutive commands of a flight: of one frame, or one that this node has
// run.
type stretch struct {
	frame   *frame // nil: this node has run the command
	n       int    // commands of frame that have not landed
	size    int    // of the reply in flight.own
	portion uint16
	commit  command.Commit
}

// Bounds of a flight. A frame takes its leader well under a millisecond.
const (
	flightCommands = 512
	flightBytes    = 64 << 10
)

// joins reports whether a command may join the flight that gathers. Two kinds of commands
// fly alone: an EXEC, and a command whose single reply is suppressed.
func (c *conn) joins(cmd *command.Spec, args [][]byte) bool {
	fl, l := c.flight, c.lane
	if cmd == nil || !cmd.Accepts(len(args)) || !c.needsLeader(cmd) || cmd.Flags&(command.Exec|command.OwnConn) != 0 ||
		c.mode&modeReplySkip != 0 || l.mode&(modeScattered|modeCrossing) != 0 {
		return false
	}
	elsewhere := l.mode&modeElsewhere != 0
	if elsewhere && c.sendsAway(cmd) || !elsewhere && (c.mode|l.mode)&modeTracking != 0 && cmd.Flags&command.Readonly != 0 {
		return false
	}
	f := fl.frame(l.at)
	if f == nil || fl.mixed { // several portions
		if fl.keyless || !l.keyed || isSlow(cmd) && cmd.Flags&command.Script == 0 {
			return false
		}
	}
	return !elsewhere || f == nil || f.takes(cmd)
}

// frame returns the flight's frame of a portion, or nil.
func (fl *flight) frame(portion uint16) *frame {
	for _, f := range fl.frames {
		if f.portion == portion {
			return f
		}
	}
	return nil
}

// flight returns an empty flight.
func (l *lane) flight() *flight {
	if last := len(l.flights) - 1; last >= 0 {
		fl := l.flights[last]
		l.flights = l.flights[:last]
		return fl
	}
	return new(flight)
}

// board adds a command to the connection's flight. For EXEC it adds the whole transaction.
// A command that runs again in its turn gets a frame of its own.
func (c *conn) board(cmd *command.Spec, args [][]byte) {
	l := c.lane
	if c.flight == nil {
		c.flight = l.flight()
		c.mode |= modeFramed
	}
	fl := c.flight
	f := fl.frame(l.at)
	if f == nil || fl.sent {
		f = l.frame()
		f.of, f.portion, f.RESP3, f.DB, f.Prompt = c, l.at, c.resp3, c.db, true
		fl.mixed = fl.mixed || len(fl.frames) > 0
		fl.frames = append(fl.frames, f)
	}
	before := f.Size()
	c.addToFrame(f, cmd, args)
	fl.size += f.Size() - before
	fl.keyless = fl.keyless || !l.keyed
	fl.commands++
	if fl.sent {
		fl.stretches = slices.Insert(fl.stretches, fl.at, stretch{frame: f, n: 1})
		c.send(f)
		return
	}
	if last := len(fl.stretches) - 1; last >= 0 && fl.stretches[last].frame == f {
		fl.stretches[last].n++
	} else {
		fl.stretches = append(fl.stretches, stretch{frame: f, n: 1})
	}
	if fl.full() || cmd.Flags&command.Exec != 0 || c.mode&modeReplySkip != 0 {
		c.stall |= stallLeader
	}
}

// full reports whether a flight has reached its bounds.
func (fl *flight) full() bool { return fl.commands >= flightCommands || fl.size >= flightBytes }

// keepOwn moves the output from start on into the flight: the reply of a command that this
// node has run. If a worker runs the command, its reply comes later.
func (c *conn) keepOwn(start int, commit command.Commit) {
	fl, b := c.flight, c.w.B[start:]
	fl.stretches = append(fl.stretches, stretch{portion: c.lane.at, size: len(b), commit: commit})
	fl.own = append(fl.own, b...)
	fl.commands++
	fl.mixed = true
	c.w.B = c.w.B[:start]
	c.sent += len(b)
	if fl.full() || len(fl.own)+c.pending > c.srv.cfg.OutputBufferSoft {
		c.stall |= stallLeader
	}
	if len(fl.own)+c.pending > c.srv.cfg.OutputBufferLimit {
		c.killForOutput()
	}
}

// takeOff sends the flight that the batch has filled.
func (c *conn) takeOff() {
	fl := c.flight
	if fl == nil || fl.sent {
		return
	}
	fl.sent = true
	for _, f := range fl.frames {
		c.send(f)
	}
}

// send passes a frame to the forwarder of its partition.
func (c *conn) send(f *frame) {
	f.weight = f.Footprint()
	c.sent += f.weight
	c.stall |= stallLeader
	if !c.lane.portions[f.portion].part.Forward(&f.Frame) {
		f.refused = true
		c.post(f.take)
	}
}

// takeFrame takes a frame that the partition has returned.
func (c *conn) takeFrame(f *frame) {
	f.back = true
	c.noteAnswered(f)
	if f.spent != nil {
		f.spent.handTo(c)
	}
	c.sent += f.Footprint() - f.weight
	c.land()
}

// land passes on the replies of the flight, up to the first one that has not come. A
// command that must run here waits for rerun. Later replies wait for the command that runs.
func (c *conn) land() {
	fl := c.flight
	if fl.reruns && (c.stall&stallWorker != 0 || c.deferred != nil) {
		return
	}
	for fl.at < len(fl.stretches) {
		s := &fl.stretches[fl.at]
		switch f := s.frame; {
		case f != nil && !f.back:
			c.stall |= stallLeader
			return
		case f == nil:
			start := len(c.w.B)
			c.w.B = append(c.w.B, fl.own[fl.offset:fl.offset+s.size]...)
			fl.offset += s.size
			if s.commit.Ticket != 0 || len(c.segments) != 0 {
				c.lane.enter(s.portion)
				c.finish(start, s.commit)
			}
			fl.at++
		case f.landed >= f.Replied() && f.End() == partition.Ours:
			c.stall &^= stallLeader
			c.unrun = true
			return
		default:
			c.lane.enter(f.portion)
			c.landItem(f, f.landed)
			f.landed++
			if s.n--; s.n == 0 {
				fl.at++
			}
		}
	}
	c.endFlight()
}

// landItem answers an item of a frame: with the leader's reply or, without one, by the
// failure policy. Only then is the command counted and shown, because a command that runs
// here in its turn is counted and shown like any other.
func (c *conn) landItem(f *frame, i int) {
	it := &f.items[i]
	c.lane.count(it.cmd)
	if c.lane.mode&modeMonitors != 0 {
		f.show(i)
	}
	if i < f.Replied() {
		c.frameReply(f, i, func() { c.w.B = append(c.w.B, c.confirmed(f, i, fromLeader(f.Reply(i)))...) })
		c.followFrame(f, i)
		return
	}
	down := errLeaderSilent
	if f.refused {
		down = errBusy
	}
	c.lane.use(c.db)
	c.frameReply(f, i, func() { c.answerUndecided(it.cmd, f.Args(i), it.tx, f.End() == partition.Unknown, down) })
	c.lane.use(0)
}

// rerun runs commands of the flight that were not sent, because this node decides now. It
// reports whether the flight has landed.
func (c *conn) rerun() bool {
	for c.flight != nil && c.stall == 0 && c.deferred == nil && c.ending != closes && c.catchUp() {
		fl := c.flight
		s := &fl.stretches[fl.at]
		f, i := s.frame, s.frame.landed
		f.landed++
		if s.n--; s.n == 0 {
			fl.at++
		}
		it := &f.items[i]
		if it.mute && c.mode&modeReplyOff == 0 {
			c.mode |= modeReplySkip
		}
		c.subscriber.TrackAgain(it.tracked)
		args := f.Args(i)
		if it.tx != nil {
			c.tx = it.tx
			c.mode |= modeMulti
			args = [][]byte{[]byte("EXEC")}
		}
		c.runOne(args, command.ArgsSize(args))
		c.noteTerms()
		c.land()
	}
	return c.flight == nil
}

// undefer puts the deferred command back in front of the connection's input, because the
// commands of the flight run first.
func (c *conn) undefer() {
	if c.flight.reruns = true; c.deferred == nil {
		return
	}
	in := append(resp.AppendCommand(nil, c.deferred), c.in[c.inOff:]...)
	c.lane.recycle(c.in)
	c.in, c.inOff, c.deferred = in, 0, nil
	// The start of the input has changed, so the parser must begin again.
	c.parser = resp.Parser{}
}

// endFlight ends the flight. All its commands have their replies.
func (c *conn) endFlight() {
	fl := c.flight
	c.flight, c.sent = nil, 0
	c.mode &^= modeFramed
	c.stall &^= stallLeader
	c.unrun = c.unrun || len(c.in) > c.inOff || c.deferred != nil
	for _, f := range fl.frames {
		if f.Replied() == len(f.items) {
			c.reuse(f)
		}
	}
	if c.fd >= 0 && len(c.lane.flights) < spareFrames && cap(fl.own) <= frameKept {
		clear(fl.frames)
		clear(fl.stretches)
		*fl = flight{frames: fl.frames[:0], stretches: fl.stretches[:0], own: fl.own[:0]}
		c.lane.flights = append(c.lane.flights, fl)
	}
}
