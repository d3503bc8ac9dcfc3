package server

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/resp"
)

// loop drives plain TCP connections with epoll, on one goroutine. epoll is level triggered:
// in each round, a readable connection gets one read, one batch and one write. A loop
// consists of a lane and the sockets that it serves.
//
// Reads and writes on non-blocking sockets never wait, so they skip the scheduler's work
// around system calls (syscall.RawSyscall).
type loop struct {
	srv      *Server
	lane     *lane
	epfd     int
	evfd     int // eventfd that signals a post
	sockets  []*socket
	open     int
	stopping bool
	buf      []byte
	events   [256]unix.EpollEvent
	lastTick int64
	done     chan struct{}
	// keepsProcessor reports that there are more processors than loops.
	keepsProcessor bool
	first          bool   // see wakeful
	heard          uint64 // batches of other nodes, when the loop last looked
}

// socket is a connection of a loop.
type socket struct {
	conn
	loop     *loop
	out      []byte // output from outOff on that the kernel has not taken
	outOff   int
	later    parts // output after out
	interest uint32
	unread   uint8 // how often epoll has returned it while it waits to be read
	waiting  int64 // lane.now when output last made progress
}

const (
	// readSize bounds one read, in bytes. A pipeline of 16 short commands is less than 2
	// KiB; a larger buffer would only evict other data from the cache.
	readSize = 64 << 10
	// writeSize bounds one write of waiting output, in bytes. Otherwise a client that reads
	// meanwhile could keep the loop busy.
	writeSize = 256 << 10
	// tickEvery is how often the loop checks timeouts, in ns.
	tickEvery = int64(1e9)
	// busyWait is how many ms a loop waits without giving up its processor. It is the
	// shortest time that epoll allows, and far longer than the pauses of a busy server.
	busyWait = 1

	// namedOften is how often epoll may return a socket that waits to be read. After that
	// the loop stops watching the socket: two calls of epoll_ctl cost more than a few
	// returned events.
	namedOften = 4

	readable = unix.EPOLLIN | unix.EPOLLRDHUP
)

func (s *Server) newLoop() (*loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll instance: %w", err)
	}
	evfd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epfd)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(evfd)}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, evfd, &ev); err != nil {
		unix.Close(evfd)
		unix.Close(epfd)
		return nil, fmt.Errorf("watch eventfd: %w", err)
	}
	lp := &loop{srv: s, epfd: epfd, evfd: evfd, buf: make([]byte, readSize), done: make(chan struct{})}
	lp.keepsProcessor = s.cfg.IOThreads < runtime.GOMAXPROCS(0)
	lp.lane = s.newLane(func() {
		one := [8]byte{1}
		// The write fails only if the eventfd's counter is full; then the loop is awake.
		_, _ = unix.Write(evfd, one[:])
	})
	lp.lane.looks = true
	return lp, nil
}

// run serves until stop, and closes the loop's descriptors.
func (lp *loop) run() {
	defer close(lp.done)
	for !lp.stopping || lp.open > 0 {
		n := lp.wait()
		woken := false
		lp.lane.events = true
		for i := range n {
			ev := &lp.events[i]
			if int(ev.Fd) == lp.evfd {
				woken = true
				continue
			}
			if sk := lp.sockets[ev.Fd]; sk != nil {
				sk.ready(ev.Events)
			}
		}
		lp.lane.events = false
		if woken {
			var count [8]byte
			rawRead(lp.evfd, count[:])
		}
		// Run posts after all events of the round. A post may add a socket whose descriptor
		// is the same as that of an older event in this round. Connections that have ended
		// their turn come last.
		lp.lane.runPosts()
		lp.tick(n == 0)
		if lp.lane.asked {
			// The goroutine that commits is now ready to run, on the processor that this
			// loop would keep while it waits.
			lp.lane.asked = false
			runtime.Gosched()
		}
	}
	lp.lane.close()
	unix.Close(lp.evfd)
	unix.Close(lp.epfd)
}

