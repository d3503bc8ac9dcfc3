package accept

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
)

const patient = 20 * time.Second

// rig is a Listener whose connections are echoed.
type rig struct {
	*Listener
	t    *testing.T
	addr string

	mu  sync.Mutex
	why []error // guarded by mu: of handshakes that failed
}

func newRig(t *testing.T, most int) *rig {
	pair, err := tls.X509KeyPair(certstest.New().Issue("server"))
	require.NoError(t, err)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &rig{t: t, addr: tcp.Addr().String()}
	r.Listener = newListener(tcp, &tls.Config{Certificates: []tls.Certificate{pair}}, most, func(_ net.Addr, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.why = append(r.why, err)
	})
	t.Cleanup(func() { r.Close() })
	go func() {
		for {
			c, err := r.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	return r
}

// call connects and sees an echo.
func (r *rig) call() error {
	d := net.Dialer{Timeout: patient}
	c, err := tls.DialWithDialer(&d, "tcp", r.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = io.WriteString(c, "x"); err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	return err
}

// silent connects without a word.
func (r *rig) silent() net.Conn {
	c, err := net.Dial("tcp", r.addr)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

func (r *rig) strangersNow() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Listener.mu.Lock()
	defer r.Listener.mu.Unlock()
	return len(r.strangers)
}

// Clients that begin a handshake and go no further are bounded. A client that
// completes one is let in at once, not after Timeout: the oldest make room.
func TestStrangersMakeRoom(t *testing.T) {
	r := newRig(t, 20)
	var all []net.Conn
	for i := range 70 {
		c := r.silent()
		if i%2 == 0 {
			// A part of a header, byte by byte, does not make it any younger.
			_, err := c.Write([]byte{22, 3})
			require.NoError(t, err)
		}
		all = append(all, c)
		require.LessOrEqual(t, r.strangersNow(), 20)
	}
	begin := time.Now()
	require.NoError(t, r.call())
	require.Less(t, time.Since(begin), Timeout/2)
	for _, c := range all[:10] {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patient)))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "the oldest")
	}
	require.GreaterOrEqual(t, r.Errors(), uint64(10))
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Contains(t, r.why, errMadeRoom)
}

// A client that sends byte after byte is as old as one that sends nothing.
func TestDrippingStrangersAreNotYounger(t *testing.T) {
	const most = 100
	r := newRig(t, most)
	dripping := r.silent()
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for b := range 1 << 20 {
			if _, err := dripping.Write([]byte{22, 3, 1, 64, 0}[min(b, 4):][:1]); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	time.Sleep(300 * time.Millisecond)
	for range most {
		r.silent()
	}
	require.Eventually(t, func() bool { return r.Errors() == 1 }, patient, time.Millisecond)
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Error("another one had to go")
	}
	close(stop)
}

// A client that opens many connections at once, and shakes hands one after the other,
// gets them all. While handshakes succeed, none is closed at once.
func TestManyHandshakesAtOnce(t *testing.T) {
	r := newRig(t, 6)
	var all []net.Conn
	for range 60 {
		all = append(all, r.silent())
	}
	for i, c := range all {
		require.NoError(t, c.SetDeadline(time.Now().Add(patient)))
		require.NoError(t, tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake(), "connection %d", i)
	}
}

// Handshakes compute no more at a time than half of the processors allow.
func TestHandshakesTakeTurns(t *testing.T) {
	pair, err := tls.X509KeyPair(certstest.New().Issue("server"))
	require.NoError(t, err)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running, most atomic.Int64
	l := NewListener(tcp, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		defer running.Add(-1)
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Millisecond)
		return &pair, nil
	}}, func(net.Addr, error) {})
	defer l.Close()
	r := &rig{t: t, addr: tcp.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _ = r.call() })
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(max(1, runtime.GOMAXPROCS(0)/2)))
	require.Empty(t, turns(), "all are given back")
}

// A client may not send what it likes before it is known.
func TestHandshakesAreBoundedInBytes(t *testing.T) {
	r := newRig(t, 16)
	c := r.silent()
	record := append([]byte{22, 3, 1, 64, 0}, make([]byte, 16<<10)...)
	record[5], record[6], record[7], record[8] = 1, 0, 255, 255 // a ClientHello of 64 KiB
	for range 5 {
		_, _ = c.Write(record)
		record[5], record[6], record[7], record[8] = 0, 0, 0, 0
	}
	require.Eventually(t, func() bool { return r.Errors() == 1 }, patient, time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.ErrorContains(t, r.why[0], "64 KiB")
}

// A client of plain HTTP gets an error that says so, and a listener that closes
// leaves no connection behind.
func TestEnds(t *testing.T) {
	r := newRig(t, 16)
	c := r.silent()
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	answer, _ := io.ReadAll(c)
	require.Contains(t, string(answer), "HTTP request to an HTTPS server")
	require.Eventually(t, func() bool { return r.Errors() == 1 }, patient, time.Millisecond)
	waits := r.silent()
	require.Eventually(t, func() bool { return r.strangersNow() == 1 }, patient, time.Millisecond)
	require.NoError(t, r.Close())
	_, err = waits.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = r.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.Eventually(t, func() bool { return r.strangersNow() == 0 }, patient, time.Millisecond)
	require.EqualValues(t, 1, r.Errors(), "that the server ends is no error of a client's")
}
