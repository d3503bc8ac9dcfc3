package clients_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

const (
	failoverLimit = 1_000_000
	// decisions of each key are made before the leader is killed, and after it.
	decisions = 20
	// maxUnacked is the default of max-unacked.
	maxUnacked = 250 * time.Millisecond
)

// charge is what a client does under load, without refill meanwhile. more are
// further arguments.
func charge(key string, more ...any) []any {
	return append([]any{"RL.LIMIT", key, failoverLimit, "1d", "ALGORITHM", "fixed", "ALIGN", "first"}, more...)
}

// tags are hash tags of keys, one for each group of a cluster of twelve.
var tags = strings.Fields("10 11 12 13 20 21 22 23 40 41 42 43")

// decider is a client of a cluster.
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

// rueidisDecider never retries: rueidis retries only commands that it knows to read.
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

// goRedisWays are the ways in which go-redis reaches a cluster, with the retries of
// docs/cluster-clients.md or with none.
func goRedisWays(c *hgtest.Cluster, balancer string, retries bool) map[string]func() decider {
	retry, redirects := -1, 1 // the one follows MOVED
	if retries {
		retry, redirects = 30, 30
	}
	return map[string]func() decider{
		"cluster": func() decider {
			return goRedisDecider(redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2,
				MaxRedirects: redirects, MaxRetryBackoff: 100 * time.Millisecond, DialerRetries: 1, ClusterStateReloadInterval: 500 * time.Millisecond}))
		},
		"sentinel": func() decider {
			return goRedisDecider(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "headgate", SentinelAddrs: c.Addrs(), Protocol: 2,
				MaxRetries: retry, MaxRetryBackoff: 100 * time.Millisecond, DialerRetries: 1, PoolSize: 1000}))
		},
		"plain": func() decider {
			o := &redis.Options{Addr: balancer, Protocol: 2}
			if !retries {
				o.MaxRetries = -1
			}
			return goRedisDecider(redis.NewClient(o))
		},
	}
}

// TestLeaderKilledUnderLoad checks that clients of Redis Cluster and of Sentinel find the
// next leaders by themselves. They start with any node's address for plain clients. A retry
// of the library's own could count a call twice, so there are none.
func TestLeaderKilledUnderLoad(t *testing.T) {
	c, balancer := startCluster(t, "--durability", "sync")
	ways := map[string]func() decider{
		"rueidis cluster": func() decider { return rueidisDecider(t, rueidis.ClientOption{InitAddress: c.Addrs()}) },
		"rueidis sentinel": func() decider {
			return rueidisDecider(t, rueidis.ClientOption{InitAddress: c.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: "headgate"}})
		},
	}
	for way, connect := range goRedisWays(c, balancer, false) {
		ways["go-redis "+way] = connect
	}
	for name, connect := range ways {
		t.Run(name, func(t *testing.T) { testLeaderKilled(t, c, connect()) })
	}
}

// TestNoErrorWhenLeaderKilled checks that callers see no error when the leader is killed and
// started again, if the client retries and the failure policy is the default. Without
// $HGTEST_GROUPS it runs in its short form: one way, with twelve groups.
func TestNoErrorWhenLeaderKilled(t *testing.T) {
	// On a busy machine a leader may answer late, and a node that has just started has no
	// share by which it could answer instead.
	args, short := []string{"--on-failure", "default", "--forward-timeout", "2s"}, os.Getenv("HGTEST_GROUPS") == ""
	if short {
		args = append(args, "--groups", "12")
	}
	c, balancer := startCluster(t, args...)
	ways := goRedisWays(c, balancer, true)
	if short {
		ways = map[string]func() decider{"cluster": ways["cluster"]}
	}
	for way, connect := range ways {
		t.Run("go-redis "+way, func(t *testing.T) { testNoError(t, c, connect()) })
	}
}

func startCluster(t *testing.T, args ...string) (c *hgtest.Cluster, balancer string) {
	c, err := hgtest.StartCluster(args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	balancer, err = c.Balance()
	require.NoError(t, err)
	return c, balancer
}

// load charges a key of each group until it is stopped. It counts what it is told of each key.
type load struct {
	d        decider
	keys     []string
	admitted []atomic.Int64
	failed   []atomic.Int64
	last     atomic.Pointer[string] // the last error
	longest  atomic.Int64           // ns that a call took
	stop     func()                 // waits for the calls
}

func startLoad(t *testing.T, d decider) *load {
	l := &load{d: d, admitted: make([]atomic.Int64, len(tags)), failed: make([]atomic.Int64, len(tags))}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	prefix := newKey()
	for i, tag := range tags {
		l.keys = append(l.keys, prefix+"{"+tag+"}")
		wg.Go(func() {
			for ctx.Err() == nil {
				l.charge(t, i)
				time.Sleep(5 * time.Millisecond) // leaves processors to the nodes
			}
		})
	}
	l.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(d.close)
	t.Cleanup(l.stop)
	return l
}

func (l *load) charge(t *testing.T, i int) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	began := time.Now()
	reply, err := l.d.limit(ctx, charge(l.keys[i])...)
	for took, longest := int64(time.Since(began)), l.longest.Load(); took > longest && !l.longest.CompareAndSwap(longest, took); {
		longest = l.longest.Load()
	}
	if err == nil && reply[0] == 1 {
		l.admitted[i].Add(1)
		return
	}
	l.failed[i].Add(1)
	text := fmt.Sprintf("%s: %v %v after %v", l.keys[i], reply, err, time.Since(began))
	l.last.Store(&text)
	time.Sleep(10 * time.Millisecond)
}

