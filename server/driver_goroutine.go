package server

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/headgate-io/headgate/resp"
)

// stream drives one connection with two goroutines, a reader and a writer. It is for
// TLS, unix sockets, and systems without epoll. Instead of a driver thread there is a
// lock: the goroutine that holds the lock may use the connection and its lane. No other
// connection uses this lane.
//
// The writer writes without the lock, so a peer who does not read blocks nobody else.
// Posted functions run on short-lived goroutines.
//
// Streams compete for processors, just as the connections of a loop compete for their
// thread. A goroutine that becomes ready waits until all goroutines that were ready
// earlier have run. So streams with heavy input may use only half of the processors;
// then light input finds a free one.
//
// If the peer is another node, the reader writes the output itself. Such a peer sends
// nothing more until it has its replies, so the reader has time. And to wake the writer
// would also wake an idle processor.
type stream struct {
	conn
	nc net.Conn

	mu       sync.Mutex
	changed  sync.Cond // wakes the writer or the reader; uses mu
	out      []byte    // guarded by mu: output that nobody writes yet
	later    parts     // guarded by mu: output that comes after out
	inFlight int       // guarded by mu: bytes that are being written
	flying   int       // guarded by mu: the capacity of the buffer of inFlight
	spare    []byte    // guarded by mu
	writes   bool      // guarded by mu: the reader writes what is put out
	waits    bool      // guarded by mu: the reader writes the output
}

// streamKept is the largest buffer, in bytes, that a stream keeps for its next output.
const streamKept = 32 << 10

// streamReadSize is the size of a stream's read buffer in bytes: one TLS record.
const streamReadSize = 16 << 10

// serveStream serves st.nc until it is closed. The connection must already be admitted.
func (s *Server) serveStream(st *stream) {
	nc := st.nc
	st.changed.L = &st.mu
	l := s.newLane(func() { go st.runPosts() })
	if st.relayed {
		l.table = s.fromNodes
	}
	s.initConn(&st.conn, l, st, -1, addrText(nc.RemoteAddr()), addrText(nc.LocalAddr()))
	if !s.addStream(st) {
		st.mu.Lock()
		st.kill()
		st.settle()
		st.mu.Unlock()
	}
	writer := make(chan struct{})
	go func() {
		defer close(writer)
		st.write()
	}()
	st.read()
	<-writer
	s.removeStream(st)
	st.mu.Lock()
	defer st.mu.Unlock()
	l.close()
}

