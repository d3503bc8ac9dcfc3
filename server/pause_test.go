package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
)

func TestClientPause(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	require.EqualError(t, c.call("CLIENT PAUSE 100000 READ").(error), "ERR CLIENT PAUSE mode must be WRITE or ALL", "as Redis says")
	require.EqualError(t, c.call("CLIENT PAUSE -1").(error), "ERR timeout is negative")
	require.Equal(t, "OK", c.call("CLIENT PAUSE 100000 WRITE"))
	other.do("PING", "+PONG\r\n")
	other.send("INCREX 'n'\r\nPING\r\n")
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, int64(0), c.call("EXISTS n"), "it waits")
	require.Equal(t, "OK", c.call("CLIENT UNPAUSE"))
	other.expect("*2\r\n:1\r\n:1\r\n+PONG\r\n")
	begin := time.Now()
	require.Equal(t, "OK", c.call("CLIENT PAUSE 50"))
	other.do("PING", "+PONG\r\n")
	require.Greater(t, time.Since(begin), 49*time.Millisecond)
}

// A pause that begins before the commands put off by another have run puts them
// off again, in their order.
func TestClientPauseAgain(t *testing.T) {
	for behind, want := range map[string]string{
		"":                       "*2\r\n:1\r\n:1\r\n",
		"INCREX n\r\nECHO x\r\n": "*2\r\n:1\r\n:1\r\n*2\r\n:2\r\n:1\r\n" + bulk("x"),
	} {
		s, m := testMachine(t, Config{}, new(committer))
		other := newMachine(s)
		other.feed("CLIENT PAUSE 100000\r\n")
		m.feed("INCREX n\r\n")
		m.feed(behind)
		for range 3 {
			other.feed("CLIENT UNPAUSE\r\nCLIENT PAUSE 100000\r\n")
			m.lane.runPosts()
			require.Empty(t, m.take())
			require.Equal(t, stallPause, m.stall)
		}
		other.feed("CLIENT UNPAUSE\r\n")
		m.lane.runPosts()
		m.feed("ECHO last\r\n")
		require.Equal(t, want+bulk("last"), m.take())
	}
}

func TestClientPauseIsNotShortened(t *testing.T) {
	s, m := testMachine(t, Config{}, new(committer))
	other := newMachine(s)
	other.feed("CLIENT PAUSE 100000\r\nCLIENT PAUSE 1\r\n")
	time.Sleep(20 * time.Millisecond)
	m.feed("PING\r\n")
	m.lane.runPosts()
	require.Empty(t, m.take())
	require.Equal(t, stallPause, m.stall)
}

// A transaction that was queued before the pause waits with its EXEC if it
// writes.
func TestClientPauseOfTransactions(t *testing.T) {
	for _, c := range []struct {
		kind, queued string
		waits        bool
	}{
		{"WRITE", "INCREX n", true},
		{"WRITE", "TTL n", false},
		{"ALL", "TTL n", true},
	} {
		s, m := testMachine(t, Config{}, new(committer))
		other := newMachine(s)
		m.feed("MULTI\r\nPING\r\n" + c.queued + "\r\n")
		other.feed("CLIENT PAUSE 100000 " + c.kind + "\r\n")
		m.take()
		m.feed("EXEC\r\nPING\r\n")
		require.Equal(t, c.waits, m.take() == "", "%+v", c)
		require.Equal(t, c.waits, m.stall == stallPause, "%+v", c)
		other.feed("CLIENT UNPAUSE\r\n")
		m.lane.runPosts()
		if c.waits {
			require.Contains(t, m.take(), "*2\r\n+PONG\r\n")
		}
	}
}

// The end of a pause wakes only the connections that wait, however many others exist. It once
// posted to all, and a pipeline of pauses held the loop for seconds.
func TestUnpauseWakesOnlyWhoWaits(t *testing.T) {
	s, m := testMachine(t, Config{}, new(committer))
	other, idle := newMachine(s), newMachine(s)
	other.feed(strings.Repeat("CLIENT PAUSE 100000\r\nCLIENT UNPAUSE\r\n", 100))
	require.Empty(t, idle.lane.posts)
	other.feed("CLIENT PAUSE 100000\r\n")
	m.feed("PING\r\n")
	gone := newMachine(s)
	gone.feed("PING\r\n")
	require.Len(t, s.pauses.waiting, 2)
	gone.kill()
	gone.settle()
	require.Len(t, s.pauses.waiting, 1, "who has gone is forgotten")
	other.feed("CLIENT UNPAUSE\r\n")
	require.Empty(t, idle.lane.posts)
	m.lane.runPosts()
	require.Equal(t, "+PONG\r\n", m.take())
}

// The timer of a pause that has been made longer meanwhile ends nothing.
func TestClientPauseOutlivesItsFormerEnd(t *testing.T) {
	s, m := testMachine(t, Config{}, new(committer))
	former := time.Now().Add(time.Minute)
	s.pause(time.Minute, false)
	s.pause(time.Hour, false)
	s.endPause(former)
	m.feed("PING\r\n")
	m.lane.runPosts()
	require.Empty(t, m.take())
	s.endPause(s.pauses.until)
	m.lane.runPosts()
	require.Equal(t, "+PONG\r\n", m.take())
}

// INFO counts clients that wait for the end of a pause as blocked, as Redis does.
func TestPausedClientsAreBlocked(t *testing.T) {
	_, ours := startServer(t, Config{})
	for name, addr := range map[string]string{"redis-server": redistest.Start(t), "this server": ours} {
		blocked := func(n int) {
			t.Helper()
			eventually(t, fmt.Sprint(n, " blocked clients of ", name), func() bool {
				return strings.Contains(dial(t, addr).call("INFO clients").(string), fmt.Sprintf("\r\nblocked_clients:%d\r\n", n))
			})
		}
		c := dial(t, addr)
		blocked(0)
		require.Equal(t, "OK", c.call("CLIENT PAUSE 100000 WRITE"))
		blocked(0)
		for range 2 {
			dial(t, addr).send("SET n 1\r\n")
		}
		blocked(2)
		require.Equal(t, "OK", c.call("CLIENT UNPAUSE"))
		blocked(0)
	}
}
