package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	eventually(t, "the pattern to go with its subscriber", func() bool { return s.pubsub.patternCount() == 0 })
}

// A subscriber that falls behind is closed, and costs no more than its output
// buffer's limit until then: one that does not read, and one whose thread has no
// time to take its messages.
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

// What a client is subscribed to is bounded as its query buffer is.
func TestSubscriptionsAreBounded(t *testing.T) {
	const limit = 256 << 10
	for _, subscribe := range []string{"SUBSCRIBE", "PSUBSCRIBE"} {
		s, m := testMachine(t, Config{QueryBufferLimit: limit, MaxBulk: 64 << 10}, new(committer))
		one := func(i int) { m.feed(encode(subscribe, fmt.Sprintf("%0872d", i))) }
		fit := limit / subscriptionSize(fmt.Sprintf("%0872d", 0), nil)
		n := 0
		for ; !m.gone && n <= fit; n++ {
			one(0) // nothing new
			one(n)
		}
		require.True(t, m.gone)
		require.Greater(t, n, fit/4) // a pattern takes more than its text
		require.EqualValues(t, 1, s.Stats().QueryBufferKills)
		require.Zero(t, s.pubsub.channelCount()+s.pubsub.patternCount())
	}
}

// However many names a client subscribes to, in one call or in many, its thread
// is not held up: half a million took a second, and as much again at the end.
func TestSubscriptionsAreFew(t *testing.T) {
	s, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	for _, command := range []string{"SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "PUBSUB NUMSUB"} {
		require.ErrorContains(t, c.call(command+manyChannels(1025)).(error), "ERR at most 1024 names in one call", command)
	}
	require.Zero(t, s.pubsub.channelCount()+s.pubsub.patternCount())
	confirmations := func(n int) {
		for range n {
			require.Len(t, c.reply(), 3)
		}
	}
	for from := 0; from < maxSubscriptions; from += 1024 {
		names := ""
		for i := range 1024 {
			names += fmt.Sprintf(" n%d", from+i)
		}
		c.send("SUBSCRIBE" + names + "\r\n")
		confirmations(1024)
	}
	require.EqualError(t, c.call("PSUBSCRIBE one*").(error), errSubscriptions)
	c.send("SUBSCRIBE n1 n2\r\n") // nothing new
	confirmations(2)
	require.Equal(t, maxSubscriptions, s.pubsub.channelCount())
	other.do("PUBLISH n7 x", ":1\r\n")
	c.expect("*3\r\n$7\r\nmessage\r\n$2\r\nn7\r\n$1\r\nx\r\n")
	c.Close()
	eventually(t, "the channels to go with their subscriber", func() bool { return s.pubsub.channelCount() == 0 })
}

// While a message is compared with many hostile patterns, others subscribe: the
// lock of the subscriptions is not held meanwhile.
func TestMatchingHoldsNoLock(t *testing.T) {
	s, m := testMachine(t, Config{}, new(committer))
	other := newMachine(s)
	for i := range 1024 {
		m.feed(encode("PSUBSCRIBE", fmt.Sprintf("*%sb%d*", strings.Repeat("?", 900), i)))
	}
	channel := strings.Repeat("a", maxChannel)
	var total, worst time.Duration
	for range 5 { // on a busy machine the other one may wait for a processor, but not each time
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			for range 3 {
				_, _ = s.pubsub.publish(channel, nil)
			}
		}()
		worst = 0
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			since := time.Now()
			other.feed("SUBSCRIBE a\r\nUNSUBSCRIBE a\r\n")
			worst = max(worst, time.Since(since))
		}
		if total = time.Since(began); worst < total/4 {
			break
		}
	}
	require.Less(t, worst, total/4)
}
