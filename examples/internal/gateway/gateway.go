// Package gateway runs a gateway with an example's configuration, in front of an
// application and beside a server of Headgate's, for the tests of examples.
package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// Patience is how long a test waits for what should be there at once.
const Patience = 20 * time.Second

// Rig is an application, a server of Headgate's, and a gateway between them and who
// asks.
type Rig struct {
	// URL is the gateway's, Dir a directory of the test's.
	URL, Dir string
	Headgate *hgtest.Server
	// Calls are how often the application was called, and Conns how many connections
	// the gateway has made to Headgate, those that ask for its health aside.
	Calls, Conns atomic.Int64
	// Silent: clients of the gateway see no RateLimit of what is admitted.
	Silent bool

	t                     testing.TB
	listen, asked, behind string
}

// New starts the application, and Headgate with a file of policies.
func New(t testing.TB, policies string) *Rig {
	r := &Rig{t: t, Dir: t.TempDir()}
	file := filepath.Join(r.Dir, "policies.yaml")
	require.NoError(t, os.WriteFile(file, []byte(policies), 0o600))
	var err error
	r.Headgate, err = hgtest.Start(hgtest.Config{Args: []string{"--policies", file}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Headgate.Stop() }) // an error if a test has killed it
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.Calls.Add(1)
		if q.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %s %s %s", q.Method, q.RequestURI, q.Header.Get("Authorization"), body)
	}))
	t.Cleanup(app.Close)
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	r.listen, r.URL, r.behind = addrs[0], "http://"+addrs[0], strings.TrimPrefix(app.URL, "http://")
	r.asked = r.counted()
	return r
}

// Configuration writes an example's file into the directory, with the addresses of the
// rig, and returns its path. The gateway waits for Headgate as long as tests do on a
// busy machine, and not 250 ms. edits are texts of it and what stands in their place.
func (r *Rig) Configuration(name string, edits ...string) string {
	r.t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(r.t, err)
	conf := strings.NewReplacer("127.0.0.1:7380", r.asked, "127.0.0.1:8000", r.listen, ":8000", r.listen[strings.LastIndexByte(r.listen, ':'):], "127.0.0.1:8080", r.behind,
		" 50ms", " 5s", " 250ms", " 10s", "timeout = 250,", "timeout = 10000,").Replace(string(text))
	for i := 0; i < len(edits); i += 2 {
		require.Contains(r.t, conf, edits[i])
		conf = strings.Replace(conf, edits[i], edits[i+1], 1)
	}
	path := filepath.Join(r.Dir, name)
	require.NoError(r.t, os.WriteFile(path, []byte(conf), 0o600))
	return path
}

// Program is the path of a program, which has to be there.
func Program(t testing.TB, name string) string {
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not installed; make deps installs it", name)
	return ""
}

// Run runs the gateway until the test ends, and waits until it listens.
func (r *Rig) Run(cmd *exec.Cmd) {
	r.t.Helper()
	log := new(logbuf.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	gateway, err := subprocess.Start(cmd)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		_ = gateway.Stop(5 * time.Second)
		if r.t.Failed() {
			r.t.Log(log.String())
		}
	})
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", r.listen)
		if err == nil {
			c.Close()
			return
		}
		require.Less(r.t, time.Since(begun), Patience, log.String())
	}
}

// counted is the address of a proxy to Headgate that counts connections.
func (r *Rig) counted() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	r.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			go r.carry(from)
		}
	}()
	return ln.Addr().String()
}

// carry connects a connection with Headgate.
func (r *Rig) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", r.Headgate.HTTP)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		const health = "GET /readyz"
		asked := bufio.NewReader(from)
		if first, _ := asked.Peek(len(health)); string(first) != health {
			r.Conns.Add(1)
		}
		_, _ = io.Copy(to, asked)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// Answer is what a client gets.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Client returns a client at an address of the loopback network.
func Client(from string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Timeout: Patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		},
		DisableKeepAlives: true,
	}}
}

// Ask sends a request from an address of the loopback network, with header fields,
// which are given in pairs.
func (r *Rig) Ask(from, method, path, body string, header ...string) Answer {
	r.t.Helper()
	q, err := http.NewRequest(method, r.URL+path, bytes.NewReader([]byte(body)))
	require.NoError(r.t, err)
	q.Header.Set("X-Forwarded-For", "203.0.113.77") // of the client's own making
	q.Header.Set("X-Forwarded-Uri", "/healthz")
	q.Header.Set("X-Forwarded-Method", "GET")
	q.Header.Set("X-Forwarded-Host", "other")
	q.Header.Set("Authorization", "Bearer theirs")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := Client(from).Do(q)
	require.NoError(r.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(r.t, err)
	return Answer{a.StatusCode, a.Header, string(text)}
}

// Raw sends a request as it is, from 127.0.0.1, and returns the status of its answer.
func (r *Rig) Raw(request string) int {
	r.t.Helper()
	c, err := net.Dial("tcp", r.listen)
	require.NoError(r.t, err)
	defer c.Close()
	require.NoError(r.t, c.SetDeadline(time.Now().Add(Patience)))
	_, err = io.WriteString(c, request)
	require.NoError(r.t, err)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(r.t, err, "%.60q", request)
	a.Body.Close()
	return a.StatusCode
}
