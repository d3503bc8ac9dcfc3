package decisions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

var (
	throttleSpec    = &command.Spec{Name: "cl.throttle", Upper: "CL.THROTTLE", Keys: command.Keys{First: 1, Last: 1, Step: 1}}
	checkSpec       = &command.Spec{Name: "rl.check", Upper: "RL.CHECK"}
	descriptorsSpec = &command.Spec{Name: "rl.descriptors", Upper: "RL.DESCRIPTORS"}
)

var (
	throttled = []byte("*5\r\n:1\r\n:16\r\n:0\r\n:3\r\n:60\r\n")
	admitted  = []byte("*5\r\n:0\r\n:16\r\n:9\r\n:-1\r\n:60\r\n")
)

// words are arguments.
func words(line string) (args [][]byte) {
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	return args
}

// lines reads what was written, without the times.
func lines(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var one map[string]any
		require.NoError(t, json.Unmarshal(line, &one), "%s", line)
		at, err := time.Parse(time.RFC3339Nano, one["time"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Minute)
		delete(one, "time")
		all = append(all, one)
	}
	return all
}

// gate is a writer that waits until it is opened, or fails.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
	fail error
	out  bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	if g.open != nil {
		<-g.open
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		return 0, g.fail
	}
	return g.out.Write(p)
}

func (g *gate) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = err
}

func newLog(t *testing.T, out io.Writer, plain ...string) *Log {
	t.Helper()
	l := New(Config{Out: out, Logger: slog.New(slog.DiscardHandler), Plain: plain, Key: []byte("k")})
	t.Cleanup(l.Close)
	return l
}

// Denied calls have lines up to so many a second, and one in so many of the others has one.
func TestSample(t *testing.T) {
	g := new(gate)
	l := newLog(t, g, "*")
	l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), throttled, Origin{Front: Redis})
	l.SetRates(0, 1)
	l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), throttled, Origin{Front: Redis})
	require.Zero(t, l.Stats().Beyond, "what is not asked for is not missed")
	l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), admitted, Origin{Front: Redis})
	l.SetRates(3, 0)
	for range 20_000 { // within four seconds, say
		l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), throttled, Origin{Front: Redis})
		l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), admitted, Origin{Front: Redis})
	}
	l.SetRates(0, 10)
	const many = 3000
	for range many {
		l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), admitted, Origin{Front: Redis})
	}
	l.Note(throttleSpec, words("CL.THROTTLE k"), []byte("-MOVED 1 a:1\r\n"), Origin{})
	l.Note(throttleSpec, words("CL.THROTTLE k"), []byte("+QUEUED\r\n"), Origin{})
	l.Note(throttleSpec, words("CL.THROTTLE k"), nil, Origin{})
	l.Close()
	all := lines(t, g.out.Bytes())
	require.Equal(t, map[string]any{"front": "redis", "command": "CL.THROTTLE", "key": "k", "result": "allowed", "remaining": 9.}, all[0])
	require.Equal(t, map[string]any{"front": "redis", "command": "CL.THROTTLE", "key": "k", "result": "denied", "remaining": 0., "retry_after_ms": 3000.}, all[1])
	denied := 0
	for _, line := range all[1:] {
		if line["result"] == "denied" {
			denied++
			continue
		}
		require.Equal(t, 10., line["one_in"])
	}
	require.GreaterOrEqual(t, denied, 3)
	require.LessOrEqual(t, denied, 60)
	s := l.Stats()
	require.EqualValues(t, len(all), s.Written)
	require.EqualValues(t, 20_000-denied, s.Beyond)
	require.InDelta(t, many/10, len(all)-1-denied, many/10/2)
	require.Zero(t, s.Full+s.Failed)
}

// An output that does not read the lines makes nobody wait. The queue is bounded in number and
// in bytes, and calls beyond that are counted.
func TestNobodyWaitsForTheWriter(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	l := newLog(t, g)
	l.SetRates(1_000_000, 1)
	const more = 100
	for range maxQueued + 1 + more {
		l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), admitted, Origin{})
	}
	s := l.Stats()
	require.LessOrEqual(t, s.Full, uint64(more+1))
	require.GreaterOrEqual(t, s.Full, uint64(more))
	close(g.open)
	require.Eventually(t, func() bool { return len(l.records) == 0 && l.bytes.Load() == 0 }, 20*time.Second, time.Millisecond)

	long := [][]byte{[]byte("RL.CHECK"), []byte("p")}
	for range 32 {
		long = append(long, []byte("attribute"), bytes.Repeat([]byte("x"), 4096))
	}
	held := new(gate)
	held.open = make(chan struct{})
	l = newLog(t, held)
	l.SetRates(1_000_000, 1)
	reply := append(append([]byte("*1\r\n$60000\r\n"), bytes.Repeat([]byte("x"), 60_000)...), "\r\n"...)
	for range 1000 {
		l.Note(checkSpec, long, reply, Origin{})
		require.LessOrEqual(t, l.bytes.Load(), int64(maxQueuedBytes))
	}
	require.Greater(t, l.Stats().Full, uint64(800))
	l.Note(checkSpec, long, bytes.Repeat([]byte("*1\r\n"), maxReply), Origin{})
	began := time.Now()
	l.Close() // an output that never reads does not delay the stop
	require.Less(t, time.Since(began), 20*time.Second)
	close(held.open)
}

