package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/decisions"
	"github.com/headgate-io/headgate/server/web"
)

// longListener has connections that net/http alone answers.
type longListener struct{ net.Listener }

// Accept implements net.Listener.
func (l longListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

// post is a plain POST /v1/check.
func post(body string, fields ...string) string {
	return fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", len(body), strings.Join(fields, ""), body)
}

// twoWays are two servers alike, of which one has no short way.
func twoWays(t *testing.T) (short, long *rig) {
	short = newRig(t, server.Config{}, web.Config{TrustedProxies: loopback})
	long = newRig(t, server.Config{}, web.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, long.url = serve(t, web.Config{Decider: long.caller, TrustedProxies: loopback}, longListener{l})
	for _, r := range []*rig{short, long} {
		r.policy("p", "{limits: {all: {by: user, rate: 1000/day}}}")
		r.policy("few", "{limits: {all: {rate: 1/day}}}")
	}
	return short, long
}

// Whatever comes, in however many pieces, is answered as net/http answers it, byte by
// byte, and ends its connection when it does so there.
func TestShortWayAnswersAlike(t *testing.T) {
	short, long := twoWays(t)
	const check, get, end = `{"policy":"p","attributes":{"user":"a"}}`, "GET /v1/auth/p HTTP/1.1\r\nHost: x\r\n", "\r\n"
	lots := strings.Repeat("x", 5000)
	requests := []string{
		post(check), post(check) + post(check) + post(`{"policy":"p"}`), post(`{"policy":"few"}`) + post(`{"policy":"few"}`) + post(`{"policy":"few","respond":"status"}`),
		post(`{"policy":"q"}`), post(`{`), post(``), post(check, "Idempotency-Key: \"a\"\r\n"), post(check, "Authorization: Bearer x\r\n", "X:\tä \r\n"),
		post(check, "Connection: close\r\n") + post(check), post(check, "Connection: keep-alive\r\n"), post(check, "Expect: 100-continue\r\n"), post(check, "Expect: more\r\n"),
		post(check, "Upgrade: h2c\r\n", "Connection: upgrade\r\n"), post(check, "Content-Length: 3\r\n"), post(check, "Host: y\r\n"), post(check, "A b: c\r\n"), post(check, "A: b\x01\r\n"),
		post(check, "A: b\r\n c\r\n"), post(check, "Transfer-Encoding: chunked\r\n"), post(check, "X: "+lots+"\r\n"), post(`{"policy":"p","attributes":{"user":"` + lots[:4000] + `"}}`), post(`{"policy":"p","attributes":{"user":"` + lots + `"}}`),
		"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(check), check) + post(check),
		"POST /v1/check HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 4\n\n\r\n\r\n" + post(check),
		"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "POST /v1/check HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "POST http://y/v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST /v1/check HTTP/1.0\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "POST /v1/check HTTP/1.2\r\nHost: x\r\n\r\n", "POST /v1/check HTTP/2.0\r\nHost: x\r\n\r\n", "GET /v1/check HTTP/1.1\r\nHost: x\r\n\r\n",
		"HEAD /v1/check HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n" + post(check), post(check) + "\r\n" + post(check), post(check) + "\r\n\r\n", "X" + post(check), post(check)[1:], "POST  /v1/check HTTP/1.1\r\nHost: x\r\n\r\n",
		strings.Replace(post(check), "/v1/check", "/v1/%63heck?a=b", 1), strings.Replace(post(check), "/v1/check", "//v1/check", 1), strings.Replace(post(`{"checks":[`+check+`]}`), "/v1/check", "/v1/check:batch", 1) + post(check),
		get + end + get + end, get + "X-Forwarded-For: 203.0.113.9\r\n" + end, get + "X-Forwarded-Uri: /a\r\nX-Forwarded-Uri: /b\r\n" + end, get + "Content-Length: 3\r\n\r\nabc", get + "Content-Length: 0\r\n" + end, get + "Host: x y\r\n" + end,
		strings.Replace(get, "auth", "auth403", 1) + end, strings.Replace(get, "/p", "/few?x", 1) + end, strings.Replace(get, "/p", "/", 1) + end, strings.Replace(get, "GET", "HEAD", 1) + end, strings.Replace(get, "GET", "G(T", 1) + end,
		strings.Replace(get, "auth/p", "authz/p/a/../b?c", 1) + end, strings.Replace(get, "auth/p", "auth/../auth/p", 1) + end, strings.Replace(get, "x\r\n", "a/b\r\n", 1) + end, strings.Replace(get, "x\r\n", "\r\n", 1) + end,
		"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + post(check), post(check) + "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + post(check),
	}
	for _, request := range requests {
		for _, n := range []int{1, 3} {
			pieces := pieced(request, n)
			require.Equal(t, talk(t, long, pieces...), talk(t, short, pieces...), "%q", pieces)
		}
	}
}

// pieced cuts a text.
func pieced(text string, n int) (pieces []string) {
	for i := range n {
		pieces = append(pieces, text[i*len(text)/n:(i+1)*len(text)/n])
	}
	return pieces
}

// numbers are what no two answers have alike.
var numbers = regexp.MustCompile(`\d+`)

// talk sends pieces, and then a last request; it returns all that comes, without its
// numbers but for those of the status.
func talk(t *testing.T, r *rig, pieces ...string) string {
	t.Helper()
	c := r.dial()
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	for i, piece := range append(pieces, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") {
		if i > 0 {
			time.Sleep(time.Millisecond)
		}
		if _, err := io.WriteString(c, piece); err != nil {
			break // it has been closed
		}
	}
	all, _ := io.ReadAll(c) // what is not read on the other side ends it with an error
	lines := strings.SplitAfter(string(all), "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "Date: "):
			lines[i] = "Date\n"
		case !strings.HasPrefix(line, "HTTP/"):
			lines[i] = numbers.ReplaceAllString(line, "N")
		}
	}
	return strings.Join(lines, "")
}

// patient is a Decider whose calls wait until they are let go, or given up.
type patient struct {
	*server.Caller
	begun, let, given chan struct{}
}

// Pipeline implements web.Decider.
func (w *patient) Pipeline(ctx context.Context, from decisions.Asker, dst, commands []byte) ([]byte, error) {
	w.begun <- struct{}{}
	select {
	case <-w.let:
	case <-ctx.Done():
		w.given <- struct{}{}
		return dst, ctx.Err()
	}
	return w.Caller.Pipeline(ctx, from, dst, commands)
}

func newPatient(t *testing.T) (*rig, *patient) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {all: {rate: 1000/day}}}")
	w := &patient{r.caller, make(chan struct{}, 9), make(chan struct{}, 9), make(chan struct{}, 9)}
	r.web, r.url = start(t, web.Config{Decider: w})
	return r, w
}

