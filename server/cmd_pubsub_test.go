package server

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/redistest"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/server/pubsub"
)

func TestPubSub(t *testing.T) {
	s, addr := startServer(t, Config{})
	two, three, publisher := dial(t, addr), dial(t, addr), dial(t, addr)
	three.call("HELLO 3")
	two.do("SUBSCRIBE a b", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n")
	three.do("PSUBSCRIBE [ab]*", ">3\r\n$10\r\npsubscribe\r\n$5\r\n[ab]*\r\n:1\r\n")
	require.Equal(t, int64(2), publisher.call("PUBLISH a hi"))
	require.Equal(t, int64(1), publisher.call("PUBLISH bc x"))
	require.Equal(t, int64(0), publisher.call("PUBLISH c x"))
	two.expect("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n")
	three.expect(">4\r\n$8\r\npmessage\r\n$5\r\n[ab]*\r\n$1\r\na\r\n$2\r\nhi\r\n>4\r\n$8\r\npmessage\r\n$5\r\n[ab]*\r\n$2\r\nbc\r\n$1\r\nx\r\n")
	require.EqualError(t, two.call("ECHO x").(error),
		"ERR Can't execute 'echo': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	two.do("PING x", "*2\r\n$4\r\npong\r\n$1\r\nx\r\n")
	three.do("ECHO x", bulk("x"))
	require.ElementsMatch(t, []any{"a", "b"}, publisher.call("PUBSUB CHANNELS"))
	require.Equal(t, []any{"a"}, publisher.call("PUBSUB CHANNELS [a]"))
	require.Equal(t, []any{"a", int64(1), "z", int64(0)}, publisher.call("PUBSUB NUMSUB a z"))
	require.Equal(t, int64(1), publisher.call("PUBSUB NUMPAT"))
	two.do("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n")
	two.do("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n")
	two.do("ECHO x", bulk("x"))
	three.Close()
	eventually(t, "the pattern to go with its subscriber", func() bool { return s.pubsub.Count(pubsub.Patterns) == 0 })
}

// pubSubPairs connects twice to a redis-server and to a server of ours: once to
// subscribe, in a protocol, and once to publish.
func pubSubPairs(t *testing.T, hello string) (sub, pub *redistest.Pair) {
	t.Helper()
	_, addr := startServer(t, Config{})
	redis := redistest.Start(t)
	sub, pub = redistest.Dial(t, redis, addr), redistest.Dial(t, redis, addr)
	sub.Redis(hello)
	sub.Ours(hello)
	return sub, pub
}

// Sharded channels, plain ones and patterns answer as Redis's do. Each kind of
// channel has its own names and subscribers.
func TestPubSubIsRedis(t *testing.T) {
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		t.Run(hello, func(t *testing.T) {
			sub, pub := pubSubPairs(t, hello)
			sub.Same("SSUBSCRIBE", "SUNSUBSCRIBE", "SUNSUBSCRIBE a", "SPUBLISH a", "PUBSUB SHARDCHANNELS", "PUBSUB SHARDNUMSUB", "PUBSUB NUMSUB")
			sub.Send("SUBSCRIBE a b")
			sub.Next(2)
			sub.Same("PSUBSCRIBE *")
			sub.Send("SSUBSCRIBE a {a}b a")
			sub.Next(3)
			pub.Same("SPUBLISH a one", "SPUBLISH c x", "PUBLISH c two", "PUBLISH {a}b three", "SPUBLISH {a}b four")
			sub.Next(4)
			sub.Same("ECHO x", "PING", "SPUBLISH c x", "PUBSUB SHARDNUMSUB a", "NOSUCH")
			pub.Same("PUBSUB NUMSUB a c", "PUBSUB SHARDNUMSUB a c {a}b", "PUBSUB NUMPAT", "PUBSUB SHARDCHANNELS [ab]")
			pub.Sorted("PUBSUB SHARDCHANNELS", "PUBSUB SHARDCHANNELS *", "PUBSUB CHANNELS")
			sub.Same("SUNSUBSCRIBE a", "SUNSUBSCRIBE c", "UNSUBSCRIBE a", "SUNSUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "ECHO x")
			pub.Same("SPUBLISH a x", "PUBSUB SHARDCHANNELS", "PUBSUB SHARDNUMSUB a")

			sub.Same("SSUBSCRIBE a", "RESET", "PING", "PUBSUB SHARDNUMSUB a")
			pub.Redis(hello)
			pub.Ours(hello)
			pub.Same("PUBSUB NUMSUB a b", "PUBSUB SHARDNUMSUB a b", "PUBSUB SHARDCHANNELS")
		})
	}
}

// A transaction subscribes and publishes, and a script publishes, as in Redis.
func TestPubSubInTransactionsAndScriptsIsRedis(t *testing.T) {
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		t.Run(hello, func(t *testing.T) {
			sub, pub := pubSubPairs(t, hello)
			sub.Same("SSUBSCRIBE c")
			for _, call := range []string{"SPUBLISH", "PUBLISH"} {
				pub.Same("MULTI", call+" c 1", "SET k v", call+" nobody 1", "EXEC")
				pub.Same(`EVAL "return {redis.call('` + call + `', 'c', '2'), redis.call('` + call + `', 'nobody', 'x')}" 0`)
			}
			pub.Same(`EVAL "return redis.call('ssubscribe', 'c')" 0`, `EVAL "return redis.call('sunsubscribe')" 0`,
				`EVAL "redis.setresp(3) return redis.call('pubsub', 'shardnumsub', 'c', 'd')" 0`, `EVAL "redis.setresp(3) return redis.call('pubsub', 'numsub', 'c')" 0`)
			sub.Next(2)
			sub.Same("SUNSUBSCRIBE c")

			sub.Same("MULTI", "SUBSCRIBE a", "SSUBSCRIBE s", "PSUBSCRIBE p*", "PING", "UNSUBSCRIBE a", "SUNSUBSCRIBE", "EXEC")
			sub.Same("PUNSUBSCRIBE", "PING")
		})
	}
}

// A message from before a command arrives before its reply, as in Redis.
func TestMessagesAndRepliesAreInRedisOrder(t *testing.T) {
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		t.Run(hello, func(t *testing.T) {
			sub, pub := pubSubPairs(t, hello)
			for range 20 {
				for _, kind := range []string{"", "P", "S"} {
					for _, command := range []string{kind + "UNSUBSCRIBE c", kind + "UNSUBSCRIBE", "RESET", "PING", "ECHO x", "NOSUCH"} {
						sub.Same(kind + "SUBSCRIBE c")
						pub.Same(strings.TrimPrefix(kind, "P") + "PUBLISH c hi")
						sub.Send(command)
						sub.Next(2)
						sub.Same(kind + "UNSUBSCRIBE c")
						sub.Redis(hello)
						sub.Ours(hello)
					}
				}
			}
			sub.Same("SUBSCRIBE c")
			pub.Same("PUBLISH c hi")
			sub.Send("QUIT")
			sub.Next(2)
		})
	}
}

