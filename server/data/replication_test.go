package data_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// TestCollectionsSurviveTheirLeader changes collections through all nodes of a
// cluster, and kills the leader.
func TestCollectionsSurviveTheirLeader(t *testing.T) {
	c, err := hgtest.StartCluster()
	require.NoError(t, err)
	t.Cleanup(hgtest.Clean)
	t.Cleanup(func() { _ = c.Stop() }) // one node is dead
	var nodes []*redis.Client
	for _, n := range c.Nodes {
		r := redis.NewClient(&redis.Options{Addr: n.Addr})
		t.Cleanup(func() { _ = r.Close() })
		nodes = append(nodes, r)
	}
	ctx := t.Context()
	for i := range 120 {
		r := nodes[i%len(nodes)]
		require.NoError(t, r.HSet(ctx, "h", fmt.Sprint("f", i), i, "n", i).Err())
		require.NoError(t, r.SAdd(ctx, "s", i, i%7).Err())
		require.NoError(t, r.ZAdd(ctx, "z", redis.Z{Score: float64(i % 50), Member: fmt.Sprint(i)}).Err())
		require.NoError(t, r.RPush(ctx, "l", i).Err())
		require.NoError(t, r.LMove(ctx, "l", "moved", "LEFT", "LEFT").Err())
		require.NoError(t, r.ZRemRangeByScore(ctx, "z", "48", "49").Err())
	}
	state := func(r *redis.Client) string {
		return fmt.Sprint(r.HGetAll(ctx, "h"), r.SMembers(ctx, "s"), r.ZRangeWithScores(ctx, "z", 0, -1), r.LRange(ctx, "l", 0, -1), r.LRange(ctx, "moved", 0, -1))
	}
	want := state(nodes[0])
	require.Contains(t, want, "f119:119")
	require.Equal(t, want, state(nodes[1]))
	time.Sleep(300 * time.Millisecond) // what a leader has not sent dies with it
	_, err = c.KillLeader()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		same := 0
		for _, r := range nodes {
			if state(r) == want {
				same++
			}
		}
		return same == len(nodes)-1
	}, 20*time.Second, 200*time.Millisecond)
}