// A call that waits is given up when its client goes, and what a client sends meanwhile
// is answered after it.
func TestClientsOfTheShortWayGo(t *testing.T) {
	r, w := newPatient(t)
	c := r.dial()
	in := bufio.NewReader(c)
	passes := func(n int) {
		t.Helper()
		for range n {
			a, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, a.Body)
			require.NoError(t, err)
			require.Equal(t, 200, a.StatusCode)
		}
	}
	for range 2 {
		_, err := io.WriteString(c, post(`{"policy":"p"}`))
		require.NoError(t, err)
		<-w.begun
		time.Sleep(10 * time.Millisecond)
		_, err = io.WriteString(c, post(`{"policy":"p","cost":2}`)+post(`{"policy":"p"}`))
		require.NoError(t, err)
		for range 3 {
			w.let <- struct{}{}
		}
		passes(3)
		<-w.begun
		<-w.begun
	}
	_, err := io.WriteString(c, post(`{"policy":"p"}`))
	require.NoError(t, err)
	<-w.begun
	c.Close()
	select {
	case <-w.given:
	case <-time.After(30 * time.Second):
		t.Fatal("the call still waits")
	}
}

// A call may wait for longer than a request may take to come, as it may where net/http
// answers.
func TestCallsOfTheShortWayWait(t *testing.T) {
	if testing.Short() {
		t.Skip("waits")
	}
	t.Parallel()
	r, w := newPatient(t)
	c := r.dial()
	_, err := io.WriteString(c, post(`{"policy":"p"}`))
	require.NoError(t, err)
	<-w.begun
	select {
	case <-w.given:
		t.Fatal("the call is given up")
	case <-time.After(10*time.Second + 200*time.Millisecond):
	}
	w.let <- struct{}{}
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	a.Body.Close()
	require.Equal(t, 200, a.StatusCode)
}

// Shutdown ends connections between two requests at once, and waits for those that have
// one.
func TestShutdownEndsTheShortWay(t *testing.T) {
	r, w := newPatient(t)
	idle, busy := r.dial(), r.dial()
	for _, c := range []net.Conn{idle, busy} {
		w.let <- struct{}{}
		_, err := io.WriteString(c, post(`{"policy":"p"}`))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 4096))
		require.NoError(t, err)
		<-w.begun
	}
	_, err := io.WriteString(busy, post(`{"policy":"p"}`))
	require.NoError(t, err)
	<-w.begun
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- r.web.Shutdown(context.Background()) }()
	_, err = idle.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	w.let <- struct{}{}
	a, err := http.ReadResponse(bufio.NewReader(busy), nil)
	require.NoError(t, err)
	a.Body.Close()
	require.Equal(t, 200, a.StatusCode)
	require.NoError(t, <-ended)
	require.Less(t, time.Since(began), 4*time.Second, "net/http ends by itself what has said nothing for five")
}

// The fields of an answer are those of its own verdict, whoever else is answered at the
// same time.
func TestAnswersOfTheShortWayAreNotMixed(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {all: {by: user, rate: 1000000/day}}}")
	var clients errgroup.Group
	for user := range 8 {
		c := r.dial()
		clients.Go(func() error {
			in := bufio.NewReader(c)
			cost := user*100_000 + 1 // so that no two have as much left
			for range 2000 {
				if _, err := io.WriteString(c, post(fmt.Sprintf(`{"policy":"p","cost":%d,"attributes":{"user":"%d"}}`, cost, user))); err != nil {
					return err
				}
				a, err := http.ReadResponse(in, nil)
				if err != nil {
					return err
				}
				var v struct{ Remaining int }
				if err := json.NewDecoder(a.Body).Decode(&v); err != nil {
					return err
				}
				if got := a.Header.Get("X-RateLimit-Remaining"); got != fmt.Sprint(v.Remaining) {
					return fmt.Errorf("user %d has %d left and is told of %s", user, v.Remaining, got)
				}
				cost = 1
			}
			return nil
		})
	}
	require.NoError(t, clients.Wait())
}
