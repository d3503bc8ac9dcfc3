package server

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/keyspace"
	"github.com/headgate-io/headgate/server/memory"
)

// # Commands of several partitions
//
// Some commands name keys of several partitions, such as DEL and MGET. Others are about all
// keys, such as DBSIZE and FLUSHALL. The server runs such a command in parts (legs), one for
// each partition, and joins their replies (command.Join). The first error of a leg is the
// reply. Each leg is atomic and the whole is not: other commands may run between the legs,
// and legs may have run when another fails.
//
// A leg runs on a line (Caller), as any command does: its partition's leader executes it,
// its reply waits for its commit, and the failure policy may answer it. The connection
// executes nothing meanwhile.
//
// Clients of Redis Cluster split commands themselves. At the cluster door, keys must have
// one slot, and commands about all keys see the partitions that this node leads. So the
// replies of all masters add up.

// leg is the part of a command that one partition runs.
type leg struct {
	of    uint16
	args  [][]byte
	keys  []int // which keys of the command it has, for JoinValues
	reply []byte
	err   error
	lost  bool // its line's since is termsLost; see wait.go
}

// scattered is a command that runs in legs.
type scattered struct {
	join   command.Join
	keys   int // how many keys it has
	legs   []leg
	parts  []uint16 // the partitions of a command about all keys
	groups int      // all partitions
	most   int      // the longest reply, in bytes
}

// mostLegs bounds the legs of all connections that run at a time, so that most lines of the
// Caller stay free for others. Each partition has its share, because a leader that does not
// answer holds places until forward-timeout. Further legs wait. The legs of WAIT have
// as many places of their own, because they may last for ever; without a place, WAIT answers
// BUSY.
const mostLegs = maxLines / 4

// legSlots has a place for each leg that may run.
type legSlots struct {
	run  []chan struct{} // by partition
	wait chan struct{}
}

func newLegSlots(parts int) (l legSlots) {
	l.wait = make(chan struct{}, mostLegs)
	for range parts {
		l.run = append(l.run, make(chan struct{}, max(mostLegs/parts, 1)))
	}
	return l
}

// takeWaits takes n places of WAIT, or none and returns false.
func (l *legSlots) takeWaits(n int) bool {
	for i := range n {
		select {
		case l.wait <- struct{}{}:
		default:
			for range i {
				<-l.wait
			}
			return false
		}
	}
	return true
}

