package web_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// wideBatch is a batch of n checks whose answers are as long as they get.
func wideBatch(r *rig, n int) string {
	var limits []string
	for i := range 16 {
		limits = append(limits, fmt.Sprintf("l%02d_%s: {rate: 5000000000/h}", i, strings.Repeat("x", 28)))
	}
	r.policy("wide", "{limits: {"+strings.Join(limits, ", ")+"}}")
	return `{"checks":[` + strings.Repeat(`{"policy":"wide"},`, n-1) + `{"policy":"wide"}]}`
}

// narrow makes a buffer of a socket small before it is connected.
func narrow(buffer int) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, buffer, 4096) }), err)
	}
}

// newNarrowRig starts a server whose answers wait in it, rather than in the system,
// for clients that do not read.
func newNarrowRig(t testing.TB, wc web.Config) *rig {
	r := newRig(t, server.Config{}, web.Config{})
	lc := net.ListenConfig{Control: narrow(syscall.SO_SNDBUF)}
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	wc.Decider = r.caller
	_, r.url = serve(t, wc, l)
	return r
}

// dialNarrow connects for an answer that the test may leave unread.
func dialNarrow(r *rig) net.Conn {
	r.t.Helper()
	d := net.Dialer{Control: narrow(syscall.SO_RCVBUF)}
	c, err := d.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// writeBatch sends a batch.
func writeBatch(c net.Conn, body string) error {
	_, err := fmt.Fprintf(c, "POST /v1/check:batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

// postRaw sends a batch whose answer the test may leave unread.
func postRaw(r *rig, body string) net.Conn {
	r.t.Helper()
	c := dialNarrow(r)
	require.NoError(r.t, writeBatch(c, body))
	return c
}

// healthy asks /healthz on a connection of its own.
func healthy(r *rig) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
	a, err := client.Get(r.url + "/healthz")
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", a.StatusCode)
	}
	return nil
}

// Clients that do not read their answers keep nobody out.
func TestClientsThatDoNotReadMakeRoom(t *testing.T) {
	const clients = 10
	r := newNarrowRig(t, web.Config{MaxClients: clients})
	body := wideBatch(r, 100)
	began := time.Now()
	for range clients + 2 {
		postRaw(r, body)
	}
	time.Sleep(2 * time.Second)
	var err error
	for time.Since(began) < 4500*time.Millisecond { // in less than 5 s none is cut off
		if err = healthy(r); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.NoError(t, err)
}

// Where nobody needs its room, too, such a connection ends.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	r := newNarrowRig(t, web.Config{})
	c := postRaw(r, wideBatch(r, 100))
	time.Sleep(7 * time.Second)
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4<<20))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	data, err := io.ReadAll(c)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NotContains(t, string(data[max(0, len(data)-100):]), "]}", "the end of %d bytes", len(data))
}

// The memory of batches whose answers nobody reads is bounded. Beyond it batches are BUSY. Soon
// the next one finds room, because stuck connections make it.
func TestMemoryOfBatchesIsBounded(t *testing.T) {
	const clients = 60 // three times as many as there is room for
	r := newNarrowRig(t, web.Config{})
	body := wideBatch(r, 10)
	// A long body takes room as answers do: it is soon full, on a slow machine too.
	large := strings.Replace(body, "[", "["+strings.Repeat(" ", 1_000_000), 1)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var refused, stuck atomic.Int64
	var asked sync.WaitGroup
	// On a slower one yet the first may be cut off before the last has come.
	for wave := 0; wave < 3 && refused.Load() == 0; wave++ {
		for range clients {
			c := dialNarrow(r)
			require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
			asked.Go(func() { // who is refused need not have sent all
				_ = writeBatch(c, large)
			})
			asked.Go(func() { // no more than the status, so that it stays stuck
				var status [len("HTTP/1.1 503")]byte
				if _, err := io.ReadFull(c, status[:]); err != nil {
					return
				}
				switch string(status[9:]) {
				case "503":
					refused.Add(1)
				case "200":
					stuck.Add(1)
				}
			})
		}
		asked.Wait()
	}
	runtime.ReadMemStats(&now)
	t.Logf("%d are stuck, %d BUSY; %d MB", stuck.Load(), refused.Load(), (int64(now.HeapInuse)-int64(before.HeapInuse))>>20)
	require.Less(t, int64(now.HeapInuse)-int64(before.HeapInuse), int64(300<<20))
	require.Positive(t, stuck.Load())
	require.Positive(t, refused.Load())
	var last answer
	require.Eventually(t, func() bool {
		if last = r.post("/v1/check:batch", body); last.status == http.StatusServiceUnavailable {
			require.Contains(t, last.body, `"code":"BUSY"`)
		}
		return last.status == http.StatusOK
	}, 20*time.Second, 100*time.Millisecond, "those who are stuck make room")
}

// Clients that announce large batches and do not send them keep nobody's out.
func TestSlowLargeBatches(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {all: {rate: 1000/h}}}")
	for i := range 40 {
		c := r.dial()
		length, body := "Content-Length: 1000000", "{"
		if i%2 == 0 {
			length, body = "Transfer-Encoding: chunked", "1\r\n{"
		}
		_, err := fmt.Fprintf(c, "POST /v1/check:batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", length, body)
		require.NoError(t, err)
	}
	time.Sleep(100 * time.Millisecond)
	body := `{"checks":[{"policy":"p"}` + strings.Repeat(" ", 100_000) + `]}`
	require.Equal(t, 200, r.post("/v1/check:batch", body).status)
}
