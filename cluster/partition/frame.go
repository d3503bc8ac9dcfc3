package partition

import (
	"time"
	"unsafe"

	"github.com/headgate-io/headgate/resp"
)

// Frame is a group of commands on their way to the leader. It does not know the connection
// that they come from. The frame's owner fills it, passes it to Partition.Forward, and must
// not touch it until Done is called. Each item of the frame has one reply.
type Frame struct {
	// RESP3 is the protocol of the replies.
	RESP3 bool
	// DB is the database of the frame's commands.
	DB uint8
	// Selects is set if the commands may leave another database selected.
	Selects bool
	// Slow is set if the commands may take or wait long.
	Slow bool
	// Prompt is set if the failure policy can answer all commands.
	Prompt bool
	// Client is the sender of the commands. It is set only if the leader needs to know the
	// sender.
	Client Client
	// Done is called once, by any goroutine, when End is known.
	Done func()
	// If Room is not nil, it reports whether the replies may grow by a number of bytes. Any
	// goroutine may call Room before Done, and only for large growth. If Room returns
	// false, the reply is replaced by an error.
	Room func(bytes int) bool

	buf   []byte
	items []frameItem
	parts []*Frame // the frames of a batch; see merge

	started time.Time
	retry   time.Time // until this time, the frame is sent again if it was not executed
	answer  time.Time // until this time, the frame waits for its replies
	// handover is set if the frame waits for the next leader, up to HandoverWait, instead
	// of getting another answer.
	handover bool
	// excused is set if the frame's wait was extended because this process did not run.
	excused bool
	// alone is set if the frame is sent alone, and is sent again until its deadline.
	alone bool

	out     []byte // replies
	term    uint64 // see Term
	room    int    // bytes of out's capacity for which Room was asked
	replied int    // number of items that have a reply
	end     End
}

// Client is the sender of a frame's commands: its user, the name that the client has given
// itself, and its address. The zero value means an unknown sender.
type Client struct{ User, Name, Addr string }

// frameItem is one command, or one transaction.
type frameItem struct {
	start int // in buf
	drop  int // replies that precede the one to pass on
	reply int // where its reply ends in out
}

// End is the result of the items of a frame that have no reply.
type End uint8

const (
	// Answered: there are no replies to wait for.
	Answered End = iota
	// Unwritten: they were certainly not executed.
	Unwritten
	// Unknown: they were sent, and not answered.
	Unknown
	// Ours: they were not sent, as this node leads now.
	Ours
)

// Reset empties a frame for other commands. It may be called after Done. The frame's
// earlier replies and arguments become invalid.
func (fr *Frame) Reset() {
	*fr = Frame{Done: fr.Done, Room: fr.Room, buf: fr.buf[:0], items: fr.items[:0], out: fr.out[:0]}
}

// Footprint returns how many bytes an empty frame keeps.
func (fr *Frame) Footprint() int {
	return cap(fr.buf) + cap(fr.out) + cap(fr.items)*int(unsafe.Sizeof(frameItem{}))
}

// replyRoom is the growth of the replies from which Room is asked.
const replyRoom = 64 << 10

// TextNoRoom is the reply to a command for whose reply there is no room.
const TextNoRoom = "ERR the command was executed, and its reply found no room: all clients together take more memory than maxmemory-clients"

// bound replaces the reply of item i, which begins at start, if there is no room for it. In
// a batch, it asks for the room of all replies to the item's frame.
func (fr *Frame) bound(i, start int) {
	if cap(fr.out)-fr.room < replyRoom {
		return
	}
	of, size := fr, cap(fr.out)
	if fr.parts != nil {
		var first int
		of, first = fr.part(i)
		size = len(fr.out) - fr.replyStart(first)
	}
	if of.Room == nil || of.Room(size-of.room) {
		of.room, fr.room = size, cap(fr.out)
		return
	}
	fr.out = append(append(make([]byte, 0, start+2*len(TextNoRoom)), fr.out[:start]...), "-"+TextNoRoom+"\r\n"...)
}

// part returns the frame of a batch that has item i, and the index of that frame's first
// item.
func (fr *Frame) part(i int) (of *Frame, first int) {
	for _, of = range fr.parts {
		if i < first+len(of.items) {
			break
		}
		first += len(of.items)
	}
	return of, first
}

// Begin begins an item. The leader sends drop replies before the item's own reply.
func (fr *Frame) Begin(drop int) {
	fr.items = append(fr.items, frameItem{start: len(fr.buf), drop: drop})
}

// Append appends a command to the item that was begun last.
func (fr *Frame) Append(args [][]byte) { fr.buf = resp.AppendCommand(fr.buf, args) }

// Size returns the size of the commands in bytes.
func (fr *Frame) Size() int { return len(fr.buf) }

// End returns the result of the items without a reply.
func (fr *Frame) End() End { return fr.end }

// Replied returns how many items have a reply. These are the first items.
func (fr *Frame) Replied() int { return fr.replied }

// Term returns the term of the leader that has given the replies. It is 0 if the leader has
// not told it, or if leaders of several terms have given replies.
func (fr *Frame) Term() uint64 { return fr.term }

// Reply returns the reply of item i.
func (fr *Frame) Reply(i int) []byte { return fr.out[fr.replyStart(i):fr.items[i].reply] }

// From returns the commands from item i on, in the form in which they were appended.
func (fr *Frame) From(i int) []byte { return fr.buf[fr.items[i].start:] }

// Args parses the first command of item i.
func (fr *Frame) Args(i int) [][]byte {
	var p resp.Parser
	// Never fails: the bytes are AppendCommand's.
	args, _, _ := p.Next(fr.From(i), &resp.Limits{MaxArgs: len(fr.buf), MaxBulk: len(fr.buf)}, nil)
	return args
}

// unsend marks the items from i on as not sent.
func (fr *Frame) unsend(i int) {
	fr.replied = i
	fr.out = fr.out[:fr.replyStart(i)]
}

// replyStart returns where the reply of item i begins.
func (fr *Frame) replyStart(i int) int {
	if i == 0 {
		return 0
	}
	return fr.items[i-1].reply
}
