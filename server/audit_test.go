package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// auditLines collects lines of JSON.
type auditLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (a *auditLines) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.b.Write(line)
}

// take returns the lines since the last call, without their times.
func (a *auditLines) take(t *testing.T) (lines []map[string]any) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for line := range strings.Lines(a.b.String()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		delete(m, "time")
		delete(m, "level")
		lines = append(lines, m)
	}
	a.b.Reset()
	return lines
}

// A change of more than counters leaves a line that says who, from where, and what, and no
// secret.
func TestAudit(t *testing.T) {
	lines := &auditLines{}
	s, addr := startServer(t, Config{Audit: slog.New(slog.NewJSONHandler(lines, nil)), Settings: newFakeSettings()})
	c := dial(t, addr)
	c.call("CLIENT SETNAME deploy")
	from := c.LocalAddr().String()
	command := func(text string, failed bool) map[string]any {
		return map[string]any{"msg": "command", "user": "default", "name": "deploy", "from": from, "command": text, "failed": failed}
	}
	c.call("SET k v")
	c.call("FLUSHALL")
	require.Equal(t, []map[string]any{command("FLUSHALL", false)}, lines.take(t))
	c.call("CONFIG SET requirepass hunter2 http-write-token hunter2")
	all := lines.take(t)
	require.Len(t, all, 1)
	require.NotContains(t, all[0]["command"], "hunter2")
	require.Contains(t, all[0]["command"], "CONFIG SET requirepass (redacted)")
	c.call("MULTI")
	c.call("FLUSHDB")
	c.call("EXEC")
	require.Equal(t, []map[string]any{command("FLUSHDB", false)}, lines.take(t))
	c.call("CONFIG SET nosuch 1")
	require.Equal(t, []map[string]any{command("CONFIG SET nosuch (redacted)", true)}, lines.take(t))
	c.call(`EVAL "return redis.call('flushall')" 0`)
	require.Len(t, lines.take(t), 1)

	author := "default deploy at " + from
	c.call("RL.POLICY SET p " + quote("{limits: {user: {by: user, rate: 5/h}}}"))
	c.call("RL.POLICY SET p " + quote("{limits: {user: {by: user, rate: 5/h}}}")) // nothing changes
	require.Equal(t, []map[string]any{{"msg": "policy changed", "author": author, "policy": "p", "old_version": 0.0, "version": 1.0, "revision": 1.0,
		"deleted": false, "reset": false, "file": ""}}, lines.take(t))
	c.call("RL.OVERRIDE SET p LIMIT user RATE 6/h user eve")
	c.call("RL.POLICY RESET p user eve")
	all = lines.take(t)
	require.Len(t, all, 2)
	require.Equal(t, "override changed", all[0]["msg"])
	require.Equal(t, author, all[0]["author"])
	require.Equal(t, "caller reset", all[1]["msg"])
	require.Contains(t, all[1]["keys"], "user=eve")
	c.call("RL.POLICY DEL p")
	all = lines.take(t)
	require.Len(t, all, 1)
	require.Equal(t, true, all[0]["deleted"])
	require.Equal(t, 1.0, all[0]["old_version"])

	// On behalf of somebody.
	who := Client{User: "token", Name: "write", Addr: "10.0.0.1:5"}
	out, err := s.Caller().PipelineAs(t.Context(), who, nil, resp.AppendCommand(nil, []string{"RL.POLICY", "SET", "q", "limits: {all: {rate: 5/h}}"}))
	require.NoError(t, err)
	require.Equal(t, ":1\r\n", string(out))
	require.Equal(t, "token write at 10.0.0.1:5", lines.take(t)[0]["author"])
	history, err := s.Caller().Do(t.Context(), []byte("RL.POLICY"), []byte("HISTORY"), []byte("q"))
	require.NoError(t, err)
	require.Equal(t, "token write at 10.0.0.1:5", history.Elems[0].Field("author").Str)
	s.Caller().PipelineAs(t.Context(), Client{}, nil, resp.AppendCommand(nil, []string{"RL.POLICY", "DEL", "q"}))
	require.Equal(t, "admin at caller", lines.take(t)[0]["author"], "the next call is nobody's")
}
