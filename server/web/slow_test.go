package web_test

import (
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
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

var slowClients = flag.Int64("slow", web.DefaultMaxClients+200, "TestSlowClients: how many there are at a time")

// Clients may begin a body or a header and go on a byte at a time or not at all, however many
// they are. Their memory is bounded, and others are answered.
func TestSlowClients(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {all: {rate: 1000/h}}}")
	addr := strings.TrimPrefix(r.url, "http://")
	heads := []string{
		"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{",
		"POST /v1/check:batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{",
		"POST /v1/check HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 8000),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", // which the port does not speak
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// Each client connects again when it has been closed, some twice.
	var left atomic.Int64
	left.Store(*slowClients * 5 / 2)
	var clients sync.WaitGroup
	for range *slowClients {
		clients.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				_, _ = io.WriteString(c, heads[n%int64(len(heads))])
				for range 6 {
					_ = c.SetReadDeadline(time.Now().Add(time.Second / 2))
					if _, err := io.Copy(io.Discard, c); !errors.Is(err, os.ErrDeadlineExceeded) {
						break // it is closed
					}
					_, _ = io.WriteString(c, "x")
				}
				c.Close()
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	// A connection may be the oldest before its request is read; not again and again.
	answered, longest := 0, time.Duration(0)
	for failed := 0; left.Load() > 0; time.Sleep(10 * time.Millisecond) {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
		began := time.Now()
		a, err := client.Get(r.url + "/healthz")
		if err != nil {
			failed++
			require.Less(t, failed, 10, err)
			continue
		}
		a.Body.Close()
		require.Equal(t, 200, a.StatusCode)
		answered, failed, longest = answered+1, 0, max(longest, time.Since(began))
	}
	runtime.ReadMemStats(&after)
	clients.Wait()
	t.Logf("%d clients: %d answers of /healthz, the longest after %v, %d MiB more", *slowClients, answered, longest, (int64(after.HeapInuse)-int64(before.HeapInuse))>>20)
	require.Greater(t, answered, 5)
	require.Less(t, int64(after.HeapInuse)-int64(before.HeapInuse), int64(200<<20))
	require.Equal(t, 200, r.post("/v1/check", `{"policy":"p"}`).status)
}
