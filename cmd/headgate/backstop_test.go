package main

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// A node that is left alone with on-failure open admits a multiple of each limit
// and no more, from all callers together. When there is a leader again, the
// leader's counters hold.
func TestOpenIsNoFlood(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--on-failure", "open", "--backstop", "3")
	leader := c.leader(t)
	left := c.followers(leader)[0]
	for name, text := range map[string]string{
		"node": "{on_failure: open, limits: {user: {by: user, rate: 10/d}, all: {rate: 20/d, algorithm: fixed, align: first}}}",
		"own":  "{backstop: 2, limits: {user: {by: user, rate: 10/d, algorithm: sliding, align: first}}}",
	} {
		require.Eventually(t, func() bool { // until each node can read it
			return leader.call(t, "RL.POLICY", "SET", name, text).Type == ':'
		}, waitLimit, 20*time.Millisecond)
		require.Eventually(t, func() bool { return left.call(t, "RL.POLICY", "GET", name).Type == '*' }, waitLimit, 20*time.Millisecond)
	}
	require.EqualValues(t, 9, left.call(t, "RL.LIMIT", "fixed", "10", "1d", "ALGORITHM", "fixed", "ALIGN", "first", "SYNC").Elems[2].Int)
	for _, n := range []*testNode{leader, c.followers(leader)[1]} {
		n.signal(t, syscall.SIGKILL)
		_ = n.wait(t)
	}
	// units asks again and again, and adds up what is admitted.
	units := func(cost int64, args ...string) (n int64) {
		t.Helper()
		conns := []*client{dial(t, "tcp", left.redis), dial(t, "tcp", left.redis)}
		for i := range 100 {
			a := conns[i%len(conns)]
			_, err := a.Write(resp.AppendCommand(nil, args))
			require.NoError(t, err)
			reply, err := resp.ReadReply(a.in, 1<<20)
			require.NoError(t, err)
			require.EqualValues(t, '*', reply.Type, "%v: %s", args, reply.Str)
			n += cost * reply.Elems[0].Int
		}
		return n
	}
	for algorithm, align := range map[string][]string{"token": nil, "leaky": nil, "fixed": {"ALIGN", "first"}, "sliding": {"ALIGN", "first"}} {
		limit := append([]string{"10", "1d", "ALGORITHM", algorithm}, align...)
		require.EqualValues(t, 30, units(1, append([]string{"RL.LIMIT", algorithm + "1"}, limit...)...), algorithm)
		require.EqualValues(t, 28, units(4, append(append([]string{"RL.LIMIT", algorithm + "4"}, limit...), "COST", "4")...), algorithm)
	}
	require.EqualValues(t, 15, units(1, "RL.LIMIT", "log1", "10", "1d", "ALGORITHM", "log"), "and as much again in the day")
	require.EqualValues(t, 30, units(1, "RL.CHECK", "node", "user", "eve"))
	require.EqualValues(t, 30, units(1, "RL.CHECK", "node", "user", "bob"), "of the 60 of all")
	require.EqualValues(t, 0, units(1, "RL.CHECK", "node", "user", "joe"))
	require.EqualValues(t, 20, units(1, "RL.CHECK", "own", "user", "eve"))
	page := left.get(t, "/metrics")
	require.Contains(t, page, fmt.Sprintf("headgate_backstop_denied_total %d\n", 4*(70+93)+85+70+70+100+80))
	require.Contains(t, page, "headgate_backstop_full_total 0\n")

	leader.start(t)
	next := c.leader(t)
	require.EqualValues(t, 8, next.call(t, "RL.LIMIT", "fixed", "10", "1d", "ALGORITHM", "fixed", "ALIGN", "first").Elems[2].Int)
}