// wait returns the number of events. If there are none, it waits for at most a tick.
//
// A busy loop waits only some microseconds for its next event. If it gave up its processor
// each time, the Go runtime's monitor would wake to give the processor to another
// goroutine. This cost 15 % of the processor time at one command per read. So the loop
// first waits for a moment without giving up its processor. The runtime's signal for a
// garbage collection ends that wait, and other goroutines have another processor. Then the
// loop waits in the usual way, which gives up the processor.
func (lp *loop) wait() int {
	most := int(tickEvery / 1e6)
	if len(lp.lane.turns) > 0 {
		most = 0 // light input goes first, if there is any
	} else if lp.keepsProcessor {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(lp.epfd),
			uintptr(unsafe.Pointer(&lp.events[0])), uintptr(len(lp.events)), busyWait, 0, 0)
		if errno == 0 && n > 0 {
			return int(n)
		}
		if lp.wakeful() {
			return 0
		}
	}
	n, err := unix.EpollWait(lp.epfd, lp.events[:], most)
	if err != nil {
		if !errors.Is(err, unix.EINTR) {
			lp.srv.log.Error("epoll_wait", "error", err)
		}
		return 0
	}
	return n
}

// wakeful reports whether a loop without events keeps its processor. Only the first loop
// does, and only while other nodes send commands, which goroutines serve. Without it, all
// processors may be idle for a moment, and the Go runtime's monitor goes to sleep. Waking
// the monitor for each batch took a third of the processor time of a leader without clients
// of its own.
func (lp *loop) wakeful() bool {
	if !lp.first {
		return false
	}
	last := lp.heard
	lp.heard = lp.srv.heard.Load()
	return lp.heard != last
}

// add adds a connected, non-blocking descriptor to the loop.
func (lp *loop) add(fd int, moves bool, addr, laddr string) {
	if lp.stopping {
		lp.srv.leave()
		unix.Close(fd)
		return
	}
	sk := &socket{loop: lp, interest: readable}
	sk.conn.moves = moves
	lp.srv.initConn(&sk.conn, lp.lane, sk, fd, addr, laddr)
	ev := unix.EpollEvent{Events: sk.interest, Fd: int32(fd)}
	if err := unix.EpollCtl(lp.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		lp.srv.log.Error("watch connection", "error", err)
		sk.release()
		unix.Close(fd)
		return
	}
	for fd >= len(lp.sockets) {
		lp.sockets = append(lp.sockets, make([]*socket, max(64, len(lp.sockets)))...)
	}
	lp.sockets[fd] = sk
	lp.open++
}

// stop closes every connection when its input is answered, and ends the loop after the
// last.
func (lp *loop) stop() {
	lp.stopping = true
	for _, sk := range lp.sockets {
		if sk != nil {
			sk.depart(closesSoon)
			sk.settle()
		}
	}
}

// kill closes every connection at once.
func (lp *loop) kill() {
	for _, sk := range lp.sockets {
		if sk != nil {
			sk.kill()
			sk.settle()
		}
	}
}

// ready serves a socket that epoll has returned.
func (sk *socket) ready(events uint32) {
	l := sk.lane
	l.begin()
	switch {
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 && (sk.stall != 0 || events&unix.EPOLLIN == 0):
		sk.kill()
		sk.settle()
	case events&unix.EPOLLOUT != 0:
		sk.settle()
	}
	if events&readable != 0 && !sk.closed {
		switch {
		case sk.stall == 0 && sk.heavy > 0:
			sk.unread = 1
			sk.endTurn()
		case sk.stall == 0:
			sk.receive()
		case sk.unread > 0 && sk.unread < namedOften:
			sk.unread++
		default:
			// Stop watching only when input arrives while the connection is stalled. Most
			// clients wait for their reply, so this saves two calls of epoll_ctl.
			sk.watch(sk.interest &^ readable)
		}
	}
	l.end()
}

// receive reads once and runs the input.
func (sk *socket) receive() {
	n, errno := sk.read()
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0:
		sk.kill()
	case n == 0:
		sk.endOfInput()
	default:
		sk.lane.counters.bytesIn.Add(uint64(n))
		sk.lastActive.Store(sk.lane.now)
		sk.input(sk.loop.buf[:n])
	}
	sk.settle()
}

// read reads input, and then the clock: a command must not be dated before it was sent.
func (sk *socket) read() (int, unix.Errno) {
	n, errno := rawRead(sk.fd, sk.loop.buf)
	sk.lane.tick()
	return n, errno
}

// settle implements driver.
func (sk *socket) settle() {
	if sk.unread > 0 && sk.stall == 0 && !sk.killed {
		sk.unread = 0
		sk.receive()
		return
	}
	sk.advance()
	if sk.killed || sk.ending != staysOpen {
		sk.takeLast()
		if sk.done() {
			sk.close()
			return
		}
	}
	sk.weigh()
	want := sk.interest
	if sk.stall == 0 {
		want |= readable
	}
	if sk.eof {
		want &^= readable
	}
	if sk.pending > 0 {
		want |= unix.EPOLLOUT
	} else {
		want &^= unix.EPOLLOUT
	}
	if want != sk.interest {
		sk.watch(want)
	}
}

