package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/web"
)

// rig is a server that answers over HTTP, and in process by the Redis protocol.
type rig struct {
	t      testing.TB
	url    string
	server *server.Server
	caller *server.Caller
	web    *web.Server
}

// newRig starts a server on its own.
func newRig(t testing.TB, sc server.Config, wc web.Config) *rig {
	if sc.Parts == nil {
		sc.Parts = server.One(engine.New(engine.Config{}), nil)
	}
	s, err := server.New(sc)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
	})
	wc.Decider = s.Caller()
	wc.Events = s.Events()
	front, url := start(t, wc)
	return &rig{t, url, s, s.Caller(), front}
}

// guarded returns a configuration whose HTTP port needs these grants.
func guarded(grants access.Grants) server.Config {
	return server.Config{Runtime: server.Runtime{Access: [...]access.Grants{access.PortHTTP: grants, access.PortGRPC: {}}}}
}

// dial connects to the HTTP port, until the test ends.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// run runs a command, and returns its reply in RESP3.
func (r *rig) run(args ...string) *resp.Reply {
	r.t.Helper()
	list := make([][]byte, len(args))
	for i, a := range args {
		list[i] = []byte(a)
	}
	reply, err := r.caller.Do(context.Background(), list...)
	require.NoError(r.t, err)
	return &reply
}

// policy makes a text a policy.
func (r *rig) policy(name, text string) {
	r.t.Helper()
	reply := r.run("RL.POLICY", "SET", name, text)
	require.Empty(r.t, reply.Error())
}

// answer is that of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// decode reads a body of JSON.
func (a *answer) decode(t testing.TB) (out map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(a.body))
	d.UseNumber()
	require.NoError(t, d.Decode(&out), a.body)
	return out
}

// post sends a JSON body.
func (r *rig) post(path, body string, header ...string) answer {
	r.t.Helper()
	return r.request("POST", path, body, append([]string{"Content-Type", "application/json"}, header...)...)
}

// request sends a request with header fields, which are given in pairs.
func (r *rig) request(method, path, body string, header ...string) answer {
	r.t.Helper()
	q, err := http.NewRequest(method, r.url+path, bytes.NewReader([]byte(body)))
	require.NoError(r.t, err)
	for i := 0; i < len(header); i += 2 {
		q.Header[header[i]] = append(q.Header[header[i]], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	require.NoError(r.t, err)
	return answer{a.StatusCode, a.Header, string(data)}
}

// raw sends a request as it is.
func (r *rig) raw(request string) answer {
	r.t.Helper()
	c := r.dial()
	defer c.Close()
	require.NoError(r.t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err := io.WriteString(c, request)
	require.NoError(r.t, err)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(r.t, err, "%q", request)
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	require.NoError(r.t, err)
	return answer{a.StatusCode, a.Header, string(data)}
}
