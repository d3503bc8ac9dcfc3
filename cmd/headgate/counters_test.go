package main

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that is left alone counts on its copies, in commands, pipelines,
// transactions and scripts. When there is a leader again, the leader has all of
// it, once.
func TestCountersWithoutALeader(t *testing.T) {
	notUnderRace(t)
	c := startCluster(t, 3, "--on-failure", "local")
	leader := c.leader(t)
	left, other := c.followers(leader)[0], c.followers(leader)[1]
	a := dial(t, "tcp", left.redis)
	require.Equal(t, ":10", a.do("INCRBY", "n", "10"))
	require.Equal(t, ":1", a.do("EXPIRE", "n", "1000"))
	digest := func(n *testNode) string {
		c := dial(t, "tcp", n.redis)
		require.Equal(t, "*6", c.do("DEBUG", "DIGEST"))
		var line string
		for range 4 { // "digest", and its value
			var err error
			line, err = c.line()
			require.NoError(t, err)
		}
		return line
	}
	require.Eventually(t, func() bool { return digest(left) == digest(leader) }, waitLimit, 10*time.Millisecond)

	for _, n := range []*testNode{leader, other} {
		n.signal(t, syscall.SIGKILL)
		_ = n.wait(t)
	}
	say := func(want string, args ...string) {
		t.Helper()
		require.Equal(t, want, a.do(args...), args)
	}
	rest := func(want ...string) {
		t.Helper()
		for _, w := range want {
			line, err := a.line()
			require.NoError(t, err)
			require.Equal(t, w, line)
		}
	}
	say(":11", "INCR", "n")
	say(":3", "INCRBY", "new", "3")
	say(":1", "EXPIRE", "new", "500")
	say("+OK", "MULTI")
	say("+QUEUED", "INCR", "n")
	say("+QUEUED", "INCR", "tx")
	say("+QUEUED", "EXPIRE", "tx", "700")
	say("*3", "EXEC")
	rest(":12", ":1", ":1")
	say(":1", "INCR", "endless")
	say("*2", "EVALSHA", "a1de965f42e177aa339706bd580f049065eca79a", "1", "flexible", "2", "600")
	rest(":2", ":600000")
	say(":6", "EVAL", "redis.call('incrby', KEYS[1], 5) redis.call('pexpire', KEYS[1], 800000) return redis.call('incr', KEYS[1])", "1", "home-made")
	require.Regexp(t, "^-CLUSTERDOWN ", a.do("DEL", "n"))
	require.Regexp(t, "^-CLUSTERDOWN ", a.do("SET", "n", "0"))

	var shown bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"scripts", "--url", "redis://" + left.redis}, &shown, &shown))
	require.Contains(t, shown.String(), "2 runs: 1 native, 1 in Lua")
	leader.start(t)
	other.start(t)
	next := c.leader(t)
	values := func() (got []string) {
		c := dial(t, "tcp", next.redis)
		require.Equal(t, "*5", c.do("MGET", "n", "new", "tx", "flexible", "home-made"))
		for range 5 {
			line, err := c.line()
			require.NoError(t, err)
			if line != "$-1" {
				line, err = c.line()
				require.NoError(t, err)
			}
			got = append(got, line)
		}
		return append(got, c.do("TTL", "n")[:2], c.do("TTL", "new")[:2], c.do("TTL", "flexible")[:2], c.do("TTL", "tx")[:2], c.do("EXISTS", "endless"))
	}
	want := []string{"12", "3", "1", "2", "6", ":9", ":4", ":5", ":6", ":0"}
	require.Eventually(t, func() bool { return values()[0] == "12" }, waitLimit, 20*time.Millisecond)
	time.Sleep(time.Second)
	require.Equal(t, want, values(), "once")

	// A node that does not lead says where scripts run.
	shown.Reset()
	require.NoError(t, run(t.Context(), []string{"scripts", "--url", "redis://" + c.followers(next)[0].redis}, &shown, &shown))
	require.Contains(t, shown.String(), "scripts run on the leader, at "+next.redis)
}