// Lines that cannot be written are counted, and logged once until they can be again.
func TestWriterFails(t *testing.T) {
	g, told := new(gate), new(gate)
	l := New(Config{Out: g, Logger: slog.New(slog.NewTextHandler(told, nil)), Key: []byte("k")})
	l.SetRates(100, 1)
	note := func() {
		before := l.Stats()
		l.Note(throttleSpec, words("CL.THROTTLE k 15 30 60"), admitted, Origin{})
		require.Eventually(t, func() bool { s := l.Stats(); return s.Written+s.Failed > before.Written+before.Failed }, 20*time.Second, time.Millisecond)
	}
	for range 2 {
		note()
		g.set(errors.New("no space left"))
		for range 3 {
			note()
		}
		g.set(nil)
	}
	note()
	l.Close()
	require.Equal(t, Stats{Written: 3, Failed: 6}, l.Stats())
	require.Equal(t, 2, strings.Count(told.out.String(), "no space left"))
	require.Equal(t, 2, strings.Count(told.out.String(), "again"))
}

// Values are hashed unless they are asked for, and errors may quote them.
func TestRedaction(t *testing.T) {
	one := newRedactor([]string{"route", "method"}, []byte("k"))
	require.Equal(t, "/a", one.value("route", []byte("/a")))
	require.Regexp(t, `^#[0-9a-f]{16}$`, one.value("user", []byte("eve")))
	require.Equal(t, one.value("user", []byte("eve")), one.value("", []byte("eve")))
	require.NotEqual(t, one.value("user", []byte("eve")), one.value("user", []byte("bob")))
	same, other, drawn := newRedactor(nil, []byte("k")), newRedactor(nil, []byte("l")), newRedactor(nil, nil)
	require.Equal(t, one.value("user", []byte("eve")), same.value("user", []byte("eve")))
	require.NotEqual(t, one.value("user", []byte("eve")), other.value("user", []byte("eve")))
	require.NotEqual(t, drawn.key, newRedactor(nil, nil).key)
	require.Equal(t, "(redacted)", one.value("user", []byte("(redacted)")))
	shown := newRedactor([]string{"*"}, nil)
	require.Equal(t, "eve", shown.value("", []byte("eve")))
	require.Equal(t, "ERR", one.failure("ERR attribute 'eve' has no value"))
	require.Equal(t, "ERR attribute 'eve' has no value", shown.failure("ERR attribute 'eve' has no value"))
}