// reach waits until n more calls of each key have been admitted.
func (l *load) reach(t *testing.T, n int64) {
	goals := make([]int64, len(l.keys))
	for i := range goals {
		goals[i] = l.admitted[i].Load() + n
	}
	for i, goal := range goals {
		for deadline := time.Now().Add(2 * timeout); l.admitted[i].Load() < goal; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				require.FailNow(t, "no decision", "%s: %v", l.keys[i], l.last.Load())
			}
		}
	}
}

// used is what the leader has charged to a key. PEEK would count the call itself.
func (l *load) used(t require.TestingT, i int) int64 {
	reply, err := l.d.limit(context.Background(), charge(l.keys[i], "COST", 0, "FAIL", "CLOSED")...)
	require.NoError(t, err)
	return failoverLimit - reply[2]
}

func sum(counts []atomic.Int64) (sum int64) {
	for i := range counts {
		sum += counts[i].Load()
	}
	return sum
}

func testLeaderKilled(t *testing.T, c *hgtest.Cluster, d decider) {
	l := startLoad(t, d)
	l.reach(t, decisions)
	killed, err := c.KillLeader()
	require.NoError(t, err)
	l.reach(t, 2+decisions) // of two, one may have been under way and one be lost
	l.stop()

	leader, err := c.Leader()
	require.NoError(t, err)
	require.NotEqual(t, killed.Addr, leader.Addr)
	require.Positive(t, sum(l.failed), "a call met the dead leader")
	for i := range l.keys {
		used := l.used(t, i)
		require.LessOrEqual(t, l.admitted[i].Load(), used, "a decision was forgotten")
		require.LessOrEqual(t, used, l.admitted[i].Load()+l.failed[i].Load(), "a call was counted twice")
	}
	require.NoError(t, c.Restart())
}

func testNoError(t *testing.T, c *hgtest.Cluster, d decider) {
	degraded, err := c.Degraded()
	require.NoError(t, err)
	l := startLoad(t, d)
	l.reach(t, decisions)
	before := sum(l.admitted)
	time.Sleep(maxUnacked)
	_, err = c.KillLeader()
	require.NoError(t, err)
	lost := sum(l.admitted) - before // at most: what was admitted during max-unacked
	_, err = c.Leader()
	require.NoError(t, err)
	l.reach(t, decisions)
	require.NoError(t, c.Restart())
	l.reach(t, decisions)
	l.stop()

	t.Logf("%d calls, the longest took %v", sum(l.admitted), time.Duration(l.longest.Load()))
	if sum(l.failed) > 0 {
		require.Fail(t, "calls failed", "%d of %d, the last: %s", sum(l.failed), sum(l.failed)+sum(l.admitted), *l.last.Load())
	}
	after, err := c.Degraded()
	require.NoError(t, err)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		var used int64
		for i := range l.keys {
			used += l.used(t, i)
		}
		// Each key may have had a call under way that the client repeated, and one that the
		// dead node decided by its failure policy.
		twice := after - degraded + 2*int64(len(tags))
		require.GreaterOrEqual(t, used, sum(l.admitted)-lost, "more was forgotten than the bound")
		require.LessOrEqual(t, used, sum(l.admitted)+twice, "calls were counted twice")
	}, 6*timeout, 100*time.Millisecond)
}

// TestShards checks that a client that asks for CLUSTER SHARDS reaches every key. rueidis
// takes one shard of a master. The other clients ask for CLUSTER SLOTS or CLUSTER NODES.
func TestShards(t *testing.T) {
	c, _ := startCluster(t, "--groups", "12")
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true, ClusterOption: rueidis.ClusterOption{PreferClusterShards: true}})
	require.NoError(t, err)
	defer client.Close()
	for i := range 50 {
		reply, err := client.Do(t.Context(), client.B().Arbitrary("RL.LIMIT").Keys(newKey()).Args("5", "1m").Build()).AsIntMap()
		require.NoError(t, err, i)
		require.EqualValues(t, 4, reply["remaining"])
	}
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
