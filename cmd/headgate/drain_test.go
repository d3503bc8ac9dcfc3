package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keeper is a client of HTTP that keeps its connection as long as it may.
type keeper struct {
	addr     string
	pause    time.Duration // between an answer and the next request
	stopping *atomic.Bool  // set before the server is told to stop

	answered, parted, refused int
	wrong                     []string
}

const checkRequest = `{"policy":"p","attributes":{"user":"eve"}}`

// run asks until nobody listens any more.
func (k *keeper) run() {
	for {
		nc, err := net.DialTimeout("tcp", k.addr, waitLimit)
		if err != nil {
			return
		}
		for in := bufio.NewReader(nc); k.ask(nc, in); {
			time.Sleep(k.pause)
		}
		nc.Close()
	}
}

// fault notes what went wrong; the first ones are enough.
func (k *keeper) fault(format string, args ...any) {
	if len(k.wrong) < 3 {
		k.wrong = append(k.wrong, fmt.Sprintf(format, args...))
	}
}

// ask sends a request, judges its answer, and reports whether the connection goes on.
func (k *keeper) ask(nc net.Conn, in *bufio.Reader) bool {
	_ = nc.SetDeadline(time.Now().Add(waitLimit))
	_, err := fmt.Fprintf(nc, "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(checkRequest), checkRequest)
	before := !k.stopping.Load() // it has been sent
	var a *http.Response
	var body []byte
	if err == nil {
		if a, err = http.ReadResponse(in, nil); err == nil {
			body, err = io.ReadAll(a.Body)
		}
	}
	switch {
	case before && (err != nil || a.StatusCode != http.StatusOK):
		k.fault("sent before the stop: %v %s", err, body)
	case err != nil:
		k.refused++
	case a.StatusCode == http.StatusOK:
		k.answered++
	case a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"code":"TRYAGAIN"`) || !a.Close:
		k.fault("%d %v %s", a.StatusCode, a.Header, body)
	default:
		k.refused++
	}
	if err != nil || !a.Close {
		return err == nil
	}
	k.parted++
	if nc, err := net.Dial("tcp", k.addr); err == nil { // unready before it parts
		defer nc.Close()
		fmt.Fprint(nc, "GET /readyz HTTP/1.0\r\n\r\n")
		if a, err := http.ReadResponse(bufio.NewReader(nc), nil); err == nil && a.StatusCode != http.StatusServiceUnavailable {
			k.fault("it parts, and is ready")
		}
	}
	return false
}

// drains stops a node under HTTP requests, and looks at what it answers.
func drains(t *testing.T, n *process) {
	var stopping atomic.Bool
	var load sync.WaitGroup
	var keepers []*keeper
	for i := range 12 {
		k := &keeper{addr: n.http, stopping: &stopping}
		if i%3 == 2 {
			k.pause = 20 * time.Millisecond
		}
		keepers = append(keepers, k)
		load.Go(k.run)
	}
	time.Sleep(300 * time.Millisecond)
	stopping.Store(true)
	n.signal(t, syscall.SIGTERM)
	require.NoError(t, n.wait(t))
	load.Wait()
	answered, refused := 0, 0
	for i, k := range keepers {
		require.Empty(t, k.wrong, "client %d", i)
		require.NotZero(t, k.answered, "client %d", i)
		require.NotZero(t, k.parted, "client %d: its connection ends with an answer that says so", i)
		answered += k.answered
		refused += k.refused
	}
	t.Logf("%d answered, %d refused at the end", answered, refused)
	require.NotContains(t, n.stderr.String(), "cut off")
}

// A stop under load answers every command that it has run, and every one that was
// sent before the stop. Clients of a kept connection need not guess.
func TestStopAnswersHTTP(t *testing.T) {
	t.Parallel()
	const limit = "{on_failure: closed, limits: {user: {by: user, rate: 1_000_000_000/day}}}"
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		p := start(t)
		require.Equal(t, byte(':'), p.call(t, "RL.POLICY", "SET", "p", limit).Type)
		drains(t, p)
	})
	t.Run("leader", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t, 3, patient...)
		leader := c.leader(t)
		require.Eventually(t, func() bool { return leader.call(t, "RL.POLICY", "SET", "p", limit).Type == ':' }, waitLimit, 20*time.Millisecond)
		drains(t, leader.process)
	})
}

// A stop ends streams of events, rather than wait for them and cut them off.
func TestStopEndsStreams(t *testing.T) {
	t.Parallel()
	p := start(t)
	var ends []error
	var read sync.WaitGroup
	var mu sync.Mutex
	for range 10 {
		a, err := http.Get("http://" + p.http + "/v1/events")
		require.NoError(t, err)
		defer a.Body.Close()
		require.Equal(t, http.StatusOK, a.StatusCode)
		read.Go(func() {
			_, err := io.Copy(io.Discard, a.Body)
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, err)
		})
	}
	p.signal(t, syscall.SIGTERM)
	require.NoError(t, p.wait(t))
	read.Wait()
	for _, err := range ends {
		require.NoError(t, err, "the end of a stream, not of its connection")
	}
	require.NotContains(t, p.stderr.String(), "cut off")
}
