package clients_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// client is a library under test, with replies as Go values: int64, string,
// nil, []any and map[string]any.
type client interface {
	// do runs one command. A reply that is an error comes back as the error.
	do(args ...any) (any, error)
	// pipeline sends commands at once. Errors among the replies are values.
	pipeline(commands [][]any) ([]any, error)
	// serverError returns the text of an error if the library says that it
	// is a reply of the server.
	serverError(err error) (string, bool)
}

// library is one way to use a library.
type library struct {
	name  string
	resp3 bool
	lib   string // lib-name in CLIENT INFO; empty if the library sends none
	dial  func(*testing.T, endpoint) client
}

var libraries = []library{
	{"goredis/resp2", false, "go-redis(,go", dialGoRedis(2)},
	{"goredis/resp3", true, "go-redis(,go", dialGoRedis(3)},
	{"rueidis/resp2", false, "rueidis", dialRueidis(true)},
	{"rueidis/resp3", true, "rueidis", dialRueidis(false)},
	{"redigo", false, "", dialRedigo},
}

func TestContract(t *testing.T) {
	contract := map[string]func(*testing.T, library, client){
		"handshake":   testHandshake,
		"clthrottle":  testCLThrottle,
		"throttle":    testThrottle,
		"limit":       testLimit,
		"chain":       testChain,
		"algorithms":  testAlgorithms,
		"gcra":        testGCRA,
		"increx":      testIncrEx,
		"slots":       testSlots,
		"errors":      testErrors,
		"keyspace":    testKeyspace,
		"pipeline":    testPipeline,
		"concurrency": testConcurrency,
	}
	for _, lib := range libraries {
		for name, at := range endpoints() {
			t.Run(lib.name+"/"+name, func(t *testing.T) {
				c := lib.dial(t, at)
				for name, test := range contract {
					t.Run(name, func(t *testing.T) { test(t, lib, c) })
				}
			})
		}
		t.Run(lib.name+"/reconnect", func(t *testing.T) { testReconnect(t, lib.dial) })
	}
}

func testHandshake(t *testing.T, lib library, c client) {
	info := text(t, c, "CLIENT", "INFO")
	proto := "resp=2"
	if lib.resp3 {
		proto = "resp=3"
	}
	require.Contains(t, info, proto)
	require.Contains(t, info, "lib-name="+lib.lib)
	require.Equal(t, "PONG", text(t, c, "PING"))
	require.Equal(t, "hello", text(t, c, "ECHO", "hello"))
}

// testCLThrottle checks the vectors of redis-cell: its README's, its unit
// test's at t = 0, and a burst taken to its end.
func testCLThrottle(t *testing.T, _ library, c client) {
	require.Equal(t, ints(0, 16, 15, -1, 2), do(t, c, "CL.THROTTLE", newKey(), 15, 30, 60))

	key := newKey()
	commands := [][]any{{"CL.THROTTLE", key, 4, 1, 1, 6}}
	want := []any{ints(1, 5, 5, -1, 0)}
	for i := range int64(5) {
		commands = append(commands, []any{"CL.THROTTLE", key, 4, 1, 1})
		want = append(want, ints(0, 5, 4-i, -1, i+1))
	}
	commands = append(commands, []any{"CL.THROTTLE", key, 4, 1, 1})
	want = append(want, ints(1, 5, 0, 1, 5))
	require.Equal(t, want, pipeline(t, c, commands))

	key = newKey()
	for i := range int64(16) {
		got := do(t, c, "CL.THROTTLE", key, 15, 30, 3600).([]any)
		require.Equal(t, ints(0, 16, 15-i, -1), got[:4])
	}
	got := do(t, c, "CL.THROTTLE", key, 15, 30, 3600).([]any)
	require.Equal(t, ints(1, 16, 0), got[:3])
	require.InDelta(t, 120, got[3], 5, "a unit comes back every 120 s")
	require.InDelta(t, 16*120, got[4], 5, "all of them in 16 times that")
}

