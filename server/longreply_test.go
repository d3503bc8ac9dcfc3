package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// longReplies returns commands whose reply is 64 values of 1,000,000 bytes.
func longReplies() map[string]string {
	return map[string]string{
		"MGET": "MGET" + strings.Repeat(" big", 64) + "\r\n",
		"EXEC": "MULTI\r\n" + strings.Repeat("GET big\r\n", 64) + "EXEC\r\n",
		"EVAL": "EVAL " + quote("local t, v = {}, redis.call('get', KEYS[1]) for i = 1, 64 do t[i] = v end return t") + " 1 big\r\n",
	}
}

// A long reply is not copied as it grows, and what follows it comes after it,
// whichever driver the connection has.
func TestLongRepliesAreNotCopiedAsTheyGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	for _, network := range []string{"tcp", "unix"} {
		for name, send := range longReplies() {
			s := newTestServer(t, Config{}, nil)
			ln, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"}[network])
			require.NoError(t, err)
			go s.Serve(ln)
			nc, err := net.Dial(network, ln.Addr().String())
			require.NoError(t, err)
			defer nc.Close()
			value := strings.Repeat("0123456789", 100_000)
			one := bulk(value)
			_, _ = io.WriteString(nc, encode("SET", "big", value))
			expectBytes(t, nc, "+OK\r\n")
			before := allocatedBytes()
			_, _ = io.WriteString(nc, send+"ECHO after\r\n")
			if name == "EXEC" {
				expectBytes(t, nc, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", 64))
			}
			expectBytes(t, nc, "*64\r\n")
			for range 64 {
				expectBytes(t, nc, one)
			}
			expectBytes(t, nc, bulk("after"))
			require.Less(t, allocatedBytes()-before, uint64(160_000_000), "%s over %s", name, network)
		}
	}
}

// expectBytes reads want, and allocates little.
func expectBytes(t *testing.T, r io.Reader, want string) {
	t.Helper()
	room := make([]byte, min(len(want), 16<<10))
	for want != "" {
		got := room[:min(len(want), len(room))]
		_, err := io.ReadFull(r, got)
		require.NoError(t, err)
		if !strings.HasPrefix(want, string(got)) {
			t.Fatalf("%.60q… instead of %.60q…", got, want)
		}
		want = want[len(got):]
	}
}

// A transaction with many values in its reply leaves its loop, and one that can not
// answers BUSY for the rest.
func TestLongRepliesOfExecLeaveTheLoop(t *testing.T) {
	_, m := testMachine(t, Config{}, nil)
	m.feed(encode("SET", "big", strings.Repeat("x", 1_000_000)))
	m.feed("MULTI\r\nSET small x\r\n" + strings.Repeat("GET big\r\n", 64))
	m.take()
	m.feed("EXEC\r\n")
	require.NotZero(t, m.stall&stallWorker)

	_, m = testMachine(t, Config{}, nil)
	m.feed(encode("SET", "big", strings.Repeat("x", 1_000_000)))
	m.feed("MULTI\r\nCL.THROTTLE limit 2 3 60\r\n" + strings.Repeat("GET big\r\n", 250) + "INCREX n\r\n")
	m.take()
	m.feed("EXEC\r\n")
	reply := m.take()
	require.Contains(t, reply, "\r\n-BUSY the transaction has run too long")
	require.True(t, strings.HasSuffix(reply, "*2\r\n:1\r\n:1\r\n"), "what writes runs")
}

// The received part of a long argument is copied only a few times, and a client that announces
// one gets no room for it.
func TestLongArgumentsAreNotCopiedAsTheyGrow(t *testing.T) {
	_, m := testMachine(t, Config{}, nil)
	whole := encode("ECHO", strings.Repeat("x", 15<<20))
	before := allocatedBytes()
	m.lane.begin()
	room := make([]byte, 64<<10)
	for rest := whole[:len(whole)-1]; len(rest) > 0; {
		n := copy(room, rest)
		m.input(room[:n])
		m.settle()
		rest = rest[n:]
	}
	m.lane.end()
	require.Less(t, allocatedBytes()-before, uint64(30<<20))
	m.feed("\n")
	require.Len(t, m.take(), len(bulk(strings.Repeat("x", 15<<20))))

	m.feed("*2\r\n$4\r\nECHO\r\n$15000000\r\n" + strings.Repeat("x", 200<<10))
	require.Less(t, cap(m.in), 2<<20)
}

// A job's reply is accounted once when it becomes its connection's.
func TestRepliesAreHandedOverInTheAccount(t *testing.T) {
	s, m := testMachine(t, Config{}, nil)
	p := s.memory.spend(&m.conn)
	require.True(t, p.Take(1<<20))
	p.handTo(&m.conn)
	require.EqualValues(t, 1<<20, s.memory.Total())
	m.output = 1 << 20
	m.weigh()
	require.EqualValues(t, 1<<20, s.memory.Total())
	p.end()
	m.output = 0
	m.weigh()
	require.Zero(t, s.memory.Total())
}

// The loan beyond the bound is little, and enough for a small bound.
func TestBorrowedMemoryIsBounded(t *testing.T) {
	for bound, most := range map[int64]int64{8 << 20: 16 << 20, 100 << 20: 164 << 20, 1 << 30: 1<<30 + 1<<28} {
		s := newTestServer(t, Config{Runtime: Runtime{ClientMemory: bound}}, nil)
		require.True(t, s.memory.Borrow(most), fmt.Sprint(bound))
		require.False(t, s.memory.Borrow(1), fmt.Sprint(bound))
		s.memory.Add(-most)
	}
}
