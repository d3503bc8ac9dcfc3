package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Without a leader nobody gets a block. The failure policy answers NEED, and a block cannot
// be returned.
func TestLeasesWithoutALeader(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--on-failure", "closed")
	leader := c.leader(t)
	left := c.followers(leader)[0]
	modes := []string{"open", "closed", "local"}
	for _, mode := range modes {
		require.Eventually(t, func() bool { // until each node can read it
			return leader.call(t, "RL.POLICY", "SET", mode, "{on_failure: "+mode+", limits: {all: {by: user, rate: 3000/d}}}").Type == ':'
		}, waitLimit, 20*time.Millisecond)
		require.Eventually(t, func() bool { return left.call(t, "RL.POLICY", "GET", mode).Type == '*' }, waitLimit, 20*time.Millisecond)
	}
	// forms are a lease of a key and one of a policy, without what is asked for.
	forms := func(mode string) map[string][]string {
		return map[string][]string{
			"key":    {"RL.LEASE", "k:" + mode, "3000", "1d", "FAIL", mode},
			"policy": {"RL.LEASE", "POLICY", mode, "user", "eve"},
		}
	}
	ask := func(form []string, id, need string) []string {
		return append(form, "ID", id, "SEQ", "1", "WANT", "500", "NEED", need)
	}
	for _, mode := range modes {
		for form, args := range forms(mode) {
			r := left.call(t, ask(args, "before", "1")...)
			require.Len(t, r.Elems, 11, "%s %s: %s", mode, form, r.Str)
			require.EqualValues(t, 501, r.Elems[6].Int, "%s %s: granted", mode, form)
			require.Positive(t, r.Elems[7].Int, "%s %s: ttl_ms", mode, form)
		}
	}
	// The node that will be alone has learned all before.
	require.EqualValues(t, '*', left.call(t, "RL.LIMIT", "last", "10", "1d", "SYNC").Type)
	for _, n := range []*testNode{leader, c.followers(leader)[1]} {
		n.signal(t, syscall.SIGKILL)
		_ = n.wait(t)
	}
	const closed = "CLUSTERDOWN"
	for _, mode := range modes {
		for form, args := range forms(mode) {
			for _, need := range []string{"0", "7", "4000"} {
				r := left.call(t, ask(args, "after", need)...)
				if mode == "closed" {
					require.Contains(t, r.Str, closed, "%s %s need %s", mode, form, need)
					continue
				}
				require.Len(t, r.Elems, 11, "%s %s need %s: %s", mode, form, need, r.Str)
				granted, allowed := map[string]int64{"7": 7}[need], int64(1)
				if need == "4000" { // more than the limit ever has
					allowed = 0
				}
				require.Equal(t, allowed, r.Elems[0].Int, "%s %s need %s: allowed", mode, form, need)
				require.Equal(t, granted, r.Elems[6].Int, "%s %s need %s: granted", mode, form, need)
				for i := 7; i < 11; i++ { // no block
					require.Zero(t, r.Elems[i].Int, "%s %s need %s: value %d", mode, form, need, i)
				}
			}
			back := append([]string{"RL.RETURN"}, args[1:]...)
			if form == "key" {
				back = back[:2]
			}
			r := left.call(t, append(back, "ID", "before", "SEQ", "2", "HELD", "5")...)
			require.Contains(t, r.Str, closed, "%s %s: a block goes back to a leader only", mode, form)
		}
	}
}
