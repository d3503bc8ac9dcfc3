package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A message that any node gets reaches the subscribers of all nodes, at both doors, with one
// group and with several. The reply counts the receivers at the node that got the command.
func TestMessagesReachAllNodes(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	for _, groups := range []int{1, 12} {
		t.Run(fmt.Sprint(groups), func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3, append(patient, fmt.Sprintf("--groups=%d", groups))...)
			c.ledBy(t, 0, groups)
			var doors []*redis.Client // of each node listen, then cluster-listen
			var seeds []string
			for _, n := range c.nodes {
				require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
				for _, addr := range []string{n.redis, n.cluster} {
					doors = append(doors, redis.NewClient(&redis.Options{Addr: addr}))
				}
				seeds = append(seeds, n.cluster)
			}
			smart := redis.NewClusterClient(&redis.ClusterOptions{Addrs: seeds})
			t.Cleanup(func() {
				for _, d := range doors {
					d.Close()
				}
				smart.Close()
			})
			got := make([]chan string, 0, 10)
			listen := func(s *redis.PubSub) {
				_, err := s.Receive(t.Context()) // the subscription
				require.NoError(t, err)
				ch := make(chan string, 1000)
				got = append(got, ch)
				go func() {
					for m := range s.Channel() {
						ch <- m.Payload
					}
				}()
				t.Cleanup(func() { s.Close() })
			}
			told := func(of []chan string, want []string) {
				t.Helper()
				slices.Sort(want)
				for i, ch := range of {
					var have []string
					require.Eventually(t, func() bool {
						for {
							select {
							case m := <-ch:
								have = append(have, m)
							default:
								return len(have) >= len(want)
							}
						}
					}, waitLimit, time.Millisecond, "subscriber %d has %v", i, &have)
					slices.Sort(have)
					require.Equal(t, want, have, "subscriber %d", i)
				}
			}

			for i, d := range doors {
				if i%2 == 0 {
					listen(d.Subscribe(t.Context(), "news"))
				} else {
					listen(d.PSubscribe(t.Context(), "n?ws"))
				}
			}
			var want []string
			for i, d := range doors {
				m := fmt.Sprintf("by door %d", i)
				n, err := d.Publish(t.Context(), "news", m).Result()
				require.NoError(t, err)
				require.EqualValues(t, 2, n, "one at each door of the node")
				want = append(want, m)
			}
			large := strings.Repeat("x", 3<<20)
			require.NoError(t, doors[1].Publish(t.Context(), "news", large).Err())
			want = append(want, large)
			// A transaction, and a script, which the leader executes for the client.
			for i := 0; i < len(doors); i += 2 {
				m := fmt.Sprintf("in a transaction of %d", i)
				_, err := doors[i].TxPipelined(t.Context(), func(p redis.Pipeliner) error {
					p.Incr(t.Context(), "count")
					p.Publish(t.Context(), "news", m)
					return nil
				})
				require.NoError(t, err)
				s := fmt.Sprintf("of a script at %d", i)
				require.NoError(t, doors[i].Eval(t.Context(), "return redis.call('PUBLISH', 'news', ARGV[1])", []string{"k"}, s).Err())
				want = append(want, m, s)
			}
			told(got, want)

			// Sharded channels: at listen any node takes the subscription, and at
			// cluster-listen the leader of the channel's slot does.
			got, want = nil, nil
			for _, channel := range []string{"a", "b", "c", "d"} { // of several groups
				for i := 0; i < len(doors); i += 2 {
					listen(doors[i].SSubscribe(t.Context(), channel))
				}
				listen(smart.SSubscribe(t.Context(), channel))
				of := got[len(got)-4:]
				want = nil
				for i := 0; i < len(doors); i += 2 {
					m := fmt.Sprintf("%s by door %d", channel, i)
					require.NoError(t, doors[i].SPublish(t.Context(), channel, m).Err())
					want = append(want, m)
				}
				m := channel + " by a client of Redis Cluster"
				n, err := smart.SPublish(t.Context(), channel, m).Result()
				require.NoError(t, err)
				require.EqualValues(t, 2, n, "the leader's two")
				told(of, append(want, m))
			}
		})
	}
}

// A node that stands still costs the clients of other nodes nothing: messages for it are
// dropped and counted. When it goes on, it gets messages again.
func TestAStoppedNodeClosesNoClients(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--maxmemory-clients=32mb")
	leader := c.leader(t)
	stopped := c.followers(leader)[0]
	require.Eventually(t, func() bool { return stopped.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
	sub := dial(t, "tcp", stopped.redis)
	require.NoError(t, sub.SetDeadline(time.Now().Add(3*waitLimit)))
	require.Equal(t, "*3", sub.do("SUBSCRIBE", "news"))
	innocent := dial(t, "tcp", leader.redis)
	require.Equal(t, "+OK", innocent.do("MULTI"))
	for range 4 {
		require.Equal(t, "+QUEUED", innocent.do("ECHO", strings.Repeat("x", 1<<20)))
	}
	dropped := func() (n int) {
		for line := range strings.Lines(leader.get(t, "/metrics")) {
			_, _ = fmt.Sscanf(line, "headgate_publish_dropped_total %d", &n)
		}
		return n
	}
	publisher := dial(t, "tcp", leader.redis)
	stopped.signal(t, syscall.SIGSTOP)
	for range 800 { // 50 MiB, of which the kernel keeps some
		require.Equal(t, ":0", publisher.do("PUBLISH", "news", strings.Repeat("x", 64<<10)))
	}
	require.Positive(t, dropped())
	require.Equal(t, "*4", innocent.do("EXEC"))
	require.Contains(t, leader.get(t, "/metrics"), `headgate_connections_closed_total{limit="clients_memory"} 0`)
	stopped.signal(t, syscall.SIGCONT)

	// Messages may still be dropped, until the outbox has connected again.
	last := make(chan error, 1)
	go func() {
		var err error
		for line := ""; err == nil && line != "last"; {
			line, err = sub.line()
		}
		last <- err
	}()
	require.Eventually(t, func() bool {
		require.Equal(t, ":0", publisher.do("PUBLISH", "news", "last"))
		select {
		case err := <-last:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	}, waitLimit, 10*time.Millisecond)
}
