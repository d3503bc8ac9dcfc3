package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// No atomic step writes more than others may have to wait for. The step, or the command in it
// that would, is refused.
func TestStepsAreBoundedInBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	s := newTestServer(t, Config{}, func() uint64 { return 1 })
	s.execTime = time.Hour // only the bytes decide, also where these take longer than a transaction may
	c := dial(t, serveOn(t, s))
	mega := strings.Repeat("x", 1<<20)
	fails := func(reply any, want string) {
		t.Helper()
		err, _ := reply.(error)
		require.ErrorContains(t, err, want)
	}
	ask := func(args ...string) any {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		c.send(encode(args...))
		return c.reply()
	}
	empty := func() {
		t.Helper()
		require.Equal(t, int64(0), ask("DBSIZE"))
	}

	// By its arguments.
	require.Equal(t, "OK", ask("MULTI"))
	for i := range 7 {
		require.Equal(t, "QUEUED", ask("SET", fmt.Sprint("k", i), mega))
	}
	fails(ask("SET", "k7", mega), "ERR a transaction may write at most 8388608 bytes")
	fails(ask("EXEC"), "EXECABORT")
	empty()
	pairs := []string{"MSET"}
	for i := range 8 {
		pairs = append(pairs, fmt.Sprint("k", i), mega)
	}
	fails(ask(pairs...), "ERR a command may write at most 8388608 bytes")
	empty()

	// By what it does: on its loop, and on copies.
	for _, more := range []int{0, 1000} {
		require.Equal(t, "OK", ask("MULTI"))
		for i := range 10 + more {
			require.Equal(t, "QUEUED", ask("SETRANGE", fmt.Sprint("k", i%10), fmt.Sprint(1<<20-1-i/10), "x"))
		}
		fails(ask("EXEC"), "EXECABORT Transaction discarded: it changes more than 8388608 bytes in one step")
		empty()
	}
	fails(ask("EVAL", "for i = 1, 10 do redis.call('SETRANGE', 'k' .. i, 1048570, 'x') end", "0"),
		"it changes more than 8388608 bytes in one step script: ")
	empty()

	// Where nothing can be taken back as a whole the commands fail that would.
	for _, odd := range [][]string{{"SELECT", "0"}, {"DBSIZE"}, {"EVAL", "return 1", "0"}} {
		require.Equal(t, "OK", ask("MULTI"))
		require.Equal(t, "QUEUED", ask(odd...))
		for i := range 20 {
			require.Equal(t, "QUEUED", ask("SETRANGE", fmt.Sprint("k", i), "1048570", "x"))
		}
		replies := ask("EXEC").([]any)
		require.Equal(t, int64(1<<20-5), replies[7])
		fails(replies[20], "ERR it changes more than 8388608 bytes in one step")
		require.Equal(t, int64(engine.MaxStep>>20-1), ask("DBSIZE"))
		require.Equal(t, "OK", ask("FLUSHALL"))
	}
	require.Equal(t, "OK", ask("MULTI"))
	for i := range 9 {
		require.Equal(t, "QUEUED", ask("EVAL", "redis.call('SETRANGE', KEYS[1], 1048570, 'x')", "1", fmt.Sprint("k", i)))
	}
	replies := ask("EXEC").([]any)
	require.Nil(t, replies[0])
	fails(replies[8], "it changes more than 8388608 bytes in one step")
}