// The same on both drivers, while the connection's thread is busy, and for messages
// that the socket does not take at once.
func TestMessagesPrecedeReplies(t *testing.T) {
	began, ends := make(chan struct{}), make(chan struct{})
	s := newTestServer(t, Config{}, func() uint64 {
		began <- struct{}{}
		<-ends
		return 0
	})
	path := serveOnUnix(t, s)
	publish := [pubsub.Kinds]string{"PUBLISH", "PUBLISH", "SPUBLISH"}
	subscribe := [pubsub.Kinds]string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"}
	messages := [pubsub.Kinds]string{"message", "pmessage", "smessage"}
	for driver, addr := range map[string]string{"loop": serveOn(t, s), "stream": path} {
		for _, tc := range []struct {
			kind           pubsub.Kind
			command, reply string
		}{
			{pubsub.Channels, "UNSUBSCRIBE c", ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"},
			{pubsub.Patterns, "PUNSUBSCRIBE", ">3\r\n$12\r\npunsubscribe\r\n$1\r\nc\r\n:0\r\n"},
			{pubsub.Shards, "SUNSUBSCRIBE c", ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n"},
			{pubsub.Channels, "RESET", "+RESET\r\n"},
			{pubsub.Channels, "QUIT", "+OK\r\n"},
			{pubsub.Channels, "PING", "+PONG\r\n"},
			{pubsub.Channels, "HELLO 2", "*16\r\n"},
			{pubsub.Channels, "NOSUCH", "-ERR unknown command"},
			{pubsub.Channels, "test.work y", bulk("y")},
			{pubsub.Channels, "*1\r\n$x", "-ERR Protocol error"},
		} {
			for _, size := range []int{2, 3 * deliverTurn} {
				t.Run(fmt.Sprintf("%s/%.9s/%d", driver, tc.command, size), func(t *testing.T) {
					sub, publisher, text := dial(t, addr), dial(t, path), strings.Repeat("x", size)
					sub.call("HELLO 3")
					sub.call(subscribe[tc.kind] + " c")
					sub.send("test.hold x\r\n" + tc.command + "\r\n")
					<-began
					publisher.send(encode(publish[tc.kind], "c", text))
					publisher.expect(":1\r\n")
					ends <- struct{}{}
					message := ">3\r\n" + bulk(messages[tc.kind])
					if tc.kind == pubsub.Patterns {
						message = ">4\r\n" + bulk("pmessage") + bulk("c")
					}
					sub.expect(bulk("x") + message + bulk("c") + bulk(text) + tc.reply)
					sub.Close()
					eventually(t, "the subscription to end", func() bool { return s.pubsub.Count(tc.kind) == 0 })
				})
			}
		}
	}
}

// Messages also precede the reply of a command that was put off, and those of commands
// that were parsed ahead.
func TestMessagesPrecedeDelayedReplies(t *testing.T) {
	s, m := testMachine(t, Config{}, new(committer))
	for i := 0; !m.lane.sess.Cold(); i++ {
		m.feed(encode("SET", fmt.Sprint("room:", i), strings.Repeat("x", 60_000)))
	}
	m.feed("HELLO 3\r\nSUBSCRIBE c\r\n")
	s.pause(time.Hour, false)
	m.feed("ECHO x\r\n")
	m.take()
	s.unpause()
	_, err := s.pubsub.Publish(pubsub.Channels, "c", []byte("hi"))
	require.NoError(t, err)
	m.lane.runPosts()
	message := ">3\r\n" + bulk("message") + bulk("c") + bulk("hi")
	require.Equal(t, message+bulk("x"), m.take())
	m.feed(encode("PUBLISH", "c", "hi") + encode("ECHO", "y") + encode("ECHO", "z"))
	require.Equal(t, ":1\r\n"+message+bulk("y")+bulk("z"), m.take())
}

// However many publish meanwhile, no message follows the end of a subscription.
func TestNoMessageFollowsUnsubscribe(t *testing.T) {
	s, addr := startServer(t, Config{})
	path := serveOnUnix(t, s)
	for range 3 {
		publisher := dial(t, path)
		require.NoError(t, publisher.SetDeadline(time.Time{}))
		go func() { // until the connection is closed
			for err := error(nil); err == nil; {
				if _, err = io.WriteString(publisher, "PUBLISH c x\r\n"); err == nil {
					_, err = publisher.r.ReadString('\n')
				}
			}
		}()
	}
	for _, addr := range []string{addr, path} {
		for ends, confirmed := range map[string]any{"UNSUBSCRIBE c": []any{"unsubscribe", "c", int64(0)}, "RESET": "RESET"} {
			sub := dial(t, addr)
			for range 1000 {
				sub.send("SUBSCRIBE c\r\nPING\r\n" + ends + "\r\n")
				for reply := sub.reply(); !reflect.DeepEqual(reply, confirmed); reply = sub.reply() {
				}
				sub.do("PING", "+PONG\r\n")
			}
		}
	}
}

// A connection's own message follows the reply of its PUBLISH, as since Redis 7.2,
// and precedes that of its next command.
func TestOwnMessages(t *testing.T) {
	s, addr := startServer(t, Config{})
	for _, addr := range []string{addr, serveOnUnix(t, s)} {
		c := dial(t, addr)
		c.call("HELLO 3")
		c.call("SUBSCRIBE c")
		const message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"
		c.do("PUBLISH c hi\r\nPING", ":1\r\n"+message+"+PONG\r\n")
		c.do("MULTI\r\nPUBLISH c hi\r\nUNSUBSCRIBE c\r\nEXEC\r\nPING", "+OK\r\n+QUEUED\r\n+QUEUED\r\n"+
			"*2\r\n:1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"+message+"+PONG\r\n")
		c.Close()
	}
}

// CLIENT REPLY withholds replies, but neither confirmations nor messages.
func TestClientReplyAndSubscriptionsAreRedis(t *testing.T) {
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		for _, kind := range []string{"", "P", "S"} {
			publish := strings.TrimPrefix(kind+"PUBLISH a hi", "P")
			if kind == "" {
				publish = "PUBLISH a hi"
			}
			t.Run(hello+" "+kind+"SUBSCRIBE", func(t *testing.T) {
				sub, pub := pubSubPairs(t, hello)
				sub.Send("CLIENT REPLY OFF")
				sub.Send("PING")
				sub.Send(kind + "SUBSCRIBE") // an error is a reply
				sub.Send(kind + "SUBSCRIBE a b")
				sub.Next(2)
				pub.Same(publish)
				sub.Next(1)
				sub.Send("PING")
				sub.Send("NOSUCH")
				sub.Same(kind+"UNSUBSCRIBE a", kind+"UNSUBSCRIBE", kind+"UNSUBSCRIBE", "CLIENT REPLY ON", "PING")

				sub.Send("CLIENT REPLY SKIP")
				sub.Send(kind + "SUBSCRIBE a b")
				sub.Next(2)
				sub.Same("PING")
				pub.Same(publish)
				sub.Next(1)
				sub.Same(kind + "UNSUBSCRIBE a")
				sub.Same(kind + "UNSUBSCRIBE")
				for _, line := range []string{kind + "UNSUBSCRIBE", kind + "SUBSCRIBE a"} {
					sub.Send("CLIENT REPLY SKIP")
					sub.Same(line, "PING")
				}
				sub.Send("RESET")
				sub.Next(1)
				sub.Send("CLIENT REPLY SKIP")
				sub.Send(kind + "SUBSCRIBE")
				sub.Same("PING")
			})
		}
	}
}

// COMMAND shows where sharded channels are, by which clients of a cluster find the node, and
// that they are no keys.
func TestCommandTellsShardedChannels(t *testing.T) {
	sub, _ := pubSubPairs(t, "HELLO 2")
	for _, name := range []string{"ssubscribe", "sunsubscribe", "spublish", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "publish",
		"pubsub|shardchannels", "pubsub|shardnumsub", "pubsub|channels", "pubsub|numsub", "pubsub|numpat"} {
		sub.Same("COMMAND INFO " + name)
	}
	for _, line := range []string{"SSUBSCRIBE a b", "SUNSUBSCRIBE a", "SPUBLISH a m", "PUBLISH a m"} {
		sub.Same("COMMAND GETKEYS "+line, "COMMAND GETKEYSANDFLAGS "+line)
	}
}

// A subscriber of sharded channels is a subscriber to CLIENT and INFO.
func TestShardedSubscribersAreShown(t *testing.T) {
	_, addr := startServer(t, Config{})
	sub, c := dial(t, addr), dial(t, addr)
	sub.send("SSUBSCRIBE a b\r\n")
	require.Len(t, sub.reply(), 3)
	require.Len(t, sub.reply(), 3)
	require.Contains(t, c.call("CLIENT LIST TYPE pubsub"), " flags=P db=0 sub=0 psub=0 ssub=2 ")
	require.Contains(t, c.call("INFO stats"), "\r\npubsub_channels:0\r\npubsub_patterns:0\r\npubsubshard_channels:2\r\n")
	require.Contains(t, c.call("INFO clients"), "\r\npubsub_clients:1\r\n")
	sub.Close()
	eventually(t, "the channels to go with their subscriber", func() bool { return strings.Contains(c.call("INFO stats").(string), "pubsubshard_channels:0") })
}

// With redirect moved a follower sends commands on a sharded channel to the leader: a message
// reaches subscribers of one node only. With redirect forward, and for plain channels, each
// node answers for itself.
func TestShardedChannelsAreTheLeadersWithMoved(t *testing.T) {
	n := startNode(t, partition.Following, Config{})
	n.set(func(f *fakeCluster) { f.topology = threeNodes("n2") })
	c := dial(t, n.cluster)
	c.do("PUBLISH b x", ":0\r\n")
	const moved = "MOVED 15495 " // of a
	for _, line := range []string{"SSUBSCRIBE a", "SUNSUBSCRIBE a", "SPUBLISH a x"} {
		require.ErrorContains(t, c.call(line).(error), moved, line)
	}
	require.Equal(t, "OK", c.call("MULTI"))
	require.ErrorContains(t, c.call("SPUBLISH a x").(error), moved)
	require.ErrorContains(t, c.call("EXEC").(error), "EXECABORT")
	c.do("SUNSUBSCRIBE", "*3\r\n$12\r\nsunsubscribe\r\n$-1\r\n:0\r\n")
	c.do("PUBLISH a x", ":0\r\n")
	n.set(func(f *fakeCluster) { f.topology.Nodes[0].Leader = false })
	for _, line := range []string{"SSUBSCRIBE a", "SPUBLISH a x"} {
		require.EqualError(t, c.call(line).(error), errNoLeader, line)
	}
}

// go-redis ignores MOVED where it subscribes, and waits for messages on that connection for
// ever. So one that has only greeted is closed, and the client connects again.
func TestANewSubscriberElsewhereIsClosed(t *testing.T) {
	n := startNode(t, partition.Following, Config{})
	n.set(func(f *fakeCluster) { f.topology = threeNodes("n2") })
	for _, leads := range []bool{true, false} {
		n.set(func(f *fakeCluster) { f.topology.Nodes[0].Leader = leads })
		for _, greeting := range []string{"", "HELLO 2", "PING"} {
			c := dial(t, n.cluster)
			if greeting != "" {
				c.call(greeting)
			}
			require.Error(t, c.call("SSUBSCRIBE a").(error))
			c.expectClosed()
		}
	}
	// What others of the thread have sent does not matter, nor what go-redis asks for in vain.
	s, m := replicatedMachine(t, n.fakeCluster, Config{})
	m.moves = true
	other := newMachine(s)
	other.moves = true
	other.lane = m.lane
	other.w = m.w
	m.feed("HELLO 2\r\n")
	other.feed("PUBLISH b x\r\n")
	m.feed("CLIENT MAINT_NOTIFICATIONS ON\r\n")
	require.Contains(t, m.take(), "-ERR unknown subcommand")
	m.feed("SSUBSCRIBE a\r\n")
	require.Equal(t, "-"+errNoLeader+"\r\n", m.take())
	require.True(t, m.gone)

	for _, pipeline := range []string{"PUBLISH b x\r\nSSUBSCRIBE a\r\n", "SSUBSCRIBE a\r\nPUBLISH b x\r\n"} {
		c := dial(t, n.cluster)
		c.call("HELLO 2")
		c.send(pipeline)
		for range 2 {
			_, err := c.r.ReadString('\n')
			require.NoError(t, err)
		}
		c.do("PUBLISH a x", ":0\r\n")
	}
	c := dial(t, n.cluster)
	c.send("SSUBSCRIBE a\r\nPUBLI") // the rest is under way
	_, err := c.r.ReadString('\n')
	require.NoError(t, err)
	c.send("SH b x\r\n")
	c.expect(":0\r\n")
	c = dial(t, n.cluster)
	require.Error(t, c.call("SPUBLISH a x").(error))
	c.do("PUBLISH a x", ":0\r\n")
	require.Error(t, c.call("SSUBSCRIBE a").(error), "it was used before: it goes on")
	c.do("PUBLISH a x", ":0\r\n")
}

// While leadership is being handed over, sharded channels stay at the leader that hands over.
// A node that waits for the next leader, or was elected and does not lead yet, has none.
func TestShardedChannelsDuringAHandover(t *testing.T) {
	e := engine.New(engine.Config{})
	replica := e.Replicate(ledger.New(ledger.Hooks{}))
	f := newFakeCluster(partition.Handover)
	f.topology = threeNodes("n2")
	s, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
	m.moves = true
	m.feed("SSUBSCRIBE a\r\n")
	require.Contains(t, m.take(), "-MOVED 15495 ")
	require.True(t, m.gone)
	f.set(func(f *fakeCluster) { f.topology = threeNodes("n1") })
	elected := newMachine(s)
	elected.moves = true
	elected.feed("SSUBSCRIBE a\r\n")
	require.Equal(t, "-"+errNoLeader+"\r\n", elected.take())
	require.True(t, elected.gone)
	replica.Lead(e.Now())
	leaving := newMachine(s)
	leaving.moves = true
	leaving.feed("SSUBSCRIBE a\r\n")
	require.Contains(t, leaving.take(), "ssubscribe")
	require.False(t, leaving.gone)
}

// A subscriber that falls behind is closed. Until then it costs no more than its output
// buffer's limit, whether it does not read or its thread has no time for its messages.
func TestSlowSubscriber(t *testing.T) {
	const limit = 1 << 20
	message := "PUBLISH c " + strings.Repeat("x", 10_000) + "\r\n"
	for name, takes := range map[string]func(m *machine){
		"deaf": func(m *machine) { m.lane.runPosts() },
		"busy": func(*machine) {},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := testMachine(t, Config{OutputBufferSoft: 1 << 10, OutputBufferLimit: limit}, new(committer))
			publisher := newMachine(s)
			m.socket = 0
			m.feed("SUBSCRIBE c\r\n")
			most := 0
			for range 3 * limit / 10_000 {
				publisher.feed(message)
				takes(m)
				most = max(most, m.out.Len()+int(m.inbox.size.Load()))
			}
			m.lane.runPosts()
			require.True(t, m.gone)
			require.EqualValues(t, 1, s.Stats().OutputKills)
			require.Less(t, most, limit+deliverAhead+2*10_000)
			require.Greater(t, most, limit/2)
			publisher.take()
			publisher.feed("PUBLISH c x\r\n")
			require.Equal(t, ":0\r\n", publisher.take())
		})
	}
}

