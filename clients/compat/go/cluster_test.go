package clients_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

const (
	failoverLimit = 1_000_000
	// decisions are made before the leader is killed, and after it.
	decisions = 50
)

// charge is what a client does under load, without refill meanwhile. more are
// further arguments.
func charge(key string, more ...any) []any {
	return append([]any{"RL.LIMIT", key, failoverLimit, "1d", "ALGORITHM", "fixed", "ALIGN", "first"}, more...)
}

// decider is a client of a cluster. Its calls are not repeated by the library:
// that could count them twice.
type decider struct {
	limit func(ctx context.Context, args ...any) ([]int64, error)
	close func()
}

func goRedisDecider(c redis.UniversalClient) decider {
	return decider{
		limit: func(ctx context.Context, args ...any) ([]int64, error) { return c.Do(ctx, args...).Int64Slice() },
		close: func() { _ = c.Close() },
	}
}

func rueidisDecider(t *testing.T, o rueidis.ClientOption) decider {
	o.DisableCache, o.AlwaysRESP2, o.DisableRetry = true, true, true
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	return decider{
		limit: func(ctx context.Context, args ...any) ([]int64, error) {
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = fmt.Sprint(a)
			}
			return c.Do(ctx, c.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()).AsIntSlice()
		},
		close: c.Close,
	}
}

// TestLeaderKilledUnderLoad checks that clients of Redis Cluster and of Sentinel find the
// next leader by themselves. They start with any node's address for plain clients.
func TestLeaderKilledUnderLoad(t *testing.T) {
	c, err := hgtest.StartCluster("--durability", "sync")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	for name, connect := range map[string]func(*testing.T) decider{
		"go-redis ClusterClient": func(*testing.T) decider {
			return goRedisDecider(redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2,
				MaxRedirects: 1, DialerRetries: 1, ClusterStateReloadInterval: 200 * time.Millisecond}))
		},
		"go-redis FailoverClient": func(*testing.T) decider {
			return goRedisDecider(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "headgate", SentinelAddrs: c.Addrs(), Protocol: 2,
				MaxRetries: -1, DialerRetries: 1}))
		},
		"rueidis cluster": func(t *testing.T) decider {
			return rueidisDecider(t, rueidis.ClientOption{InitAddress: c.Addrs()})
		},
		"rueidis sentinel": func(t *testing.T) decider {
			return rueidisDecider(t, rueidis.ClientOption{InitAddress: c.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: "headgate"}})
		},
	} {
		t.Run(name, func(t *testing.T) { testLeaderKilled(t, c, connect(t)) })
	}
}

func testLeaderKilled(t *testing.T, c *hgtest.Cluster, d decider) {
	defer d.close()
	key := newKey()
	var admitted, failed atomic.Int64
	var last atomic.Pointer[string]
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			call, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			reply, err := d.limit(call, charge(key)...)
			cancel()
			if err == nil && reply[0] == 1 {
				admitted.Add(1)
				continue
			}
			failed.Add(1)
			if err != nil {
				text := err.Error()
				last.Store(&text)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	defer wg.Wait()
	defer stop()
	reach := func(n int64) {
		for deadline := time.Now().Add(2 * timeout); admitted.Load() < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				require.FailNow(t, "no decision", "%v", last.Load())
			}
		}
	}
	reach(decisions)
	killed, err := c.KillLeader()
	require.NoError(t, err)
	reach(admitted.Load() + 2 + decisions) // of two, one may have been under way and one be lost
	stop()
	wg.Wait()

	leader, err := c.Leader()
	require.NoError(t, err)
	require.NotEqual(t, killed.Addr, leader.Addr)
	require.Positive(t, failed.Load(), "a call met the dead leader")
	reply, err := d.limit(t.Context(), charge(key, "PEEK")...)
	require.NoError(t, err)
	used := failoverLimit - reply[2]
	require.LessOrEqual(t, admitted.Load(), used, "a decision was forgotten")
	require.LessOrEqual(t, used, admitted.Load()+failed.Load(), "a call was counted twice")
	require.NoError(t, c.Restart())
}

// TestShardedChannels checks that clients of Redis Cluster subscribe and publish on
// sharded channels at the same node, for any name. They do so again at the next leader.
func TestShardedChannels(t *testing.T) {
	c, err := hgtest.StartCluster()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	ctx := t.Context()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), DialerRetries: 1, ClusterStateReloadInterval: 200 * time.Millisecond})
	defer rdb.Close()
	other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs()})
	require.NoError(t, err)
	defer other.Close()

	var heard []<-chan string
	var names []string
	for range 3 { // of different slots
		name := newKey()
		sub := rdb.SSubscribe(ctx, name)
		defer sub.Close()
		byGo, byRueidis := make(chan string, 1000), make(chan string, 1000)
		go func() {
			for m := range sub.Channel() {
				byGo <- m.Payload
			}
		}()
		go func() {
			for ctx.Err() == nil {
				_ = other.Receive(ctx, other.B().Ssubscribe().Channel(name).Build(), func(m rueidis.PubSubMessage) { byRueidis <- m.Message })
			}
		}()
		names, heard = append(names, name, name), append(heard, byGo, byRueidis)
	}
	hear := func(text string) {
		for i, messages := range heard {
			var last error
			for deadline, found := time.Now().Add(2*timeout), false; !found; {
				require.True(t, time.Now().Before(deadline), "%s is not heard by subscriber %d: %v", text, i, last)
				last = rdb.SPublish(ctx, names[i], text).Err()
				select {
				case got := <-messages:
					found = got == text
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
	}
	hear("before")
	_, err = c.KillLeader()
	require.NoError(t, err)
	hear("after")
}
