package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/server/web/admin"
)

// ask reads a page of JSON.
func (p *process) ask(t *testing.T, path string, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(p.get(t, path)), into))
}

// The history has what the node has just done, and the counts have the denials of each limit,
// also those of a limit in shadow.
func TestHistoryAndCounts(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	p := start(t)
	p.call(t, "RL.POLICY", "SET", "api", "{limits: {user: {by: user, rate: 3/h}, trial: {by: user, rate: 1/h, mode: shadow}}}")
	// Their first reading may come before or after these calls, so the history is awaited first.
	var past struct {
		Every  int64 `json:"every_ms"`
		Points []admin.Point
	}
	points := func() int { p.ask(t, "/v1/history", &past); return len(past.Points) }
	require.Eventually(t, func() bool { return points() > 0 }, waitLimit, 50*time.Millisecond)
	before := len(past.Points)
	c := dial(t, "tcp", p.redis)
	for i := range 300 { // of a fast command, the first call of about one batch in 64 is timed
		c.do("RL.LIMIT", fmt.Sprint("k", i), "10", "1m")
		for range 6 {
			_, err := c.line()
			require.NoError(t, err)
		}
	}
	for range 5 {
		p.call(t, "RL.CHECK", "api", "user", "eve")
	}
	var sum admin.Point
	require.Eventually(t, func() bool {
		points()
		sum = admin.Point{}
		for _, one := range past.Points[before:] {
			sum.Allowed += one.Allowed
			sum.Denied += one.Denied
			sum.P50, sum.P99 = max(sum.P50, one.P50), max(sum.P99, one.P99)
			sum.Clients, sum.Keys, sum.Memory = max(sum.Clients, one.Clients), max(sum.Keys, one.Keys), max(sum.Memory, one.Memory)
		}
		return sum.Allowed+sum.Denied == 305
	}, waitLimit, 50*time.Millisecond)
	require.EqualValues(t, 5000, past.Every)
	require.EqualValues(t, 2, sum.Denied)
	require.Positive(t, sum.P50)
	require.GreaterOrEqual(t, sum.P99, sum.P50)
	require.Positive(t, sum.Clients)
	require.GreaterOrEqual(t, sum.Keys, int64(300))
	require.Positive(t, sum.Memory)

	var counts struct{ Limits []admin.LimitCount }
	p.ask(t, "/v1/counts?policy=api&count=2", &counts)
	require.Equal(t, []admin.LimitCount{
		{Policy: "api", Limit: "user", Allowed: 3, Denied: 2, Cost: 3},
		{Policy: "api", Limit: "trial", Allowed: 1, Shadow: 2, Cost: 1},
	}, counts.Limits)
}

// A node shows its cluster: members, groups, what differs, and the last handover.
func TestViewOfTheCluster(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := newCluster(t, 3)
	for i, n := range c.nodes {
		n.process = start(t, append(n.args, "--groups=2", fmt.Sprintf("--backstop=%d", 2+i/2))...)
	}
	transfer := func(group int, to *testNode) {
		t.Helper()
		out, err := command(t, "cluster", "--peer="+c.peers[0], fmt.Sprintf("--group=%d", group), "transfer", to.id).CombinedOutput()
		require.True(t, err == nil || strings.Contains(string(out), "leads already"), "%s", out)
	}
	c.ledBy(t, 0, 2)
	victim := c.nodes[1] // the home of group 1, which therefore stays there
	transfer(1, victim)
	leader := c.leader(t)
	others := c.followers(leader)
	asked := others[0]
	if asked == victim {
		asked = others[1]
	}
	transfer(0, asked)
	var seen admin.Cluster
	require.Eventually(t, func() bool {
		asked.ask(t, "/v1/cluster", &seen)
		return seen.Leader == asked.id && seen.Handover != nil && seen.Handover.To == asked.id && len(seen.Differences) > 0 && seen.Groups[1].Leader == victim.id
	}, waitLimit, 20*time.Millisecond)
	require.Equal(t, "leading", seen.Role)
	last := seen.Handover
	require.Equal(t, admin.Handover{At: last.At, From: leader.id, To: asked.id, Planned: true, Without: last.Without}, *last)
	require.WithinDuration(t, time.Now(), time.UnixMilli(last.At), waitLimit)
	require.Less(t, last.Without, waitLimit.Milliseconds())
	require.Equal(t, []string{"backstop"}, seen.Differ)
	require.Equal(t, []admin.Difference{{Parameter: "backstop", Values: map[string]string{"n1": "2", "n2": "2", "n3": "3"}}}, seen.Differences)
	require.Empty(t, seen.Troubles)

	require.Len(t, seen.Groups, 2)
	require.Equal(t, [4]int{0, 8191, 8192, 16383}, [4]int{seen.Groups[0].First, seen.Groups[0].Last, seen.Groups[1].First, seen.Groups[1].Last})
	for _, m := range seen.Members {
		require.Equal(t, m.ID == asked.id, m.Self)
		if !m.Self {
			require.Positive(t, m.RTT, m.ID)
			require.Positive(t, m.Seen, m.ID)
		}
	}

	// The leader of another group is killed: nobody decided there since the node last heard
	// from it.
	killed := time.Now()
	victim.Kill()
	require.Eventually(t, func() bool {
		asked.ask(t, "/v1/cluster", &seen)
		return seen.Groups[1].Leader != victim.id && seen.Groups[1].Leader != "" && !seen.Handover.Planned
	}, waitLimit, 20*time.Millisecond)
	last = seen.Handover
	require.Equal(t, admin.Handover{Group: 1, At: last.At, From: victim.id, To: seen.Groups[1].Leader, Without: last.Without}, *last)
	took := time.UnixMilli(last.At).Sub(killed)
	without := time.Duration(last.Without) * time.Millisecond
	require.Greater(t, without, took-100*time.Millisecond, "no leader decided since the kill")
	require.Less(t, without, took+time.Second, "heartbeats are more frequent")
	t.Logf("the next leader decided %v after the kill, without_leader_ms is %d", took, last.Without)
}

// Secrets that differ are not shown, nor their digests.
func TestDifferentSecrets(t *testing.T) {
	d := cluster.Difference{Name: "requirepass", Values: map[string]string{"n1": "digest 01020304", "n2": "digest 05060708", "n3": "digest 01020304"}}
	require.Equal(t, map[string]string{"n1": "secret 1", "n2": "secret 2", "n3": "secret 1"}, shown(&d, true))
	require.Equal(t, d.Values, shown(&d, false))
}
