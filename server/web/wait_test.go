package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/decisions"
	"github.com/headgate-io/headgate/server/web"
)

// post is a plain POST /v1/check.
func post(body string, fields ...string) string {
	return fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", len(body), strings.Join(fields, ""), body)
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
func TestCallsEndWithTheirClients(t *testing.T) {
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

// A call may wait for longer than a request may take to come.
func TestCallsMayWait(t *testing.T) {
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
func TestShutdownWaitsForCalls(t *testing.T) {
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
	require.Less(t, time.Since(began), 4*time.Second)
}

// The fields of an answer belong to its own verdict, whatever else is answered at the same
// time.
func TestAnswersAreNotMixed(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {all: {by: user, rate: 1000000/day}}}")
	calls := 2000
	if testing.Short() {
		calls = 250
	}
	var clients errgroup.Group
	for user := range 8 {
		c := r.dial()
		clients.Go(func() error {
			in := bufio.NewReader(c)
			cost := user*100_000 + 1 // so that no two have as much left
			for range calls {
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
