package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/command"
)

func TestMulti(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	f := func(cmd string, want any) {
		t.Helper()
		got := c.call(cmd)
		if err, ok := got.(error); ok {
			got = err.Error()
		}
		require.Equal(t, want, got)
	}
	const wrongExec = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
	f("EXEC now", wrongExec)
	f("MULTI", "OK")
	f("PING", "QUEUED")
	f("EXEC now", wrongExec)
	f("EXEC", "ERR EXEC without MULTI")
	f("DISCARD", "ERR DISCARD without MULTI")
	f("MULTI", "OK")
	f("MULTI", "ERR MULTI calls can not be nested")
	f("WATCH a", "ERR WATCH inside MULTI is not allowed")
	f("DISCARD", "OK")
	f("MULTI", "OK")
	f("INCREX n", "QUEUED")
	f("CL.THROTTLE k 1 1 60", "QUEUED")
	f("CL.THROTTLE k 1 1 60", "QUEUED")
	f("PING", "QUEUED")
	f("EXEC", []any{[]any{int64(1), int64(1)}, []any{int64(0), int64(2), int64(1), int64(-1), int64(60)}, []any{int64(0), int64(2), int64(0), int64(-1), int64(120)}, "PONG"})
	f("MULTI", "OK")
	f("NOSUCH", "ERR unknown command 'NOSUCH', with args beginning with: ")
	f("PING", "QUEUED")
	f("EXEC", "EXECABORT Transaction discarded because of previous errors.")
	f("MULTI", "OK")
	f("MONITOR", "ERR Command not allowed inside a transaction")
	f("EXEC", "EXECABORT Transaction discarded because of previous errors.")
	// A command on the whole table waits for no lock of its own transaction.
	f("MULTI", "OK")
	f("INCREX n", "QUEUED")
	f("FLUSHALL", "QUEUED")
	f("DBSIZE", "QUEUED")
	f("EXEC", []any{[]any{int64(2), int64(1)}, "OK", int64(0)})

	f("WATCH n", "OK")
	f("MULTI", "OK")
	f("PING", "QUEUED")
	f("EXEC", []any{"PONG"})
	for _, change := range []string{"INCREX n", "CL.THROTTLE w 1 1 60"} {
		f("WATCH n w", "OK")
		other.call(change)
		f("MULTI", "OK")
		f("PING", "QUEUED")
		f("EXEC", nil)
	}
	f("WATCH n", "OK")
	other.call("INCREX n")
	f("UNWATCH", "OK")
	f("MULTI", "OK")
	f("EXEC", []any{})
}

// A transaction is alone with its keys and those that it watches, from its first
// command to its last.
func TestExecKeepsOthersOut(t *testing.T) {
	for _, other := range []string{"INCREX k", "RL.LIMIT w 10 60", "DEL k w", "RL.LIMIT free 10 60 AND w 10 60", "WATCH k"} {
		s, m := testMachine(t, Config{}, new(committer))
		echo := s.table.Find([][]byte{[]byte("echo")})
		plain := echo.Handler
		done := make(chan struct{})
		echo.Handler = func(call *command.Call) {
			another := newMachine(s)
			go func() { another.feed(other + "\r\n"); close(done) }()
			select {
			case <-done:
				t.Errorf("%s came in between", other)
			case <-time.After(20 * time.Millisecond):
			}
			plain(call)
		}
		m.feed("WATCH w\r\nMULTI\r\nINCREX k\r\nECHO x\r\nINCREX k\r\nEXEC\r\n")
		<-done
		require.Equal(t, "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n*2\r\n:1\r\n:1\r\n"+bulk("x")+"*2\r\n:2\r\n:1\r\n", m.take())
	}
}

