package partition

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/resp"
)

// These errors say that the other node has executed none of the commands without a reply.
// It is not leader, is becoming leader, is no longer leader, or stops.
var (
	errRefusedByPeer = errors.New(TextNotLeader)
	errHandingOver   = fmt.Errorf("%w: %s", errRefusedByPeer, TextHandover)
	errPeerCloses    = fmt.Errorf("%w: %s", errRefusedByPeer, TextClosing)
)

// leaderStream is a connection to the leader, on which this node acts as a client of the
// leader's server. While the connection is idle, a goroutine watches it. So its end is
// noticed before a frame is written; after a write, the frame would be uncertain.
type leaderStream struct {
	nc    net.Conn
	r     *bufio.Reader
	epoch uint64
	resp3 bool
	db    uint8               // the database selected on it, or anyDB
	told  Client              // the client that was named to the leader last
	anew  bool                // the stream must be greeted again, since the leader refuses everything or has told no term
	term  uint64              // what the leader has told last; 0 if it did not decide, or is of an older version
	see   func(uint64) uint64 // Partition.SeeTerm
	buf   []byte              // scratch
	stop  func() bool         // stops the forwarder's end from closing the stream

	// readable receives nil when bytes have arrived, or the reason why none will arrive.
	// After that, the watcher does not use the reader until resume.
	readable chan error
	resume   chan struct{}

	// mu guards the fields below. curtailed is a time at which the wait for replies ends
	// even if a frame may wait longer; 0 means that there is no such time. asked is the
	// frame that waits now. longer may extend the wait of that frame.
	mu        sync.Mutex
	curtailed time.Time
	asked     *Frame
	longer    func(*Frame) bool
}

// Read reads from the connection until the wait for a reply ends. The wait may be extended
// meanwhile.
func (s *leaderStream) Read(p []byte) (n int, err error) {
	for {
		n, err = s.nc.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !s.putOff() {
			return n, err
		}
	}
}

// putOff reports whether the wait for replies of the frame under way was extended.
func (s *leaderStream) putOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil || !s.longer(s.asked) {
		return false
	}
	return time.Now().Before(s.setRead(s.asked.answer))
}

// ask sets the frame for whose replies the stream waits, or nil, and until when it waits.
func (s *leaderStream) ask(fr *Frame, longer func(*Frame) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.longer = fr, longer
	if fr != nil {
		s.setRead(fr.answer)
	}
}

// setRead sets a bound for the wait for replies, and returns it. The caller holds mu.
func (s *leaderStream) setRead(t time.Time) time.Time {
	if !s.curtailed.IsZero() && s.curtailed.Before(t) {
		t = s.curtailed
	}
	_ = s.nc.SetReadDeadline(t)
	return t
}

// curtail ends the wait for replies at a time. The stream cannot be used afterwards.
func (s *leaderStream) curtail(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.curtailed = until
	_ = s.nc.SetReadDeadline(until)
}

// newLeaderStream greets the server at the other end. After an error, nc is closed.
func newLeaderStream(nc net.Conn, epoch uint64, see func(uint64) uint64, deadline time.Time) (*leaderStream, error) {
	s := &leaderStream{nc: nc, epoch: epoch, see: see, readable: make(chan error, 1), resume: make(chan struct{})}
	s.r = bufio.NewReaderSize(s, 16<<10)
	go s.watch()
	_ = nc.SetDeadline(deadline)
	if err := s.greet(); err != nil {
		s.close()
		return nil, fmt.Errorf("greet leader: %w", err)
	}
	s.rest()
	return s, nil
}

func (s *leaderStream) greet() error {
	if _, err := s.nc.Write([]byte(hello(false))); err != nil {
		return err
	}
	if err := <-s.readable; err != nil {
		return err
	}
	reply, err := resp.AppendReply(nil, s.r, 4<<10)
	switch {
	case err != nil:
	case reply[0] == '-':
		err = errors.New(strings.TrimSpace(string(reply[1:])))
	default:
		s.learn(reply)
	}
	return err
}

// learn notes the leader's term, if a reply to HELLO tells it. A node that does not decide
// yet tells 0, and is asked again. A node of an older version tells none.
func (s *leaderStream) learn(hello []byte) {
	if _, term, ok := bytes.Cut(hello, []byte("$4\r\nterm\r\n:")); ok {
		digits, _, _ := bytes.Cut(term, []byte("\r"))
		s.term, _ = strconv.ParseUint(string(digits), 10, 64)
		s.see(s.term)
		s.anew = s.term == 0
	}
}

// hello is the command that chooses the protocol.
func hello(resp3 bool) string {
	if resp3 {
		return "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
	}
	return "*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n"
}

// watch waits for bytes.
func (s *leaderStream) watch() {
	for {
		_, err := s.r.Peek(1)
		s.readable <- err
		if err != nil {
			return
		}
		if _, ok := <-s.resume; !ok {
			return
		}
	}
}

// rest returns the reader to the watcher after an exchange.
func (s *leaderStream) rest() {
	_ = s.nc.SetDeadline(time.Time{})
	s.resume <- struct{}{}
}

