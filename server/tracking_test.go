package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// invalidated reads a push that invalidates keys.
func (c *client) invalidated(keys ...string) {
	c.t.Helper()
	r, err := resp.ReadReply(c.r, 1<<20)
	require.NoError(c.t, err)
	require.Equal(c.t, byte('>'), r.Type)
	want := []any{"invalidate", []any{}}
	for _, key := range keys {
		want[1] = append(want[1].([]any), key)
	}
	require.Equal(c.t, want, plain(&r))
}

// A key that a client may have cached is invalidated right after its reply, and no other key.
func TestTrackingInvalidatesAtOnce(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.call("HELLO 3")
	quiet := func() {
		t.Helper()
		require.Equal(t, "quiet", c.call("ECHO quiet"))
		require.Equal(t, "still", c.call("ECHO still"))
	}
	c.call("MSET a 1 b 2")
	c.call("GET a")
	quiet()

	require.ErrorContains(t, c.call("CLIENT CACHING yes").(error), "can be called only when the client is in tracking mode")
	require.Equal(t, "OK", c.call("CLIENT TRACKING on"))
	require.ErrorContains(t, c.call("CLIENT CACHING yes").(error), "only valid when tracking is enabled in OPTIN mode")
	require.Equal(t, "1", c.call("GET a"))
	c.invalidated("a")
	require.Equal(t, []any{"1", "2", nil}, c.call("MGET a b none"))
	c.invalidated("a", "b", "none")
	require.Equal(t, "OK", c.call("SET a 3"))
	quiet()
	for _, queue := range []string{"MULTI", "GET a", "SET b 4", "PTTL b"} {
		c.call(queue)
	}
	require.Equal(t, []any{"3", "OK", int64(-1)}, c.call("EXEC"))
	c.invalidated("a")
	c.invalidated("b")

	require.Equal(t, "OK", c.call("CLIENT TRACKING on OPTIN"))
	c.call("GET a")
	quiet()
	require.Equal(t, "OK", c.call("CLIENT CACHING yes"))
	c.call("GET a")
	c.invalidated("a")
	c.call("GET a")
	quiet()
	// As rueidis does.
	for _, line := range []string{"CLIENT CACHING yes", "MULTI", "PTTL a", "GET a"} {
		c.call(line)
	}
	require.Equal(t, []any{int64(-1), "3"}, c.call("EXEC"))
	c.invalidated("a")
	c.invalidated("a")
	c.call("GET a")
	quiet()

	require.Equal(t, "OK", c.call("CLIENT TRACKING on OPTOUT"))
	c.call("GET a")
	c.invalidated("a")
	require.Equal(t, "OK", c.call("CLIENT CACHING no"))
	c.call("GET a")
	quiet()
	c.call("GET a")
	c.invalidated("a")

	require.Equal(t, "OK", c.call("CLIENT TRACKING off"))
	c.call("GET a")
	quiet()
	c.call("CLIENT TRACKING on")
	c.call("RESET")
	c.call("HELLO 3")
	c.call("GET a")
	quiet()
}

// A job's reply comes before what invalidates it.
func TestTrackingOfLongCommands(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.call("HELLO 3")
	c.call("CLIENT TRACKING on")
	var args, keys = []string{"EXISTS"}, []string{}
	for range 3000 {
		keys = append(keys, "k")
	}
	c.send(encode(append(args, keys...)...))
	require.Equal(t, int64(0), c.reply())
	c.invalidated(keys...)
}

func TestTrackingRedirects(t *testing.T) {
	_, addr := startServer(t, Config{})
	data, sub := dial(t, addr), dial(t, addr)
	id := format(sub.call("CLIENT ID"))
	sub.call("SUBSCRIBE __redis__:invalidate")
	require.Equal(t, "OK", data.call("CLIENT TRACKING on REDIRECT "+id))
	data.call("GET a")
	require.Equal(t, []any{"message", "__redis__:invalidate", []any{"a"}}, sub.reply())

	// To a connection that is gone: RESP3 hears of it.
	data.call("HELLO 3")
	sub.Close()
	eventually(t, "the other connection is gone", func() bool {
		return len(dial(t, addr).call("CLIENT LIST ID "+id).(string)) == 0
	})
	data.call("GET a")
	require.Equal(t, []any{"tracking-redir-broken"}, data.reply().([]any)[:1])
}

// BCAST also promises news of keys that other connections have read.
func TestTrackingOfPrefixes(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	c.call("HELLO 3")
	require.Equal(t, "OK", c.call("CLIENT TRACKING on BCAST PREFIX user: PREFIX p"))
	other.call("MGET user:1 post:1 x")
	c.invalidated("user:1", "post:1")
	other.call("GET x")
	c.call("GET user:2")
	c.invalidated("user:2")
	c.call("CLIENT TRACKING off")
	other.call("GET user:1")
	require.Equal(t, "quiet", c.call("ECHO quiet"))
}
