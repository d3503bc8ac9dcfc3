package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script"
)

// A failover costs no NOSCRIPT: what clients have loaded, or sent with EVAL,
// every node knows. SCRIPT FLUSH reaches every node too.
func TestScriptsSurviveFailover(t *testing.T) {
	notUnderRace(t)
	c := startCluster(t, 3, "--durability", "sync", "--on-failure", "closed", "--forward-timeout", "5s")
	leader := c.leader(t)
	require.Eventually(t, func() bool { // the members have told what they can read
		st, err := c.status(t, 0)
		return err == nil && st.Level == st.NewestLevel
	}, waitLimit, 50*time.Millisecond)
	const loaded, sent = "return redis.call('incr', KEYS[1])", "return redis.call('incrby', KEYS[1], 10)"
	sha1, sha2 := script.Digest([]byte(loaded)), script.Digest([]byte(sent))
	a := dial(t, "tcp", c.followers(leader)[0].redis)
	require.Equal(t, "$40", a.do("SCRIPT", "LOAD", loaded))
	_, err := a.line()
	require.NoError(t, err)
	require.Equal(t, ":10", a.do("EVAL", sent, "1", "k"))
	leader.signal(t, syscall.SIGKILL)
	_ = leader.wait(t)
	next := c.leader(t)
	for _, n := range []*testNode{next, c.followers(next)[0]} {
		b := dial(t, "tcp", n.redis)
		require.Equal(t, "*2", b.do("SCRIPT", "EXISTS", sha1, sha2))
		for range 2 {
			line, err := b.line()
			require.NoError(t, err)
			require.Equal(t, ":1", line)
		}
	}
	b := dial(t, "tcp", next.redis)
	require.Equal(t, ":11", b.do("EVALSHA", sha1, "1", "k"))
	require.Equal(t, ":21", b.do("EVALSHA", sha2, "1", "k"))
	require.Equal(t, "+OK", b.do("SCRIPT", "FLUSH"))
	require.Equal(t, "-NOSCRIPT No matching script. Please use EVAL.", b.do("EVALSHA", sha1, "1", "k"))
}