// broken reports whether an idle stream has ended, or whether the other node has sent bytes
// without a request. Such a stream cannot be used any more.
func (s *leaderStream) broken() bool { return len(s.readable) > 0 }

func (s *leaderStream) close() {
	s.nc.Close()
	close(s.resume)
}

// exchange sends the items of fr that have no reply yet, and reads their replies of at most
// most bytes. sent reports whether anything may have reached the leader. After an error
// other than errHandingOver, the stream cannot be used any more. When the wait ends,
// exchange calls longer, which may extend the wait and reports whether it has.
func (s *leaderStream) exchange(fr *Frame, most int, longer func(*Frame) bool) (sent bool, err error) {
	_ = s.nc.SetWriteDeadline(fr.answer)
	s.buf = s.buf[:0]
	preface := s.turnTo(fr)
	s.buf = append(s.buf, fr.buf[fr.items[fr.replied].start:]...)
	n, err := s.nc.Write(s.buf)
	if cap(s.buf) > streamBuffer {
		s.buf = nil
	}
	if err != nil && n == 0 {
		return false, fmt.Errorf("write: %w", err)
	}
	// After a partial write, the other node may still have sent its last message.
	s.ask(fr, longer)
	defer s.ask(nil, nil)
	if err := <-s.readable; err != nil {
		return true, fmt.Errorf("read: %w", err)
	}
	for range preface {
		reply, err := resp.AppendReply(nil, s.r, 4<<10)
		switch {
		case err != nil:
			return true, fmt.Errorf("read: %w", err)
		case bytes.HasPrefix(reply, []byte(lastWord)):
			return true, errPeerCloses
		case reply[0] == '-':
			// Commands after it were executed, but in the wrong database.
			return true, fmt.Errorf("turn to a frame: %s", bytes.TrimSpace(reply))
		}
		s.learn(reply)
	}
	if fr.replied == 0 {
		fr.term = s.term
	} else if fr.term != s.term {
		fr.term = 0
	}
	err = s.replies(fr, most)
	handingOver := errors.Is(err, errHandingOver)
	s.anew = s.anew || handingOver
	if err == nil || handingOver {
		s.rest()
	}
	return true, err
}

// anyDB is the database of a stream whose database is not known.
const anyDB = 255

// turnTo makes the stream use the protocol, the database and the client of fr, and
// returns how many commands that takes.
func (s *leaderStream) turnTo(fr *Frame) (preface int) {
	if s.resp3 != fr.RESP3 || s.anew {
		s.buf = append(s.buf, hello(fr.RESP3)...)
		s.resp3 = fr.RESP3
		preface++
	}
	if s.db != fr.DB {
		s.buf = resp.AppendCommand(s.buf, [][]byte{[]byte("SELECT"), strconv.AppendUint(nil, uint64(fr.DB), 10)})
		preface++
	}
	if s.told != fr.Client || s.anew {
		c := fr.Client
		s.buf = resp.AppendCommand(s.buf, [][]byte{[]byte("RL.CLIENT"), []byte(c.User), []byte(c.Name), []byte(c.Addr)})
		s.told, s.anew = c, false
		preface++
	}
	s.db = fr.DB
	if fr.Selects {
		s.db = anyDB
	}
	return preface
}

// streamBuffer is the largest scratch buffer worth keeping on a stream.
const streamBuffer = 128 << 10

// Replies to commands that were not executed.
const (
	notLeader = "-" + TextNotLeader + "\r\n"
	handover  = "-" + TextHandover + "\r\n"
	lastWord  = "-" + TextClosing
)

// Refuses reports whether a node's reply says that it has not executed a command because it
// is not leader. After such a reply, the node refuses all commands on the stream until
// RL.CLIENT. So if it refuses a command of a frame, it executes no later command of that
// frame.
func Refuses(reply []byte) bool {
	return string(reply) == notLeader || string(reply) == handover
}

// replies reads the replies to fr's remaining items. If the leader has refused all items
// from some item on, replies returns errRefusedByPeer, and these items count as not sent.
func (s *leaderStream) replies(fr *Frame, most int) error {
	refused := -1 // the first refused item
	for i := fr.replied; i < len(fr.items); i++ {
		it := &fr.items[i]
		start := len(fr.out)
		for range it.drop + 1 {
			var err error
			fr.out = fr.out[:start]
			if fr.out, err = resp.AppendReply(fr.out, s.r, most); err != nil {
				fr.out = fr.out[:start]
				return fmt.Errorf("read: %w", err)
			}
			if bytes.HasPrefix(fr.out[start:], []byte(lastWord)) {
				if refused < 0 {
					refused = i
				}
				fr.unsend(refused)
				return errPeerCloses
			}
		}
		fr.bound(i, start)
		it.reply = len(fr.out)
		fr.replied = i + 1
		if refused < 0 && Refuses(fr.out[start:]) {
			refused = i
		}
	}
	if refused < 0 {
		return nil
	}
	err := errRefusedByPeer
	if start := fr.replyStart(refused); string(fr.out[start:fr.items[refused].reply]) == handover {
		err = errHandingOver
	}
	fr.unsend(refused)
	return err
}
