package load

import (
	"bufio"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// server answers the n-th command of all connections with reply(n); "" closes the connection.
func server(t *testing.T, reply func(n int64) string) string {
	var count atomic.Int64
	return serve(t, func(*resp.Reply) string { return reply(count.Add(1)) })
}

// serve greets connections, and answers each command with answer; "" closes the connection.
func serve(t *testing.T, answer func(cmd *resp.Reply) string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					cmd, err := respclient.Read(r)
					if err != nil {
						return
					}
					reply := "%0\r\n"
					if cmd.Elems[0].Str != "HELLO" {
						reply = answer(&cmd)
					}
					if reply == "" {
						return
					}
					c.Write([]byte(reply))
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func decision(allowed, remaining int) string {
	return "%2\r\n$7\r\nallowed\r\n:" + strconv.Itoa(allowed) + "\r\n$9\r\nremaining\r\n:" + strconv.Itoa(remaining) + "\r\n"
}

// offer runs a load against addr for d and returns what it recorded.
func offer(addr string, rate float64, d, timeout time.Duration) (history.History, map[string]int) {
	h := history.History{Keys: []history.Key{{Name: "k", Algorithm: history.Fixed, Limit: 9, Period: time.Hour}}}
	l := Start(Config{
		Rate: rate, Conns: 2, Epoch: time.Now(), Timeout: timeout,
		Node: func(int) int { return 0 }, Dial: func(int) string { return addr },
		Next:   func(int, *rand.Rand, time.Duration) history.Call { return history.Call{Cost: 1, Limit: 9} },
		Encode: func(b []byte, c *history.Call) []byte { return Encode(b, c, h.Keys[0], h.Keys[0]) },
	})
	time.Sleep(d)
	codes := l.Stop(&h)
	return h, codes
}

func TestEveryPlannedCallHasAnOutcome(t *testing.T) {
	addr := server(t, func(n int64) string {
		switch {
		case n%50 == 0:
			return ""
		case n%7 == 0:
			return "-CLUSTERDOWN no leader is known\r\n"
		case n%5 == 0:
			return "-UNCERTAIN the decision may have been taken\r\n"
		case n%3 == 0:
			return decision(0, 0)
		}
		return decision(1, 4)
	})
	h, codes := offer(addr, 2000, 500*time.Millisecond, time.Second)
	n := h.Count()
	require.InDelta(t, 1000, len(h.Calls), 200)
	for _, o := range []history.Outcome{history.Unknown, history.Admitted, history.Denied, history.Refused} {
		require.NotZero(t, n[o], o)
	}
	require.GreaterOrEqual(t, n[history.Unknown], codes["UNCERTAIN"])
	require.GreaterOrEqual(t, n[history.Refused], codes["CLUSTERDOWN"])
	last := int64(0)
	for _, c := range h.Calls {
		require.GreaterOrEqual(t, c.Start, last)
		require.GreaterOrEqual(t, c.End, c.Start)
		require.GreaterOrEqual(t, c.Start, c.Due)
		last = c.Start
		if c.Outcome == history.Admitted {
			require.EqualValues(t, 4, c.Remaining)
		}
	}
}

// The parts of a load are planned, paused and recorded together, each at its own rate.
func TestPartsOfALoad(t *testing.T) {
	addr := server(t, func(int64) string { return decision(1, 4) })
	h := history.History{Keys: []history.Key{{Name: "a"}, {Name: "b"}}}
	part := func(key uint32, rate float64) Config {
		return Config{
			Rate: rate, Conns: 2, Epoch: time.Now(), Timeout: 10 * time.Second,
			Node: func(int) int { return 0 }, Dial: func(int) string { return addr },
			Next:   func(int, *rand.Rand, time.Duration) history.Call { return history.Call{Key: key, Cost: 1, Limit: 9} },
			Encode: func(b []byte, c *history.Call) []byte { return Encode(b, c, h.Keys[c.Key], h.Keys[c.Key]) },
		}
	}
	l := Start(part(0, 500), part(1, 100))
	time.Sleep(300 * time.Millisecond)
	l.Pause()
	for _, c := range l.conns {
		require.Eventually(t, c.idle, 10*time.Second, time.Millisecond)
	}
	l.Resume()
	time.Sleep(200 * time.Millisecond)
	require.Empty(t, l.Stop(&h))
	var of [2]int
	for _, c := range h.Calls {
		of[c.Key]++
	}
	require.Positive(t, of[1])
	require.InDelta(t, 5, float64(of[0])/float64(of[1]), 2.5)
	require.Equal(t, len(h.Calls), h.Count()[history.Admitted])
}

func TestSilenceIsUnknown(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	addr := server(t, func(int64) string { <-hang; return "" })
	h, _ := offer(addr, 100, 400*time.Millisecond, 100*time.Millisecond)
	n := h.Count()
	require.NotZero(t, n[history.Unknown])
	require.Zero(t, n[history.Admitted]+n[history.Denied])
}

func TestNobodyListensIsRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln.Close()
	h, _ := offer(ln.Addr().String(), 500, 200*time.Millisecond, time.Second)
	require.NotEmpty(t, h.Calls)
	require.Equal(t, len(h.Calls), h.Count()[history.Refused])
}

func TestEncode(t *testing.T) {
	a := history.Key{Name: "a", Algorithm: history.Fixed, Period: time.Hour}
	b := history.Key{Name: "b", Algorithm: history.Token, Period: 1500 * time.Millisecond}
	slot := history.Key{Name: "s", Algorithm: history.Slots, Period: time.Second}
	f := func(want string, c history.Call, key, other history.Key) {
		t.Helper()
		require.Equal(t, string(respclient.Append(nil, strings.Fields(want)...)), string(Encode(nil, &c, key, other)))
	}
	f("RL.LIMIT a 5 3600000ms ALGORITHM fixed COST -2 ALIGN first", history.Call{Limit: 5, Cost: -2}, a, a)
	f("RL.LIMIT b 5 1500ms ALGORITHM token COST 1", history.Call{Limit: 5, Cost: 1}, b, a)
	f("RL.LIMIT b 5 1500ms ALGORITHM token COST 1 AND a 5 3600000ms ALGORITHM fixed COST -1 ALIGN first",
		history.Call{Kind: history.Transfer, Limit: 5, Cost: 1}, b, a)
	f("RL.RESET a", history.Call{Kind: history.Reset}, a, a)
	f("RL.ACQUIRE s 5 1000ms ID 7", history.Call{Kind: history.Acquire, Limit: 5, Other: 7}, slot, a)
	f("DEL a", history.Call{Kind: history.Reset, Other: 1}, a, a)
	f("UNLINK a", history.Call{Kind: history.Reset, Other: 5}, a, a)
	day := history.Key{Name: "k", Algorithm: history.Token, Period: 24 * time.Hour}
	with := func(command string, option history.Option, extra int32) history.Key {
		k := day
		k.Command, k.Option, k.Extra = command, option, extra
		return k
	}
	c := history.Call{Limit: 10, Cost: 3}
	f("CL.THROTTLE k 9 10 86400 3", c, with("CL.THROTTLE", 0, 0), a)
	f("THROTTLE k 10 10 86400 3", c, with("THROTTLE", 0, 0), a)
	f("GCRA k 9 10 86400 TOKENS 3", c, with("GCRA", 0, 0), a)
	f("INCREX k BYINT 3 UBOUND 10 PX 86400000 ENX", c, with("INCREX", 0, 0), a)
	f("RL.LIMIT k 10 86400000ms ALGORITHM token COST 3 DEBT 5", c, with("", history.Debt, 5), a)
	f("RL.LIMIT k 10 86400000ms ALGORITHM token COST 3 ATMOST", c, with("", history.AtMost, 0), a)
	wait := with("", history.Wait, 2)
	wait.Limit, wait.Period = 10, time.Second
	f("RL.LIMIT k 10 1000ms ALGORITHM token COST 3 WAIT 200", c, wait, a)
	pair := Encode(nil, &history.Call{Kind: history.Pair, Cost: 1}, a, b)
	var want []byte
	lines := append([]string{"MULTI", "INCREX a BYINT 1"}, slices.Repeat([]string{"INCREX a BYINT 0"}, Between)...)
	for _, line := range append(lines, "INCREX b BYINT 1", "EXEC") {
		want = respclient.Append(want, strings.Fields(line)...)
	}
	require.Equal(t, string(want), string(pair))
	f("RL.RELEASE s 7", history.Call{Kind: history.Release, Other: 7}, slot, a)
}

func TestKeyspaceReplacesKeys(t *testing.T) {
	k := Keyspace{Places: 4, Life: 8 * time.Second, Spec: func(place, generation int) history.Key {
		return history.Key{Name: strconv.Itoa(place) + ":" + strconv.Itoa(generation)}
	}}
	require.Equal(t, "1:0", k.Key(k.At(1, 0)).Name)
	require.Equal(t, "1:0", k.Key(k.At(1, 5*time.Second)).Name)
	require.Equal(t, "1:1", k.Key(k.At(1, 6*time.Second)).Name, "a quarter of a life earlier than place 0")
	require.Equal(t, "0:0", k.Key(k.At(0, 6*time.Second)).Name)
	keys := k.Keys(20 * time.Second)
	for place := range k.Places {
		id := k.At(place, 20*time.Second)
		require.Equal(t, k.Key(id), keys[id])
	}
}

// Each command says in its own way whether it was allowed, and what is left.
func TestClassify(t *testing.T) {
	f := func(command string, c history.Call, reply string, outcome history.Outcome, cost, remaining int32) {
		t.Helper()
		r, err := respclient.Read(bufio.NewReader(strings.NewReader(reply)))
		require.NoError(t, err)
		key := history.Key{Command: command}
		if command == "ATMOST" {
			key = history.Key{Option: history.AtMost}
		}
		classify(&c, &r, key)
		require.Equal(t, outcome, c.Outcome, reply)
		require.Equal(t, cost, c.Cost)
		require.Equal(t, remaining, c.Remaining)
	}
	c := history.Call{Limit: 10, Cost: 3}
	for _, command := range []string{"CL.THROTTLE", "GCRA"} {
		f(command, c, "*5\r\n:0\r\n:10\r\n:7\r\n:-1\r\n:2\r\n", history.Admitted, 3, 7)
		f(command, c, "*5\r\n:1\r\n:10\r\n:2\r\n:1\r\n:2\r\n", history.Denied, 3, 2)
	}
	f("THROTTLE", c, "*5\r\n:1\r\n:10\r\n:7\r\n:2\r\n:0\r\n", history.Admitted, 3, 7)
	f("THROTTLE", c, "*5\r\n:0\r\n:10\r\n:2\r\n:2\r\n:1\r\n", history.Denied, 3, 2)
	f("INCREX", c, "*2\r\n:4\r\n:3\r\n", history.Admitted, 3, 6)
	f("INCREX", c, "*2\r\n:9\r\n:0\r\n", history.Denied, 3, 1)
	f("ATMOST", c, decision(2, 0), history.Admitted, 2, 0)
	f("ATMOST", c, decision(1, 0), history.Admitted, 1, 0)
	f("ATMOST", c, decision(0, 0), history.Denied, 3, 0)
	c.Kind = history.Pair
	f("", c, "*2\r\n*2\r\n:4\r\n:1\r\n*2\r\n:4\r\n:1\r\n", history.Admitted, 3, 0)
	f("", c, "_\r\n", history.Denied, 3, 0)
}

// A transaction's call has the last of its replies, and a pause drops what becomes due.
func TestTransactionsAndPauses(t *testing.T) {
	var received atomic.Int64
	addr := server(t, func(n int64) string {
		received.Add(1)
		switch n % (Between + 4) {
		case 1:
			return "+OK\r\n"
		case 0:
			return "*2\r\n*2\r\n:1\r\n:1\r\n*2\r\n:1\r\n:1\r\n"
		}
		return "+QUEUED\r\n"
	})
	h := history.History{Keys: []history.Key{{Name: "a"}, {Name: "b"}}}
	l := Start(Config{
		Rate: 500, Conns: 1, Epoch: time.Now(), Timeout: time.Second,
		Node: func(int) int { return 0 }, Dial: func(int) string { return addr },
		Next: func(int, *rand.Rand, time.Duration) history.Call {
			return history.Call{Kind: history.Pair, Other: 1, Cost: 1}
		},
		Encode: func(b []byte, c *history.Call) []byte { return Encode(b, c, h.Keys[0], h.Keys[1]) },
	})
	time.Sleep(200 * time.Millisecond)
	l.Pause()
	var before int64 // once the call under way has arrived
	require.Eventually(t, func() bool {
		last := before
		before = received.Load()
		return before != 0 && before == last
	}, 5*time.Second, 100*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, before, received.Load())
	l.Resume()
	time.Sleep(100 * time.Millisecond)
	codes := l.Stop(&h)
	require.Greater(t, received.Load(), before)
	require.Empty(t, codes)
	require.Equal(t, len(h.Calls), h.Count()[history.Admitted])
	require.EqualValues(t, (Between+4)*len(h.Calls), received.Load())
}
