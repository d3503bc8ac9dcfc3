package load

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/redisserver"
	"github.com/headgate-io/headgate/internal/respclient"
)

// dataServer is a redis-server that knows the scripts.
func dataServer(t *testing.T) string {
	s, err := redisserver.Start("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	for _, text := range Scripts() {
		_, err := respclient.Do(s.Addr, time.Second, "SCRIPT", "LOAD", text)
		require.NoError(t, err)
	}
	return s.Addr
}

// Whatever counts a key's calls, a limit of 3 admits three of them: in Redis itself, so that a difference is Headgate's.
func TestDataDecides(t *testing.T) {
	addr := dataServer(t)
	keys := []history.Key{
		{Command: "EVALSHA window", Algorithm: history.Fixed},
		{Command: "EVALSHA bucket", Algorithm: history.Token},
		{Command: "EVALSHA log", Algorithm: history.Log},
		{Command: "EVALSHA list", Algorithm: history.Log},
	}
	for command := range countings {
		keys = append(keys, history.Key{Command: command, Algorithm: history.Fixed})
	}
	type result struct {
		outcome   history.Outcome
		remaining int32
	}
	admitted := func(n int32) result { return result{history.Admitted, n} }
	for i, k := range keys {
		k.Name, k.Period = k.Command+string(rune('a'+i)), time.Hour
		look, one := history.Call{Limit: 3}, history.Call{Limit: 3, Cost: 1}
		forget := history.Call{Kind: history.Reset, Other: uint32(i)}
		calls := []history.Call{look, one, one, look, one, one, forget, look, one}
		calls[1].Slow = true
		require.NoError(t, Ask(addr, Config{Epoch: time.Now(), Timeout: 5 * time.Second, Key: func(*history.Call) history.Key { return k }}, calls))
		var got []result
		for _, c := range calls {
			if c.Kind == history.Reset {
				c.Remaining = 0
			}
			got = append(got, result{c.Outcome, c.Remaining})
		}
		want := []result{admitted(3), admitted(2), admitted(1), admitted(1), admitted(0), {history.Denied, 0}, admitted(0), admitted(3), admitted(2)}
		if k.Command == "EVALSHA list" { // which does not tell
			for j := range want {
				want[j].remaining = 0
			}
		}
		require.Equal(t, want, got, k.Command)
	}
}

// What a script takes and gives back, and a limit that changes, are those of a fixed window.
func TestWindowScriptRefunds(t *testing.T) {
	addr := dataServer(t)
	key := history.Key{Name: "k", Command: "EVALSHA window", Algorithm: history.Fixed, Period: time.Hour}
	calls := []history.Call{{Limit: 5, Cost: 4}, {Limit: 5, Cost: 2}, {Limit: 5, Cost: -1}, {Limit: 5, Cost: 2}, {Limit: 10, Cost: 2}, {Limit: 5, Cost: -9}}
	require.NoError(t, Ask(addr, Config{Epoch: time.Now(), Timeout: 5 * time.Second, Key: func(*history.Call) history.Key { return key }}, calls))
	var left []int32
	for _, c := range calls {
		require.Equal(t, c.Limit == 5 && c.Remaining == 1 && c.Cost == 2, c.Outcome == history.Denied)
		left = append(left, c.Remaining)
	}
	require.Equal(t, []int32{1, 1, 2, 0, 3, 5}, left)
	ttl, err := respclient.Do(addr, time.Second, "TTL", "k")
	require.NoError(t, err)
	require.Positive(t, ttl.Int)
}

// The script of a pair adds to both keys, and only reads at no cost.
func TestPairScript(t *testing.T) {
	addr := dataServer(t)
	key, other := history.Key{Name: "one", Command: "EVALSHA pair"}, history.Key{Name: "two"}
	for n, cost := range []int32{1, 1, 0} {
		c := history.Call{Kind: history.Pair, Cost: cost, Due: int64(n)}
		require.Zero(t, Preceding(&c, key))
		reply, err := respclient.Do(addr, time.Second, Arguments(&c, key, other)...)
		require.NoError(t, err)
		require.Len(t, reply.Elems, 2)
		want := min(int64(n)+1, 2)
		require.Equal(t, [2]int64{want, want}, [2]int64{reply.Elems[0].Int, reply.Elems[1].Int})
	}
}

func TestEncodeData(t *testing.T) {
	k := history.Key{Name: "k", Period: 2 * time.Second}
	f := func(command string, c history.Call, want ...string) {
		t.Helper()
		k.Command = command
		var b []byte
		for _, line := range want {
			b = respclient.Append(b, strings.Fields(line)...)
		}
		require.Equal(t, string(b), string(Encode(nil, &c, k, k)))
		require.Equal(t, len(want)-1, Preceding(&c, k))
	}
	f("INCR", history.Call{Cost: 1}, "INCR k")
	f("INCR", history.Call{}, "GET k")
	f("INCR PEXPIRE", history.Call{Cost: 1}, "MULTI", "INCR k", "PEXPIRE k 2000 NX", "EXEC")
	f("ZADD ZCARD", history.Call{Cost: 1, Due: 35}, "MULTI", "ZADD k 1 z", "ZCARD k", "EXEC")
	f("HINCRBY", history.Call{Kind: history.Reset}, "EXPIRE k 0")
	f("HINCRBY", history.Call{Kind: history.Reset, Other: 1}, "DEL k")
	f("EVALSHA log", history.Call{Limit: 5, Cost: 1, Due: 36, Slow: true}, "EVALSHA "+scripts["log"].sha+" 1 k 5 2000 1 10 300000")
	f("EVALSHA log", history.Call{Limit: 5, Cost: 2, Due: 36}, "EVALSHA "+scripts["log"].sha+" 1 k 5 2000 2 10 0")
}

// A reply that is no count is an error, and its call's outcome stays open.
func TestCompare(t *testing.T) {
	f := func(command, reply, code string, outcome history.Outcome, remaining int32) {
		t.Helper()
		r, err := respclient.Read(bufio.NewReader(strings.NewReader(reply)))
		require.NoError(t, err)
		c := history.Call{Limit: 3, Cost: 1}
		require.Equal(t, code, classify(&c, &r, history.Key{Command: command}))
		require.Equal(t, outcome, c.Outcome)
		require.Equal(t, remaining, c.Remaining)
	}
	f("INCR", ":3\r\n", "", history.Admitted, 0)
	f("INCR", ":4\r\n", "", history.Denied, 0)
	f("ZINCRBY", ",2\r\n", "", history.Admitted, 1)
	f("ZINCRBY", "$1\r\n2\r\n", "", history.Admitted, 1)
	f("INCR", "+OK\r\n", malformed, history.Unknown, 0)
	f("ZADD ZCARD", "*2\r\n:1\r\n:3\r\n", "", history.Admitted, 0)
	f("ZADD ZCARD", "_\r\n", malformed, history.Unknown, 0)
	f("INCR", "-CLUSTERDOWN no\r\n", "CLUSTERDOWN", history.Refused, 0)
	f("EVALSHA window", "-BUSY others\r\n", "BUSY", history.Refused, 0)
	f("EVALSHA window", "-NOSCRIPT no\r\n", "NOSCRIPT", history.Unknown, 0)
}