// advance writes output and lets stalled input run, until neither is possible.
func (sk *socket) advance() {
	for {
		sk.unpark()
		if parts := sk.lane.takeParts(); parts != nil {
			if sk.out == nil {
				sk.waiting = sk.lane.now
			}
			sk.later.add(parts...)
		}
		sk.send(sk.lane.takeOutput())
		if sk.killed || !sk.runnable() {
			return
		}
		sk.resume()
	}
}

// takeLast lets a departing connection close when the kernel has no more input from it.
func (sk *socket) takeLast() {
	for range lastLooks {
		if !sk.departs() {
			return
		}
		n, errno := sk.read()
		if errno != 0 || n == 0 {
			break
		}
		sk.lane.counters.bytesIn.Add(uint64(n))
		sk.input(sk.loop.buf[:n])
		sk.advance()
	}
	if sk.departs() {
		sk.leave()
		sk.advance()
	}
}

// send writes b after the waiting output, and keeps the bytes that the kernel does not
// take.
func (sk *socket) send(b []byte) {
	if sk.killed {
		return
	}
	if sk.out == nil {
		sk.out = sk.later.first()
	}
	if len(sk.out) > sk.outOff {
		n := sk.write(sk.out[sk.outOff:min(len(sk.out), sk.outOff+writeSize)])
		sk.outOff += n
		if sk.outOff == len(sk.out) {
			sk.lane.recycle(sk.out)
			resp.FreePart(sk.out)
			sk.out, sk.outOff = sk.later.first(), 0
		}
	}
	if sk.out != nil && len(b) > 0 && (cap(b) > outputKept || len(sk.later.all) > 0) {
		if cap(b) <= outputKept {
			b = slices.Clone(b)
		}
		sk.later.add(b)
		b = nil
	}
	if sk.out == nil && len(b) > 0 {
		n := sk.write(b[:min(len(b), outputKept)])
		if n < len(b) && cap(b) > outputKept { // nobody else uses b any more; see takeOutput
			sk.out, sk.outOff, sk.waiting = b, n, sk.lane.now
			n = len(b)
		}
		b = b[n:]
	}
	if len(b) > 0 {
		if sk.out == nil {
			sk.out = sk.lane.buffer()
			sk.waiting = sk.lane.now
		} else if sk.outOff > len(sk.out)/2 {
			sk.out = sk.out[:copy(sk.out, sk.out[sk.outOff:])]
			sk.outOff = 0
		}
		sk.out = append(sk.out, b...)
	}
	sk.output = cap(sk.out) + sk.later.held
	sk.queued(len(sk.out) - sk.outOff + sk.later.size)
}

// write writes the bytes that the kernel takes at once, and returns their number.
func (sk *socket) write(b []byte) int {
	n, errno := rawWrite(sk.fd, b)
	if errno != 0 {
		if errno != unix.EAGAIN && errno != unix.EINTR {
			sk.kill()
		}
		return 0
	}
	sk.waiting = sk.lane.now
	sk.lane.counters.bytesOut.Add(uint64(n))
	return n
}

// watch changes the events that the socket waits for.
func (sk *socket) watch(events uint32) {
	sk.interest = events
	ev := unix.EpollEvent{Events: events, Fd: int32(sk.fd)}
	if err := unix.EpollCtl(sk.loop.epfd, unix.EPOLL_CTL_MOD, sk.fd, &ev); err != nil {
		sk.srv.log.Error("change watched events", "error", err)
		sk.kill()
		sk.close()
	}
}

func (sk *socket) close() {
	if sk.closed {
		return
	}
	sk.loop.sockets[sk.fd] = nil
	sk.loop.open--
	sk.lane.recycle(sk.out)
	resp.FreePart(sk.out)
	sk.later.free()
	sk.out = nil
	sk.release()
	unix.Close(sk.fd)
}

// tick runs once per second. It closes connections that have been idle for too long, or
// whose peers have not read output for too long.
//
// idle says that nothing has happened in this round, so that the time of the last batch is
// old.
func (lp *loop) tick(idle bool) {
	if idle {
		lp.lane.begin()
		defer lp.lane.end()
	}
	now := lp.lane.now
	if now-lp.lastTick < tickEvery {
		return
	}
	lp.lastTick = now
	for _, sk := range lp.sockets {
		if sk != nil && sk.expired(now, sk.waiting) {
			sk.kill()
			sk.settle()
		}
	}
}

func rawRead(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func rawWrite(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
