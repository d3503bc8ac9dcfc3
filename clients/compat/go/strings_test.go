package clients_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// onDatabase connects to a node; what fails is tried again by the library.
func onDatabase(t *testing.T, addr string, db int) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, DB: db, MaxRetries: 10, MaxRetryBackoff: 200 * time.Millisecond})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestStringsSurviveTheirLeader checks that strings are on every node with their
// databases and times to live, whichever node they were written through.
func TestStringsSurviveTheirLeader(t *testing.T) {
	cluster, err := hgtest.StartCluster("--durability", "sync", "--forward-timeout", "5s", "--max-unacked", "5s") // a busy machine is late before the kill
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	ctx := t.Context()
	for i, node := range cluster.Nodes {
		c, key := onDatabase(t, node.Addr, 3), func(name string) string { return fmt.Sprint(name, i) }
		// Texts wait for the cluster's feature level, which rises within its first
		// seconds.
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			require.NoError(t, c.Set(ctx, key("s"), "hello", time.Hour).Err())
		}, timeout, 20*time.Millisecond)
		for range 20 {
			require.NoError(t, c.Incr(ctx, key("n")).Err())
		}
		require.NoError(t, c.Append(ctx, key("s"), " world").Err())
		require.NoError(t, c.IncrByFloat(ctx, key("f"), 0.5).Err())
		require.NoError(t, c.MSet(ctx, key("a"), "1", key("b"), "two").Err())
		require.NoError(t, c.Rename(ctx, key("a"), key("renamed")).Err())
		require.NoError(t, c.Move(ctx, key("b"), 4).Err())
		require.NoError(t, c.Copy(ctx, key("s"), key("copy"), 5, false).Err())
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.IncrBy(ctx, key("tx"), 7)
			p.Do(ctx, "SELECT", 6)
			p.IncrBy(ctx, key("tx"), 8)
			p.Do(ctx, "SELECT", 3)
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, onDatabase(t, node.Addr, 0).Set(ctx, key("n"), "zero", 0).Err())
	}
	_, err = cluster.KillLeader()
	require.NoError(t, err)
	leader, err := cluster.Leader()
	require.NoError(t, err)
	read := func(db int, key string) (value string) {
		c := onDatabase(t, leader.Addr, db)
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			var err error
			value, err = c.Get(ctx, key).Result()
			require.NoError(t, err)
		}, timeout, 20*time.Millisecond)
		return value
	}
	for i := range cluster.Nodes {
		for _, want := range []struct {
			db         int
			key, value string
		}{{3, "n", "20"}, {0, "n", "zero"}, {3, "s", "hello world"}, {5, "copy", "hello world"}, {3, "f", "0.5"},
			{3, "renamed", "1"}, {4, "b", "two"}, {3, "tx", "7"}, {6, "tx", "8"}} {
			require.Equal(t, want.value, read(want.db, fmt.Sprint(want.key, i)), "%v of node %d", want, i)
		}
		require.InDelta(t, time.Hour, onDatabase(t, leader.Addr, 5).TTL(ctx, fmt.Sprint("copy", i)).Val(), float64(time.Minute))
	}
	require.NoError(t, cluster.Restart())
}