// scatter runs a command in legs. The arguments need not stay valid.
func (c *conn) scatter(cmd *command.Spec, args [][]byte) {
	s := c.srv
	x := &scattered{join: cmd.Join, groups: len(s.parts), most: s.cfg.OutputBufferLimit}
	// What waits has the bounds of jobs.
	size := command.ArgsSize(args)
	if !s.workers.keep(size, s.cfg.QueryBufferLimit) {
		c.error(errWorkersBusy)
		return
	}
	spent := s.memory.spend(c)
	refuse := func(msg string) {
		s.workers.letGo(size)
		spent.end()
		c.error(msg)
	}
	if !spent.Take(size) {
		refuse("ERR " + memory.ErrFull.Error())
		return
	}
	if refusal := x.split(c, cmd, command.CloneArgs(args)); refusal != "" {
		refuse(refusal)
		return
	}
	waits := cmd.Flags&command.Wait != 0
	if waits && !s.legs.takeWaits(len(x.legs)) {
		refuse(errLegsBusy)
		return
	}
	who, at := c.client(), legPlace{addr: c.addr, db: c.db, resp3: c.resp3}
	w := &resp.Writer{RESP3: c.resp3}
	if (c.mode|c.lane.mode)&modeTracking != 0 {
		c.subscriber.HasRead(cmd, args, true)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if waits {
		c.cancel, c.waiting = cancel, x // it ends with its connection
	}
	c.noteTerms()
	c.jobPortion = c.lane.at
	c.stall |= stallWorker
	go func() {
		defer cancel()
		if waits {
			defer context.AfterFunc(s.ending, cancel)()
		}
		var all sync.WaitGroup
		for i := range x.legs {
			g := &x.legs[i]
			slots := s.legs.wait
			if !waits {
				slots = s.legs.run[g.of]
				slots <- struct{}{}
			}
			all.Go(func() {
				defer func() { <-slots }()
				g.reply, g.lost, g.err = s.caller.leg(ctx, who, at, g.of, g.args, &spent.Spending)
				if waits && g.waitEnds() {
					cancel()
				}
			})
		}
		all.Wait()
		s.workers.letGo(size)
		if spent.Take(x.size()) { // the joined reply
			x.write(s, w)
		} else {
			w.Error(partition.TextNoRoom)
		}
		c.lane.postSpent(c, func() {
			spent.handTo(c)
			c.cancel, c.waiting = nil, nil
			c.followLegs(x, w, waits)
			if len(w.B) > 0 && w.B[0] == '-' {
				c.lane.sawError(c, cmd, w.B)
			}
			c.unblock(w, 0, command.SyncDefault)
		}, spent)
	}()
}

// has reports whether a leg is of the partition.
func (x *scattered) has(of uint16) bool {
	return slices.ContainsFunc(x.legs, func(g leg) bool { return g.of == of })
}

// waitEnds notes how a leg of WAIT has ended, and reports whether the other legs may end
// too: none of them changes the reply. A leg that was interrupted counts no nodes.
func (g *leg) waitEnds() bool {
	if errors.Is(g.err, context.Canceled) {
		g.reply, g.err = []byte(":0\r\n"), nil
	}
	return g.err != nil || len(g.reply) == 0 || g.reply[0] == '-' || number(g.reply) == 0
}

// split makes the legs. It returns an error for the client, or "".
func (x *scattered) split(c *conn, cmd *command.Spec, args [][]byte) (refusal string) {
	if cmd.HasKeys() {
		if (len(args)-cmd.Keys.First)%cmd.Keys.Step != 0 {
			return command.WrongArity(cmd)
		}
		x.splitKeys(c.srv, cmd, args)
		return ""
	}
	// At the cluster door, the leaders of the other partitions answer for them. A partition
	// without a leader gets its leg, which waits for one or fails: otherwise FLUSHALL of all
	// masters would say OK and leave its keys.
	for i, p := range c.srv.parts {
		if !c.moves || p.Role() != partition.Following {
			x.parts = append(x.parts, uint16(i))
		}
	}
	if x.join == command.JoinScan {
		return x.splitScan(args)
	}
	for _, i := range x.parts {
		x.legs = append(x.legs, leg{of: i, args: args})
	}
	return ""
}

// splitKeys gives each leg the keys of its partition.
func (x *scattered) splitKeys(s *Server, cmd *command.Spec, args [][]byte) {
	at := make(map[uint16]int)
	for i := cmd.Keys.First; i < len(args); i += cmd.Keys.Step {
		of := s.portionOf(keySlot(args[i]))
		k, ok := at[of]
		if !ok {
			k = len(x.legs)
			at[of] = k
			x.legs = append(x.legs, leg{of: of, args: slices.Clone(args[:cmd.Keys.First])})
		}
		g := &x.legs[k]
		g.args = append(g.args, args[i:i+cmd.Keys.Step]...)
		g.keys = append(g.keys, x.keys)
		x.keys++
	}
}

// A cursor of SCAN consists of a cursor of one partition and the partition's index: it is
// cursor*groups + index. The partitions are scanned one after the other.

// splitScan gives the call to the partition of its cursor.
func (x *scattered) splitScan(args [][]byte) (refusal string) {
	cursor, ok := resp.ParseInt(args[1])
	if !ok || cursor < 0 {
		return "ERR invalid cursor"
	}
	of, inner := uint16(cursor%int64(x.groups)), cursor/int64(x.groups)
	i, led := slices.BinarySearch(x.parts, of)
	if i == len(x.parts) {
		return ""
	}
	if !led { // this node does not lead the partition any more
		inner = 0
	}
	args[1] = strconv.AppendInt(nil, inner, 10)
	x.legs = append(x.legs, leg{of: x.parts[i], args: args})
	return ""
}

// size returns the length of the legs' replies.
func (x *scattered) size() (n int) {
	for i := range x.legs {
		n += len(x.legs[i].reply)
	}
	return n
}

// write joins the replies of the legs.
func (x *scattered) write(s *Server, w *resp.Writer) {
	for i := range x.legs {
		g := &x.legs[i]
		var reply ReplyError
		switch {
		case errors.Is(g.err, ErrBusy):
			w.Error(errLegsBusy)
			return
		case errors.As(g.err, &reply):
			w.Error(string(reply))
			return
		case g.err != nil || len(g.reply) == 0:
			s.uncertain(w)
			return
		case len(x.legs) > 1 && string(g.reply) == undone: // other legs may be in force
			s.uncertain(w)
			return
		case g.reply[0] == '-':
			w.Raw(g.reply)
			return
		}
	}
	if x.size() > x.most {
		w.Error(keyspace.ErrManyKeys)
		return
	}
	switch x.join {
	case command.JoinOK:
		w.OK()
	case command.JoinSum, command.JoinMin:
		x.writeNumber(w)
	case command.JoinAny:
		x.writeAny(w)
	case command.JoinValues:
		x.writeValues(w)
	case command.JoinLists:
		n := 0
		for i := range x.legs {
			_, more := elements(x.legs[i].reply)
			n += more
		}
		w.Array(n)
		for i := range x.legs {
			list, _ := elements(x.legs[i].reply)
			w.Raw(list)
		}
	case command.JoinScan:
		x.writeScan(w)
	}
}

// undone is the reply of a leg that has changed nothing.
var undone = "-" + partition.ErrUndone.Error() + "\r\n"

const errLegsBusy = "BUSY too many commands run on several groups, try again later"

func (x *scattered) writeNumber(w *resp.Writer) {
	var sum, least int64
	for i := range x.legs {
		n := number(x.legs[i].reply)
		sum += n
		if i == 0 || n < least {
			least = n
		}
	}
	if x.join == command.JoinMin {
		sum = least
	}
	w.Int(sum)
}

func (x *scattered) writeAny(w *resp.Writer) {
	for _, i := range rand.Perm(len(x.legs)) {
		if reply := x.legs[i].reply; reply[0] == '$' && reply[1] != '-' {
			w.Raw(reply)
			return
		}
	}
	w.Null()
}

func (x *scattered) writeValues(w *resp.Writer) {
	values := make([][]byte, x.keys)
	for i := range x.legs {
		list, _ := elements(x.legs[i].reply)
		for _, key := range x.legs[i].keys {
			values[key], list = first(list)
		}
	}
	w.Array(x.keys)
	for _, v := range values {
		w.Raw(v)
	}
}

func (x *scattered) writeScan(w *resp.Writer) {
	var next uint64
	keys := []byte("*0\r\n")
	if len(x.legs) > 0 {
		of := x.legs[0].of
		list, _ := elements(x.legs[0].reply)
		var cursor []byte
		cursor, keys = first(list)
		_, digits, _ := bytes.Cut(cursor, []byte("\n"))
		inner := number(append([]byte(":"), digits...))
		i, _ := slices.BinarySearch(x.parts, of)
		switch {
		case inner != 0:
			next = uint64(inner)*uint64(x.groups) + uint64(of)
		case i+1 < len(x.parts):
			next = uint64(x.parts[i+1])
		}
	}
	w.Array(2)
	w.Bulk(strconv.AppendUint(nil, next, 10))
	w.Raw(keys)
}

// elements returns the elements of a list and their number.
func elements(list []byte) (rest []byte, n int) {
	head, rest, _ := bytes.Cut(list, []byte("\n"))
	return rest, int(number(head))
}

// number returns the number of a reply's first line, after its first byte.
func number(line []byte) int64 {
	n, _ := resp.ParseInt(bytes.TrimRight(line[1:], "\r\n"))
	return n
}

// first returns the first of several replies, and the others.
func first(replies []byte) (reply, rest []byte) {
	n, _ := resp.ReplyLen(replies, len(replies)) // never fails: a handler has written them
	return replies[:n], replies[n:]
}

// legPlace says where a leg comes from.
type legPlace struct {
	addr  string
	db    uint8
	resp3 bool
}

// leg runs a command on one partition, for a client of this node that may run it. The reply
// is in the client's protocol, and its memory is taken from spent.
func (c *Caller) leg(ctx context.Context, who Client, at legPlace, of uint16, args [][]byte, spent *memory.Spending) (reply []byte, lost bool, err error) {
	ln, err := c.borrow()
	if err != nil {
		return nil, false, err
	}
	ln.behalf, ln.addr, ln.resp3, ln.place = who, at.addr, at.resp3, place{home: of, only: true}
	ln.enterDatabase(at.db)
	ln.begin(func() {
		ln.w.RESP3 = at.resp3
		ln.execute(args)
		ln.noteTerms()
		ln.takeOff()
		ln.unrun = ln.stall != 0
	})
	if err := c.finish(ctx, ln); err != nil {
		return nil, false, err
	}
	defer c.giveBack(ln)
	lost = ln.since == termsLost
	if !spent.Take(len(ln.out)) {
		return nil, lost, ReplyError(partition.TextNoRoom)
	}
	return slices.Clone(ln.out), lost, nil
}

// endLeg makes a line that may have run a leg ready for other calls.
func (ln *line) endLeg() {
	ln.addr, ln.resp3, ln.place = callerAddr, true, place{}
	ln.enterDatabase(0)
}
