package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manyMembers fills a set with n members.
func manyMembers(t *testing.T, c *client, key string, n int) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		var members strings.Builder
		for m := i; m < min(i+1000, n); m++ {
			fmt.Fprintf(&members, " %d", m)
		}
		_, isErr := c.call("SADD " + key + members.String()).(error)
		require.False(t, isErr)
	}
}

// A transaction of heavy writes leaves its loop, and is one step all the same.
func TestHeavyTransactionsLeaveTheirLoop(t *testing.T) {
	s, addr := startServer(t, Config{IOThreads: 1, Runtime: Runtime{ScriptTime: time.Minute}})
	c, other := dial(t, addr), dial(t, addr)
	for _, conn := range []*client{c, other} {
		require.NoError(t, conn.SetDeadline(time.Now().Add(6*patience)))
	}
	const members, keys = 60_000, 7
	stores := 20
	if testing.Short() {
		stores = 7
	}
	manyMembers(t, c, "set", members)
	c.do("MULTI", "+OK\r\n")
	c.do("SET begun 1", "+QUEUED\r\n")
	for i := range stores {
		c.do(fmt.Sprintf("SUNIONSTORE to%d set none", i%keys), "+QUEUED\r\n")
	}
	c.do("INCR begun", "+QUEUED\r\n")
	c.send("EXEC\r\n")
	eventually(t, "it to leave its loop", func() bool { return s.scripts.Slow() == 1 })
	asked := 0
	for ; s.scripts.Slow() == 1; asked++ {
		other.do("SET free 1", "+OK\r\n")
		if begun := other.call("GET begun"); begun != nil {
			require.Equal(t, "2", begun, "nobody sees half of it")
		}
	}
	require.Greater(t, asked, 3, "others go on")
	want := []any{"OK"}
	for range stores {
		want = append(want, int64(members))
	}
	require.Equal(t, append(want, int64(2)), c.reply())
	require.Equal(t, int64(members), c.call(fmt.Sprintf("SCARD to%d", keys-1)))
}

// Every kind of transaction says the same on its loop and off it.
func TestHeavyTransactionsAsOthers(t *testing.T) {
	s, addr := startServer(t, Config{})
	s.execTime = time.Hour // on a slow machine the set alone takes longer than a transaction may
	c, other := dial(t, addr), dial(t, addr)
	for _, conn := range []*client{c, other} {
		require.NoError(t, conn.SetDeadline(time.Now().Add(6*patience)))
	}
	c.do("SELECT 3", "+OK\r\n")
	other.do("SELECT 3", "+OK\r\n")
	manyMembers(t, c, "set", 3000)
	exec := func(commands ...string) any {
		c.do("MULTI", "+OK\r\n")
		for _, line := range commands {
			c.do(line, "+QUEUED\r\n")
		}
		return c.call("EXEC")
	}
	const heavy = "SUNIONSTORE union set"
	require.Equal(t, []any{int64(3000), "PONG", int64(1), int64(0)}, exec(heavy, "PING", "HSET h f v", "PUBLISH nobody x"))
	replies := exec(heavy, "GET union", "INCR n").([]any)
	require.ErrorContains(t, replies[1].(error), "WRONGTYPE")
	require.Equal(t, int64(1), replies[2])

	c.do("WATCH n", "+OK\r\n")
	require.Equal(t, []any{int64(3000), int64(2)}, exec(heavy, "INCR n"))
	c.do("WATCH n", "+OK\r\n")
	other.do("INCR n", ":3\r\n")
	require.Nil(t, exec(heavy, "INCR n"))
	require.Equal(t, "3", c.call("GET n"))
	require.Equal(t, []any{int64(3000)}, exec(heavy), "nothing is watched any more")

	other.do("SELECT 0", "+OK\r\n")
	require.Equal(t, int64(0), other.call("EXISTS union n h"))

	// Those that must stay: what else they do is done too.
	require.Equal(t, []any{int64(3000), "OK", "OK"}, exec(heavy, "SELECT 4", "SET there 1"))
	require.Equal(t, "1", c.call("GET there"))
	c.do("SELECT 3", "+OK\r\n")
	require.Equal(t, []any{int64(3000), int64(7)}, exec(heavy, `EVAL "return 7" 0`))
}

// A transaction that is ended on its worker has changed nothing.
func TestEndedTransactionChangesNothing(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{ScriptTime: 50 * time.Millisecond}})
	c, other := dial(t, addr), dial(t, addr)
	for _, conn := range []*client{c, other} {
		require.NoError(t, conn.SetDeadline(time.Now().Add(6*patience)))
	}
	manyMembers(t, c, "set", 60_000)
	c.do("MULTI", "+OK\r\n")
	c.do("SET begun 1", "+QUEUED\r\n")
	for i := range 200 {
		c.do(fmt.Sprintf("SUNIONSTORE to%d set", i), "+QUEUED\r\n")
	}
	err, isErr := c.call("EXEC").(error)
	require.True(t, isErr)
	require.EqualError(t, err, "EXECABORT Transaction discarded: it took more than 50 ms.")
	require.Equal(t, int64(1), c.call("DBSIZE"))
	require.Zero(t, s.scripts.Slow())
}

// One that can not leave its loop leaves out what comes too late.
func TestTransactionsThatStayAreBounded(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
	manyMembers(t, c, "set", 60_000)
	const stores = 300
	c.do("MULTI", "+OK\r\n")
	c.do(`EVAL "return 1" 0`, "+QUEUED\r\n")
	for i := range stores {
		c.do(fmt.Sprintf("SUNIONSTORE to%d set", i), "+QUEUED\r\n")
	}
	replies := c.call("EXEC").([]any)
	require.Equal(t, int64(60_000), replies[1])
	require.ErrorContains(t, replies[stores].(error), "BUSY the transaction has run too long")
}

// However many connections send such transactions at once, others of their loop
// are served after each.
func TestTransactionsThatStayTakeTurns(t *testing.T) {
	s, addr := startServer(t, Config{IOThreads: 1})
	other := dial(t, addr)
	other.do("GET n", "$-1\r\n")
	const execs = 40
	many := make([]*client, execs)
	for i := range many {
		many[i] = dial(t, addr)
		many[i].do("MULTI", "+OK\r\n")
		many[i].do("INCR n", "+QUEUED\r\n")
		many[i].do(`EVAL "while true do end" 0`, "+QUEUED\r\n")
	}
	all := make(chan struct{})
	s.loops[0].lane.post(nil, func() { <-all })
	for _, c := range many {
		c.send("EXEC\r\n")
	}
	time.Sleep(10 * time.Millisecond) // so that the kernel has them
	close(all)
	require.Len(t, many[0].reply().([]any), 2)
	got, err := strconv.Atoi(fmt.Sprint(other.call("GET n")))
	require.NoError(t, err)
	require.Less(t, got, execs/2)
	for _, c := range many[1:] {
		require.Len(t, c.reply().([]any), 2)
	}
}