// testThrottle checks throttlecrab's order and rounding.
func testThrottle(t *testing.T, _ library, c client) {
	key := newKey()
	first := do(t, c, "THROTTLE", key, 2, 1, 3600).([]any)
	require.Equal(t, ints(1, 2, 1), first[:3])
	require.Zero(t, first[4])
	require.Equal(t, int64(1), do(t, c, "THROTTLE", key, 2, 1, 3600).([]any)[0])
	denied := do(t, c, "THROTTLE", key, 2, 1, 3600).([]any)
	require.Equal(t, ints(0, 2, 0), denied[:3])
	require.InDelta(t, 3600, denied[4], 5)
}

// fields are the values of a decision of RL.LIMIT, in their order.
var fields = []string{"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"}

func testLimit(t *testing.T, lib library, c client) {
	key := newKey()
	reply := do(t, c, "RL.LIMIT", key, 10, "1d")
	if lib.resp3 {
		m, ok := reply.(map[string]any)
		require.True(t, ok, "RESP3 has a map, got %T", reply)
		require.Len(t, m, len(fields))
	} else {
		a, ok := reply.([]any)
		require.True(t, ok, "RESP2 has an array, got %T", reply)
		require.Len(t, a, len(fields))
	}
	d := named(t, reply, fields)
	require.Equal(t, map[string]any{
		"allowed": int64(1), "limit": int64(10), "remaining": int64(9),
		"retry_after_ms": int64(0), "reset_after_ms": int64(8_640_000), "delay_ms": int64(0),
	}, d)

	require.EqualValues(t, 8, limitReply(t, c, "RL.LIMIT", key, 10, "1d", "PEEK")["remaining"], "what the call would get")
	require.EqualValues(t, 9, limitReply(t, c, "RL.LIMIT", key, 10, "1d", "COST", 0)["remaining"], "a peek takes nothing")
	require.EqualValues(t, 1, limitReply(t, c, "RL.LIMIT", key, 10, "1d", "COST", 8)["remaining"])
	d = limitReply(t, c, "RL.LIMIT", key, 10, "1d", "COST", 2)
	require.EqualValues(t, 0, d["allowed"])
	require.EqualValues(t, 1, d["remaining"], "what is denied takes nothing")
	require.InDelta(t, 8_640_000, d["retry_after_ms"], 5000, "the missing unit comes back in a tenth of a day")
	d = limitReply(t, c, "RL.LIMIT", key, 10, "1d", "COST", 11)
	require.EqualValues(t, -1, d["retry_after_ms"], "no wait helps a cost above capacity")
	require.EqualValues(t, 3, limitReply(t, c, "RL.LIMIT", key, 10, "1d", "COST", -2)["remaining"], "a refund")
	require.EqualValues(t, 3, limitReply(t, c, "RL.LIMIT", key, 10, "1d", "COST", 5, "ATMOST")["allowed"], "what is there")
}

func testChain(t *testing.T, lib library, c client) {
	second, day := newKey(), newKey()
	chain := []any{"RL.LIMIT", second, 2, "1h", "AND", day, 100, "1d", "COST", 10}
	for left := range int64(2) {
		d := limitReply(t, c, chain...)
		require.EqualValues(t, 1, d["allowed"])
		require.EqualValues(t, 1-left, d["remaining"], "the first has the least remaining")
	}
	d := limitReply(t, c, chain...)
	require.EqualValues(t, 0, d["allowed"])
	require.EqualValues(t, 2, d["limit"], "the limit that denied")
	each, ok := d["limits"].([]any)
	require.True(t, ok)
	require.Len(t, each, 2)
	require.EqualValues(t, 0, named(t, each[0], fields)["remaining"])
	require.EqualValues(t, 80, named(t, each[1], fields)["remaining"])
	require.EqualValues(t, 80, limitReply(t, c, "RL.LIMIT", day, 100, "1d", "COST", 0)["remaining"], "all or none")
}

func testAlgorithms(t *testing.T, _ library, c client) {
	for _, algorithm := range []string{"token", "leaky", "fixed", "sliding", "log"} {
		t.Run(algorithm, func(t *testing.T) {
			// A window that began years ago and ends in years: no test
			// meets its edge.
			key := newKey()
			check := []any{"RL.LIMIT", key, 3, "36500d", "ALGORITHM", algorithm}
			for left := range int64(3) {
				require.EqualValues(t, 2-left, limitReply(t, c, check...)["remaining"])
			}
			d := limitReply(t, c, check...)
			require.EqualValues(t, 0, d["allowed"])
			require.Positive(t, d["retry_after_ms"])
			require.Equal(t, algorithm, text(t, c, "TYPE", key))
		})
	}
}

