package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/web"
)

// stream is a stream of events that is being read.
type stream struct {
	t    testing.TB
	in   *bufio.Scanner
	stop func()
}

// stream opens a stream, after an id if that is not "".
func (r *rig) stream(last string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.t.Cleanup(cancel)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/events", nil)
	require.NoError(r.t, err)
	if last != "" {
		q.Header.Set("Last-Event-ID", last)
	}
	a, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { a.Body.Close() })
	require.Equal(r.t, http.StatusOK, a.StatusCode)
	require.Equal(r.t, "text/event-stream", a.Header.Get("Content-Type"))
	return &stream{r.t, bufio.NewScanner(a.Body), cancel}
}

// next returns the fields of the next event.
func (s *stream) next() map[string]string {
	s.t.Helper()
	fields := make(map[string]string)
	for s.in.Scan() {
		line := s.in.Text()
		if line == "" && len(fields) > 0 {
			return fields
		}
		if name, value, ok := strings.Cut(line, ": "); ok && name != "" {
			fields[name] = value
		}
	}
	s.t.Fatal("the stream has ended", s.in.Err())
	return nil
}

func TestStreamOfEvents(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	s := r.stream("")
	r.policy("p", "{limits: {a: {by: user, rate: 1/h}}}")
	for range 3 {
		r.post("/v1/check", `{"policy":"p","attributes":{"user":"eve\n\ndata: x"}}`)
	}
	first := s.next()
	require.Equal(t, "policy", first["event"])
	denied := s.next()
	require.Equal(t, "denied", denied["event"])
	var e events.Event
	require.NoError(t, json.Unmarshal([]byte(denied["data"]), &e))
	require.Equal(t, denied["id"], fmt.Sprint(e.ID))
	require.Equal(t, "p", e.Policy)
	require.Contains(t, e.Key, "user=eve")
	rest := s.next() // when the second is over
	require.NoError(t, json.Unmarshal([]byte(rest["data"]), &e))
	require.EqualValues(t, 1, e.Count)

	// A client that reconnects gets the events after the last one that it knows.
	again := r.stream(first["id"])
	require.Equal(t, denied, again.next())
	require.Equal(t, rest, again.next())
	require.Equal(t, 400, r.request("GET", "/v1/events", "", "Last-Event-ID", "x").status)
}

// Streams have a bound, and give their place back; a stop ends them.
func TestStreamsAreBounded(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	var all []*stream
	for range 64 {
		all = append(all, r.stream(""))
	}
	a := r.request("GET", "/v1/events", "")
	require.Equal(t, 503, a.status)
	require.Equal(t, "BUSY", a.decode(t)["code"])
	all[0].stop()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/events", nil)
		require.NoError(t, err)
		a, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		a.Body.Close()
		return a.StatusCode == http.StatusOK
	}, 10*time.Second, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r.web.Drain(ctx)
	for _, s := range all[1:] {
		lines := 0
		for s.in.Scan() {
			lines++
		}
		require.Equal(t, 2, lines, "the comment of the beginning is all")
		require.NoError(t, s.in.Err(), "it has ended")
	}
}

// Events that come in a flood are gathered, so that streams do not write for each of them.
func TestAFloodOfEventsIsGathered(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	log := r.server.Events()
	c := r.dial()
	_, err := fmt.Fprintf(c, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, log.Listening, 10*time.Second, time.Millisecond)
	const flood = 500
	began := time.Now()
	go func() {
		for range flood {
			log.Post(events.Event{Type: events.Role, Role: "r"})
			time.Sleep(time.Millisecond)
		}
	}()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	in := bufio.NewScanner(c)
	got, writes := 0, 0
	for got < flood && in.Scan() {
		line := in.Text()
		if strings.HasPrefix(line, "event: role") {
			got++
		}
		if _, err := strconv.ParseUint(line, 16, 64); err == nil { // the size of a chunk, which is one write
			writes++
		}
	}
	require.Equal(t, flood, got)
	require.LessOrEqual(t, writes, 3+int(time.Since(began)/(100*time.Millisecond)))
}

// A client that does not read is cut off and keeps nobody waiting. When it reconnects, it
// learns how much it lost.
func TestWhoDoesNotReadEvents(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	log := r.server.Events()
	c := r.dial()
	_, err := fmt.Fprintf(c, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, log.Listening, 10*time.Second, time.Millisecond)
	first := log.Newest(0)
	large := events.Event{Type: events.Role, Role: strings.Repeat("r", 32<<10)}
	require.Eventually(t, func() bool {
		for range 32 { // a poster waits for nobody
			log.Post(large)
		}
		return !log.Settle()
	}, 60*time.Second, 20*time.Millisecond, "it is cut off")

	lost := r.stream(fmt.Sprint(first - 1)).next()
	require.Equal(t, "lost", lost["event"])
	require.NotContains(t, lost, "id")
	var n struct{ Lost int64 }
	require.NoError(t, json.Unmarshal([]byte(lost["data"]), &n))
	require.Equal(t, log.Newest(events.MaxEvents)-first, n.Lost)
	require.Positive(t, n.Lost)
}

// Events need the right to see.
func TestEventsNeedTheRightToSee(t *testing.T) {
	grants := access.Grants{}
	grants.Tokens[access.RightRead], grants.Tokens[access.RightSee] = "read", "see"
	r := newRig(t, guarded(grants), web.Config{})
	require.Equal(t, 401, r.request("GET", "/v1/events", "").status)
	require.Equal(t, 403, r.request("GET", "/v1/events", "", "Authorization", "Bearer read").status)
}
