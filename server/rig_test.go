package server

import (
	"bufio"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// rigStart is where the clock of a rig begins: a full minute, hour and day.
var rigStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// rig is a server whose clock the test moves, and a connection to it without a
// socket.
type rig struct {
	t testing.TB
	s *Server
	*machine
	set func(now int64)
}

func newRig(t testing.TB, cfg engine.Config) *rig {
	clock, set := engine.NewManualClock(rigStart)
	cfg.Clock = clock
	s := newTestServer(t, Config{Parts: One(engine.New(cfg), nil)}, func() uint64 { return 1 })
	return &rig{t: t, s: s, machine: newMachine(s), set: set}
}

// at moves the clock to d after its start.
func (r *rig) at(d time.Duration) { r.set(rigStart + int64(d)) }

// encode returns a command as clients send it.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// raw runs a command and returns the bytes of its reply.
func (r *rig) raw(args ...string) string {
	r.feed(encode(args...))
	for r.stall&stallWorker != 0 {
		r.lane.runPosts()
		runtime.Gosched()
	}
	return r.take()
}

// words runs a command written as a line and returns its reply as client.reply
// does.
func (r *rig) words(line string) any {
	r.t.Helper()
	return r.parse(r.raw(strings.Fields(line)...))
}

// parse reads the one reply that out is.
func (r *rig) parse(out string) any {
	r.t.Helper()
	c := &client{t: r.t, r: bufio.NewReader(strings.NewReader(out))}
	reply := c.reply()
	require.Zero(r.t, c.r.Buffered(), "more than one reply: %q", out)
	return reply
}

// is runs a command and expects a reply, written as format does.
func (r *rig) is(line, want string) {
	r.t.Helper()
	require.Equal(r.t, want, format(r.words(line)), line)
}

// format writes a reply on one line: numbers and strings as they are, lists in
// brackets, nil as nil, errors with a leading minus.
func format(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case error:
		return "-" + v.Error()
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = format(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}

// step is one call of a scenario: its time, its command, its reply.
type step struct {
	ms         int64
	line, want string
}

func (r *rig) run(steps []step) {
	r.t.Helper()
	for _, s := range steps {
		r.at(time.Duration(s.ms) * time.Millisecond)
		r.is(s.line, s.want)
	}
}

// setPolicy makes a text a policy.
func (r *rig) setPolicy(name, text string) {
	r.t.Helper()
	reply := r.parse(r.raw("RL.POLICY", "SET", name, text))
	require.IsType(r.t, int64(0), reply, "%v", reply)
}

// ofSecrets is a policy with a secret attribute.
const ofSecrets = `{attributes: {key: {type: secret}}, limits: {l: {by: key, rate: 10/h}}}`