// The reply alone, in both protocols, shows whether a call is worth a line.
func TestClass(t *testing.T) {
	limit := func(allowed int, mode string) string {
		return fmt.Sprintf("*11\r\n$1\r\na\r\n:%d\r\n:5\r\n:0\r\n:1\r\n:1\r\n:0\r\n:1\r\n$%d\r\n%s\r\n:200\r\n:1\r\n", allowed, len(mode), mode)
	}
	check := func(allowed int, limits string, soft string) string {
		return fmt.Sprintf("*13\r\n:%d\r\n:5\r\n:0\r\n:1\r\n:1\r\n:0\r\n$1\r\na\r\n$2\r\nok\r\n$-1\r\n:1\r\n:1\r\n*1\r\n%s%s", allowed, limits, soft)
	}
	const soft, none3, degraded = "*1\r\n$1\r\na\r\n", "*0\r\n", "$8\r\ndegraded\r\n#t\r\n"
	for _, c := range []struct {
		name, reply string
		want        class
	}{
		{"rl.check", check(1, limit(1, "enforce"), none3), passed},
		{"rl.check", check(1, limit(1, "shadow"), none3), passed},
		{"rl.check", check(1, limit(0, "shadow"), none3), told},
		{"rl.check", check(1, limit(1, "soft"), none3), passed},
		{"rl.check", check(1, limit(1, "soft"), soft), told},
		{"rl.check", check(0, limit(0, "enforce"), none3), told},
		{"rl.check", check(1, limit(1, "enforce"), none3+degraded), told},
		{"rl.check", "%1\r\n$7\r\nallowed\r\n:0\r\n", told},
		{"rl.check", "%2\r\n$7\r\nallowed\r\n:1\r\n$4\r\nsoft\r\n*0\r\n", passed},
		{"rl.check", "-NOPOLICY no\r\n", told},
		{"rl.check", "-MOVED 1 a:1\r\n", none},
		{"rl.check", "+QUEUED\r\n", none},
		{"rl.check", "", none},
		{"rl.limit", "*6\r\n:1\r\n:5\r\n:0\r\n:1\r\n:1\r\n:0\r\n", passed},
		{"rl.limit", "*6\r\n:0\r\n:5\r\n:0\r\n:1\r\n:1\r\n:0\r\n", told},
		{"rl.limit", "%2\r\n$7\r\nallowed\r\n:1\r\n" + degraded, told},
		{"gcra", string(admitted), passed},
		{"cl.throttle", string(throttled), told},
		{"rl.descriptors", "*5\r\n$2\r\nok\r\n:0\r\n$2\r\nok\r\n:1\r\n*0\r\n", passed},
		{"rl.descriptors", "*5\r\n$10\r\nover_limit\r\n:0\r\n$2\r\nok\r\n:1\r\n*0\r\n", told},
		{"rl.descriptors", "%1\r\n$4\r\ncode\r\n$2\r\nok\r\n$5\r\nflags\r\n*1\r\n$8\r\nexceeded\r\n", told},
	} {
		require.Equal(t, c.want, classOf(c.name, []byte(c.reply)), "%s %q", c.name, c.reply)
	}
}

func TestTraceID(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	require.Equal(t, id, TraceID("00-"+id+"-00f067aa0ba902b7-01"))
	for _, none := range []string{"", "x", "00-" + id, "00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01", "00-" + id[1:] + "-00f067aa0ba902b7-01", strings.Repeat("-", 200)} {
		require.Empty(t, TraceID(none), none)
	}
}

// Whatever a call and its reply are, the line is one of JSON, and shows no value.
func FuzzLine(f *testing.F) {
	f.Add(0, "CL.THROTTLE\x00k\x0015\x0030\x0060", string(throttled))
	f.Add(1, "RL.CHECK\x00p\x00user\x00secretvalue", "*13\r\n:0\r\n:5\r\n:0\r\n:1\r\n:1\r\n:0\r\n$1\r\na\r\n$5\r\nlimit\r\n_\r\n:1\r\n:1\r\n*1\r\n*11\r\n$1\r\na\r\n:0\r\n:5\r\n:0\r\n:1\r\n:1\r\n:0\r\n:1\r\n$6\r\nshadow\r\n:429\r\n:1\r\n*0\r\n")
	f.Add(2, "RL.DESCRIPTORS\x00d\x000\x001\x001\x00user\x00secretvalue\x00-\x00-", "%1\r\n$4\r\ncode\r\n$10\r\nover_limit\r\n")
	f.Add(1, "RL.CHECK\x00p\x00user\x00secretvalue", "-ERR attribute 'secretvalue'\r\n")
	f.Add(2, "RL.DESCRIPTORS\x00d", "#0\r\n")
	g := new(gate)
	l := New(Config{Out: io.Discard, Logger: slog.New(slog.DiscardHandler)})
	f.Cleanup(l.Close)
	specs := []*command.Spec{throttleSpec, checkSpec, descriptorsSpec}
	f.Fuzz(func(t *testing.T, spec int, text, reply string) {
		if n, err := resp.ReplyLen([]byte(reply), len(reply)); err != nil || n != len(reply) || n == 0 {
			return
		}
		r := record{at: time.Now(), cmd: specs[uint(spec)%uint(len(specs))], reply: []byte(reply), oneIn: 1}
		for a := range strings.SplitSeq(text, "\x00") {
			r.args = append(r.args, []byte(a))
		}
		r.args = clipped(r.args)
		if len(r.args) < 2 {
			return // which the arity rules out
		}
		classOf(r.cmd.Name, r.reply)
		g.out.Reset()
		require.NoError(t, slog.NewJSONHandler(g, nil).Handle(t.Context(), l.line(&r)))
		require.True(t, json.Valid(g.out.Bytes()), "%s", g.out.String())
		require.Equal(t, 1, bytes.Count(g.out.Bytes(), []byte("\n")))
		// A policy and attributes may have that name.
		require.NotContains(t, strings.NewReplacer(`"policy":"secretvalue`, "", `"secretvalue":`, "").Replace(g.out.String()), `"secretvalue"`)
	})
}