func testGCRA(t *testing.T, _ library, c client) {
	key := newKey()
	require.Equal(t, ints(0, 5, 4, -1, 720), do(t, c, "GCRA", key, 4, 5, 3600))
	require.Equal(t, ints(0, 5, 0, -1, 3600), do(t, c, "GCRA", key, 4, 5, 3600, "TOKENS", 4))
	require.Equal(t, ints(1, 5, 0, 720, 3600), do(t, c, "GCRA", key, 4, 5, 3600))
}

func testIncrEx(t *testing.T, _ library, c client) {
	key := newKey()
	once := []any{"INCREX", key, "BYINT", 2, "UBOUND", 5, "EX", 60, "ENX"}
	require.Equal(t, ints(2, 2), do(t, c, once...))
	require.Equal(t, ints(4, 2), do(t, c, once...))
	require.Equal(t, ints(4, 0), do(t, c, once...), "out of bounds changes nothing")
	require.Equal(t, ints(5, 1), do(t, c, append(once, "SATURATE")...))
	require.InDelta(t, 60, do(t, c, "TTL", key), 2)
	require.Equal(t, "string", text(t, c, "TYPE", key))
}

func testSlots(t *testing.T, _ library, c client) {
	names := []string{"allowed", "limit", "remaining", "retry_after_ms", "id", "ttl_ms"}
	key := newKey()
	acquire := func(args ...any) map[string]any {
		return named(t, do(t, c, append([]any{"RL.ACQUIRE", key, 2, 60}, args...)...), names)
	}
	first := acquire()
	require.EqualValues(t, 1, first["allowed"])
	require.EqualValues(t, 1, first["remaining"])
	require.EqualValues(t, 60_000, first["ttl_ms"])
	require.Len(t, first["id"], 32, "128 random bits in hexadecimal")
	require.EqualValues(t, 0, acquire("ID", "mine")["remaining"])
	require.EqualValues(t, 1, acquire("ID", "mine")["allowed"], "the same id renews")
	full := acquire()
	require.EqualValues(t, 0, full["allowed"])
	require.Nil(t, full["id"])
	require.InDelta(t, 60_000, full["retry_after_ms"], 5000)

	require.EqualValues(t, 1, do(t, c, "RL.EXTEND", key, "mine", "2m"))
	require.EqualValues(t, 1, do(t, c, "RL.RELEASE", key, first["id"]))
	require.EqualValues(t, 0, do(t, c, "RL.RELEASE", key, first["id"]), "released already")
	require.EqualValues(t, 1, acquire()["allowed"])
}

func testErrors(t *testing.T, _ library, c client) {
	bucket := newKey()
	do(t, c, "RL.LIMIT", bucket, 10, 60)
	for _, e := range []struct {
		command []any
		prefix  string
	}{
		{[]any{"INCREX", bucket}, "WRONGTYPE "},
		{[]any{"RL.LIMIT", bucket, 10, 60, "ALGORITHM", "fixed"}, "WRONGTYPE "},
		{[]any{"RL.LIMIT", newKey(), 10, 60, "NONSENSE"}, "syntax error"},
		{[]any{"RL.LIMIT", bucket, 10, 60, "AND", bucket, 1, 1}, "duplicate key"},
		{[]any{"CL.THROTTLE", newKey(), "many", 30, 60}, "value is not an integer"},
		{[]any{"CL.THROTTLE", newKey()}, "wrong number of arguments"},
		{[]any{"NOSUCHCOMMAND", "a"}, "unknown command 'NOSUCHCOMMAND'"},
	} {
		_, err := c.do(e.command...)
		require.Error(t, err, "%v", e.command)
		said, ok := c.serverError(err)
		require.True(t, ok, "%v is an error of the server, got %T %v", e.command, err, err)
		said = strings.TrimPrefix(said, "ERR ") // rueidis leaves it out
		require.Truef(t, strings.HasPrefix(said, e.prefix), "%v: %q", e.command, said)
	}
	require.EqualValues(t, 8, limitReply(t, c, "RL.LIMIT", bucket, 10, 60)["remaining"], "errors charge nothing")
}