// A transaction does not hold its thread up for long, whatever it is made of:
// 300 calls of SCAN took ten seconds.
func TestTransactionsAreShort(t *testing.T) {
	_, addr := startServer(t, Config{OutputBufferLimit: 64 << 20})
	c := dial(t, addr)
	for _, command := range []string{"DEBUG DIGEST", "MEMORY PURGE", "CLUSTER COUNTKEYSINSLOT 1", "CLUSTER GETKEYSINSLOT 1 1"} {
		require.Equal(t, "OK", c.call("MULTI"))
		require.EqualError(t, c.call(command).(error), "ERR Command not allowed inside a transaction", command)
		require.Equal(t, "OK", c.call("DISCARD"))
	}

	for i := range 4000 {
		c.call(fmt.Sprintf("INCREX %d%s", i, strings.Repeat("a", 1000)))
	}
	require.Equal(t, "OK", c.call("MULTI"))
	require.Equal(t, "QUEUED", c.call("SCAN 0 COUNT 100000"))
	require.Less(t, len(c.call("EXEC").([]any)[0].([]any)[1].([]any)), 1000, "COUNT is a hint")

	const calls = 2000
	pattern := "*" + strings.Repeat("?", 900) + "b*"
	c.send("MULTI\r\nKEYS " + pattern + "\r\n" + strings.Repeat("SCAN 0 COUNT 100000 MATCH "+pattern+"\r\n", calls-1) + "INCREX counted\r\n")
	for range calls + 2 {
		c.reply()
	}
	began := time.Now()
	replies := c.call("EXEC").([]any)
	require.Less(t, time.Since(began), time.Second)
	require.Len(t, replies, calls+1)
	require.EqualError(t, replies[0].(error), command.ErrExecTime)
	require.EqualError(t, replies[calls-1].(error), command.ErrExecTime)
	require.Equal(t, []any{int64(1), int64(1)}, replies[calls], "what writes runs")
}

func TestTransactionsAreBoundedInNumber(t *testing.T) {
	_, m := testMachine(t, Config{}, new(committer))
	m.feed("MULTI\r\n" + strings.Repeat("PING\r\n", maxQueued))
	m.take()
	m.feed("PING\r\n")
	require.Equal(t, "-ERR at most 32768 commands in a transaction\r\n", m.take())
	m.feed("EXEC\r\n")
	require.Equal(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", m.take())
}

// A transaction that can not move leaves out scripts once it has taken its time.
func TestTransactionsLeaveOutScripts(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	const scripts = 8
	c.send("MULTI\r\n" + strings.Repeat("EVAL 'while true do end' 0\r\n", scripts) + "INCR n\r\nEXEC\r\n")
	c.expect("+OK\r\n" + strings.Repeat("+QUEUED\r\n", scripts+1))
	left := 0
	replies := c.reply().([]any)
	for _, r := range replies[:scripts] {
		if err, ok := r.(error); ok && err.Error() == command.ErrExecTime {
			left++
		}
	}
	require.GreaterOrEqual(t, left, scripts-2)
	require.Equal(t, int64(1), replies[scripts], "what is no script is not left out")
}

// crowd has more threads work than the machine has processors, until the test ends.
func crowd(t *testing.T) {
	threads := 8 * runtime.NumCPU()
	before := runtime.GOMAXPROCS(threads)
	var over atomic.Bool
	for range threads {
		go func() {
			for !over.Load() {
			}
		}()
	}
	t.Cleanup(func() {
		over.Store(true)
		runtime.GOMAXPROCS(before)
	})
}

// A transaction is not to blame for a busy machine: time in which others have the
// processor of its thread does not count.
func TestTransactionsCountTheirOwnTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the processor time of a thread is known on Linux only")
	}
	_, addr := startServer(t, Config{IOThreads: 1})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(12*patience)))
	loops := func(n int) string { return fmt.Sprintf(`EVAL "for i = 1, %d do end return 1" 0`, n) }

	// Eight scripts of 0.25 ms each.
	n, took := 1000, time.Duration(0)
	for took < 250*time.Microsecond {
		n += n / 4
		took = time.Hour
		for range 5 {
			c.do("MULTI", "+OK\r\n")
			c.do(loops(n), "+QUEUED\r\n")
			began := time.Now()
			c.call("EXEC")
			took = min(took, time.Since(began))
		}
	}
	crowd(t)
	const scripts, rounds = 8, 20
	late, blamed := 0, 0
	for range rounds {
		c.do("MULTI", "+OK\r\n")
		for range scripts {
			c.do(loops(n), "+QUEUED\r\n")
		}
		began := time.Now()
		replies := c.call("EXEC").([]any)
		if time.Since(began) > 10*time.Millisecond {
			late++
		}
		require.Len(t, replies, scripts)
		for _, reply := range replies {
			if err, ok := reply.(error); ok {
				require.Regexp(t, "^(BUSY the transaction|ERR Script killed: it took)", err.Error())
			} else {
				require.EqualValues(t, 1, reply)
			}
		}
		if _, ok := replies[scripts-1].(error); ok { // it stays too late for all further scripts
			blamed++
		}
	}
	require.Greater(t, late, rounds/2, "the machine is not crowded")
	// A host that stops this machine's processors lengthens the time of their threads, too.
	require.LessOrEqual(t, blamed, rounds/4)
}