// read passes the input to the connection until the connection is closed.
func (st *stream) read() {
	buf := make([]byte, streamReadSize)
	for {
		st.mu.Lock()
		st.limitRead()
		heavy := st.heavy > 0 && !st.relayed // other streams wait until a node's input has run
		st.mu.Unlock()
		n, err := st.nc.Read(buf)
		if heavy {
			st.srv.heavy <- struct{}{}
		}
		st.mu.Lock()
		st.lane.begin()
		if n > 0 && !st.closed {
			st.lane.counters.bytesIn.Add(uint64(n))
			st.lastActive.Store(st.lane.now)
			st.input(buf[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			switch {
			case st.departs():
				st.leave()
			case st.expired(st.lane.now, st.lane.now):
				st.kill()
			}
		default:
			st.endOfInput()
		}
		if st.writes = st.relayed; st.relayed {
			st.srv.heard.Add(1)
		}
		st.settle()
		st.lane.end()
		if heavy {
			<-st.srv.heavy
		}
		for st.writes && st.writable() {
			st.writeOut()
		}
		st.writes = false
		st.wake()
		st.waits = true
		for !st.closed && (st.stall != 0 || st.ending == closes) {
			st.changed.Wait()
		}
		st.waits = false
		closed := st.closed
		st.mu.Unlock()
		if closed {
			return
		}
	}
}

// limitRead sets the reader's deadline: how long the connection may be idle or, if it
// departs, how long it looks for input. The caller holds mu.
func (st *stream) limitRead() {
	var deadline time.Time // none
	if t := st.idleLimit(); t > 0 {
		deadline = time.Now().Add(t)
	}
	if st.departing() {
		deadline = time.Now().Add(lastLook)
	}
	_ = st.nc.SetReadDeadline(deadline)
}

// write writes output until the connection is closed.
func (st *stream) write() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for !st.closed {
		if st.writes || !st.writable() {
			st.changed.Wait()
			continue
		}
		st.writeOut()
	}
}

// writable reports whether there is output that nobody writes yet. The caller holds mu.
func (st *stream) writable() bool { return len(st.out) > 0 && st.inFlight == 0 && !st.closed }

// writeOut writes the present output. The caller holds mu; writeOut releases mu while it
// writes.
func (st *stream) writeOut() {
	b := st.out
	st.out, st.spare = st.spare[:0], nil
	if next := st.later.first(); next != nil {
		st.out = next
	}
	st.inFlight, st.flying = len(b), cap(b)
	st.mu.Unlock()
	if t := st.srv.cfg.WriteTimeout; t > 0 {
		_ = st.nc.SetWriteDeadline(time.Now().Add(t))
	}
	n, err := st.nc.Write(b)
	resp.FreePart(b)
	st.mu.Lock()
	st.inFlight, st.flying = 0, 0
	if cap(b) <= streamKept {
		st.spare = b[:0]
	}
	st.lane.begin()
	st.lane.counters.bytesOut.Add(uint64(n))
	if err != nil {
		st.kill()
	}
	st.settle()
	st.lane.end()
}

// wake wakes the writer or the waiting reader, if there is work for it. The caller holds
// mu.
func (st *stream) wake() {
	if st.closed || st.waits || !st.writes && st.writable() {
		st.changed.Broadcast()
	}
}

// runPosts runs the functions posted to the lane. If the connection has ended its turn,
// runPosts resumes it.
func (st *stream) runPosts() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.lane.turns) > 0 && !st.relayed {
		st.mu.Unlock()
		st.srv.heavy <- struct{}{}
		defer func() { <-st.srv.heavy }()
		st.mu.Lock()
	}
	st.lane.runPosts()
}

// settle implements driver. The caller holds mu.
func (st *stream) settle() {
	if st.closed {
		return
	}
	for {
		st.unpark()
		if parts := st.lane.takeParts(); parts != nil {
			st.later.add(parts...)
		}
		st.take(st.lane.takeOutput())
		st.queued(len(st.out) + st.later.size + st.inFlight)
		if st.killed || !st.runnable() {
			break
		}
		st.resume()
	}
	if st.departing() {
		st.limitRead() // the reader decides when to close
	}
	if st.done() {
		st.release()
		st.out = nil
		st.later.free()
		// The close makes the reader and the writer return from the socket with an error.
		st.nc.Close()
	} else {
		st.weigh()
	}
	st.wake()
}

// take appends b to the output that nobody writes yet. It may keep a large buffer without a
// copy, because nobody else uses it any more; see takeOutput.
func (st *stream) take(b []byte) {
	if len(st.out) == 0 && len(st.later.all) > 0 {
		st.out = st.later.first()
	}
	switch {
	case len(b) == 0:
	case len(st.out) == 0 && cap(b) > outputKept:
		st.out = b
	case cap(b) > outputKept:
		st.later.add(b)
	case len(st.later.all) > 0:
		st.later.add(slices.Clone(b))
	default:
		st.out = append(st.out, b...)
	}
	w := &st.lane.w
	if cap(w.B) > streamKept {
		w.B = nil
	}
	st.output = cap(st.out) + st.later.held + st.flying + cap(st.spare) + cap(w.B)
}

// stop lets the connection finish the input that it has received, and then ends it.
func (st *stream) stop() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.closed {
		st.depart(closesSoon)
		st.settle()
	}
}

// abort closes the connection at once.
func (st *stream) abort() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.closed {
		st.kill()
		st.settle()
	}
}

func addrText(a net.Addr) string {
	if a == nil {
		return ""
	}
	if a.Network() == "unix" {
		return a.String() + ":0"
	}
	return a.String()
}