// The subscriptions of a client have the bound of its query buffer.
func TestSubscriptionsAreBounded(t *testing.T) {
	const limit = 256 << 10
	for _, subscribe := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"} {
		s, m := testMachine(t, Config{QueryBufferLimit: limit, MaxBulk: 64 << 10}, new(committer))
		one := func(i int) { m.feed(encode(subscribe, fmt.Sprintf("%0872d", i))) }
		fit := limit / (872 + 128) // what a channel takes
		n := 0
		for ; !m.gone && n <= fit; n++ {
			one(0) // nothing new
			one(n)
		}
		require.True(t, m.gone)
		require.Greater(t, n, fit/4) // a pattern takes more than its text
		require.EqualValues(t, 1, s.Stats().QueryBufferKills)
		require.Zero(t, s.pubsub.Count(pubsub.Channels)+s.pubsub.Count(pubsub.Patterns)+s.pubsub.Count(pubsub.Shards))
	}
}

// However many names a client subscribes to, in one call or in many, its thread is not held up.
// Half a million took a second, and another second at the end.
func TestSubscriptionsAreFew(t *testing.T) {
	s, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	for _, command := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
		"PUBSUB NUMSUB", "PUBSUB SHARDNUMSUB"} {
		require.ErrorContains(t, c.call(command+manyChannels(1025)).(error), "ERR at most 1024 names in one call", command)
	}
	require.Zero(t, s.pubsub.Count(pubsub.Channels)+s.pubsub.Count(pubsub.Patterns))
	confirmations := func(n int) {
		for range n {
			require.Len(t, c.reply(), 3)
		}
	}
	const maxSubscriptions = 4096
	for from := 0; from < maxSubscriptions; from += 1024 {
		names := ""
		for i := range 1024 {
			names += fmt.Sprintf(" n%d", from+i)
		}
		c.send("SUBSCRIBE" + names + "\r\n")
		confirmations(1024)
	}
	require.EqualError(t, c.call("PSUBSCRIBE one*").(error), "ERR at most 4096 channels and patterns on one connection")
	c.send("SUBSCRIBE n1 n2\r\n") // nothing new
	confirmations(2)
	require.Equal(t, maxSubscriptions, s.pubsub.Count(pubsub.Channels))
	other.do("PUBLISH n7 x", ":1\r\n")
	c.expect("*3\r\n$7\r\nmessage\r\n$2\r\nn7\r\n$1\r\nx\r\n")
	c.Close()
	eventually(t, "the channels to go with their subscriber", func() bool { return s.pubsub.Count(pubsub.Channels) == 0 })
}