func testKeyspace(t *testing.T, _ library, c client) {
	a, b, none := newKey(), newKey(), newKey()
	do(t, c, "RL.LIMIT", a, 10, 600)
	do(t, c, "INCREX", b)
	require.Equal(t, int64(2), do(t, c, "EXISTS", a, b, none))
	require.Equal(t, "token", text(t, c, "TYPE", a))
	require.Equal(t, "none", text(t, c, "TYPE", none))
	require.InDelta(t, 60, do(t, c, "TTL", a), 2, "a bucket is forgotten when it is full")
	require.Equal(t, int64(-1), do(t, c, "TTL", b))
	require.Equal(t, int64(-2), do(t, c, "TTL", none))
	require.Equal(t, int64(2), do(t, c, "DEL", a, b, none))
	require.Equal(t, int64(0), do(t, c, "EXISTS", a))
	require.EqualValues(t, 9, limitReply(t, c, "RL.LIMIT", a, 10, 600)["remaining"], "a deleted limit is full")
}

// testPipeline checks that the replies to 1000 commands at once come in their
// order.
func testPipeline(t *testing.T, _ library, c client) {
	const n = 500
	key := newKey()
	var commands [][]any
	for i := range n {
		commands = append(commands, []any{"CL.THROTTLE", key, n - 1, n, 86400}, []any{"ECHO", fmt.Sprint(i)})
	}
	replies := pipeline(t, c, commands)
	require.Len(t, replies, 2*n)
	for i := range n {
		require.Equal(t, ints(0, n, int64(n-1-i)), replies[2*i].([]any)[:3], "reply %d", 2*i)
		require.Equal(t, fmt.Sprint(i), replies[2*i+1])
	}
}

// testConcurrency checks that 50 tasks that share a client and a key are
// admitted exactly as often as the limit says.
func testConcurrency(t *testing.T, _ library, c client) {
	const tasks, each, limit = 50, 10, 123
	key := newKey()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, tasks*each)
	for range tasks {
		wg.Go(func() {
			for range each {
				reply, err := c.do("CL.THROTTLE", key, limit-1, 1, 86400)
				if err != nil {
					errs <- err
				} else if reply.([]any)[0] == int64(0) {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, errs)
	require.EqualValues(t, limit, admitted.Load())
}

func do(t *testing.T, c client, args ...any) any {
	t.Helper()
	reply, err := c.do(args...)
	require.NoError(t, err, "%v", args)
	return reply
}

func text(t *testing.T, c client, args ...any) string {
	t.Helper()
	s, ok := do(t, c, args...).(string)
	require.True(t, ok, "%v replies a string", args)
	return s
}

func pipeline(t *testing.T, c client, commands [][]any) []any {
	t.Helper()
	replies, err := c.pipeline(commands)
	require.NoError(t, err)
	return replies
}

// limitReply runs RL.LIMIT and names its values.
func limitReply(t *testing.T, c client, args ...any) map[string]any {
	t.Helper()
	names := fields
	if slices.Contains(args, any("AND")) {
		names = append(slices.Clone(names), "limits")
	}
	return named(t, do(t, c, args...), names)
}

// named gives the values of a RESP2 array the names they have in RESP3, and
// checks that a RESP3 map has just these.
func named(t *testing.T, reply any, names []string) map[string]any {
	t.Helper()
	m, ok := reply.(map[string]any)
	if !ok {
		values, ok := reply.([]any)
		require.True(t, ok, "got %T", reply)
		require.Len(t, values, len(names))
		m = make(map[string]any)
		for i, name := range names {
			m[name] = values[i]
		}
	}
	require.Len(t, m, len(names))
	for _, name := range names {
		require.Contains(t, m, name)
	}
	return m
}

func ints(values ...int64) []any {
	a := make([]any, len(values))
	for i, v := range values {
		a[i] = v
	}
	return a
}
