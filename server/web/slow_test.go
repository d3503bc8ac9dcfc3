package web_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// Clients that begin a body, or a header, and do not go on, however many: what they
// take is bounded, and others are answered.
func TestSlowClients(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {all: {rate: 1000/h}}}")
	const slow = 3000
	addr := strings.TrimPrefix(r.url, "http://")
	heads := []string{
		"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{",
		"POST /v1/check:batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{",
		"POST /v1/check HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 8000),
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// Each client connects again when it has been closed, until all have.
	var left atomic.Int64
	left.Store(slow)
	var clients sync.WaitGroup
	for range web.DefaultMaxClients + 200 {
		clients.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				_, _ = io.WriteString(c, heads[n%int64(len(heads))])
				_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
				_, _ = io.Copy(io.Discard, c)
				c.Close()
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	// A connection may be the oldest before its request is read; not again and again.
	answered := 0
	for failed := 0; left.Load() > 0; time.Sleep(10 * time.Millisecond) {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
		a, err := client.Get(r.url + "/healthz")
		if err != nil {
			failed++
			require.Less(t, failed, 10, err)
			continue
		}
		a.Body.Close()
		require.Equal(t, 200, a.StatusCode)
		answered, failed = answered+1, 0
	}
	runtime.ReadMemStats(&after)
	clients.Wait()
	require.Greater(t, answered, 5)
	require.Less(t, int64(after.HeapInuse)-int64(before.HeapInuse), int64(200<<20))
	require.Equal(t, 200, r.post("/v1/check", `{"policy":"p"}`).status)
}

// At most eight limits are told, and none that is in shadow.
func TestHeadersShowEnforcedLimits(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	var limits []string
	for i := range 14 {
		limits = append(limits, fmt.Sprintf("l%d: {rate: %d/h}", i, 100+i))
	}
	r.policy("p", "{limits: {seen: {rate: 1/h, mode: shadow}, soft: {rate: 1/h, mode: soft}, "+strings.Join(limits, ", ")+"}}")
	a := r.post("/v1/check", `{"policy":"p"}`)
	require.Equal(t, 200, a.status)
	for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
		value := a.header.Get(name)
		require.Equal(t, 7, strings.Count(value, ", "), value)
		require.True(t, strings.HasPrefix(value, `"l0";`), value)
		require.NotRegexp(t, "seen|soft", value)
	}
}
