package pubsub_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
)

// A message reaches the subscribers of its channel or of a pattern that matches it, and no
// others. All share one copy, which is freed with the last.
func TestMessagesReachSubscribers(t *testing.T) {
	r := newRig(t)
	a, b, s, publisher := r.dial(), r.dial(), r.dial(), r.dial()
	a.do("SUBSCRIBE news")
	b.do("PSUBSCRIBE n* x*")
	s.do("SSUBSCRIBE news")
	text := strings.Repeat("x", 1000)
	require.Equal(t, ":2\r\n", publisher.do("PUBLISH news "+text))
	require.Less(t, r.account.Total(), int64(2000), "two copies")
	require.Positive(t, r.account.Total())
	require.Equal(t, []string{push("message", "news", text)}, a.take())
	require.Positive(t, r.account.Total(), "the other has not let go of it")
	require.Equal(t, []string{push("pmessage", "n*", "news", text)}, b.take())
	require.Zero(t, r.account.Total())
	require.Empty(t, s.take())
	require.Equal(t, ":1\r\n", publisher.do("SPUBLISH news y"))
	require.Equal(t, []string{push("smessage", "news", "y")}, s.take())
	require.Equal(t, ":0\r\n", publisher.do("PUBLISH other x"))

	require.Equal(t, 2, r.hub.Receivers(pubsub.Channels, "news"))
	r.hub.PublishTo("news", []byte("z"))
	require.Equal(t, []string{push("message", "news", "z")}, a.take())
	require.Empty(t, b.take(), "a pattern was meant for other channels")
	require.Contains(t, publisher.do("PUBLISH own x"), "-ERR only the server publishes events")
}

// An ended subscription leaves nothing, however it ends.
func TestEndedSubscriptions(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for _, end := range []func(){
		func() { c.do("UNSUBSCRIBE"); c.do("PUNSUBSCRIBE a*"); c.do("SUNSUBSCRIBE c") },
		func() { c.sub.End() },
	} {
		c.do("SUBSCRIBE a b")
		c.do("PSUBSCRIBE a*")
		c.do("SSUBSCRIBE c")
		require.Equal(t, [pubsub.Kinds]int{2, 1, 1}, c.sub.Shown().Subscriptions)
		require.True(t, c.sub.Listens())
		require.Positive(t, c.sub.Size())
		changed := c.changed
		end()
		require.Greater(t, c.changed, changed)
		require.False(t, c.sub.Subscribed())
		require.False(t, c.sub.Shown().Subscribed())
		require.Zero(t, c.sub.Size())
		for k := range pubsub.Kinds {
			require.Zero(t, r.hub.Count(k))
		}
	}
	require.Equal(t, ":0\r\n", c.do("PUBLISH a x"))
}

// A connection has a bound of subscriptions. With one that is refused none begins.
func TestSubscriptionsOfAConnectionAreBounded(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	most := 4096
	for from := 0; from < most; from += 1024 {
		args := []string{"SUBSCRIBE"}
		for i := range 1024 {
			args = append(args, fmt.Sprint(from+i))
		}
		c.run(args...)
	}
	require.Equal(t, most, r.hub.Count(pubsub.Channels))
	require.Equal(t, "-ERR at most 4096 channels and patterns on one connection\r\n", c.do("PSUBSCRIBE one*"))
	require.NotContains(t, c.do("SUBSCRIBE 0 1"), "-ERR", "nothing new")
	require.Equal(t, "-ERR at most 4096 channels and patterns on one connection\r\n", c.do("SUBSCRIBE 0 new"))
	require.Equal(t, most, r.hub.Count(pubsub.Channels))
	require.Contains(t, r.dial().do("SUBSCRIBE a "+strings.Repeat("x", 1025)), "-ERR channel is longer than 1024 bytes")
	require.Zero(t, r.hub.Subscribers(pubsub.Channels, "a"))
}

// A worker sends what is compared with many patterns or has many subscribers, and a
// loop the rest.
func TestWideMessagesAreSentAside(t *testing.T) {
	r := newRig(t)
	publisher := r.dial()
	for range 256 {
		r.dial().do("SUBSCRIBE few many")
	}
	r.dial().do("SUBSCRIBE many")
	publisher.do("PUBLISH few x")
	require.Zero(t, publisher.blocked)
	publisher.do("PUBLISH many x")
	require.Equal(t, 1, publisher.blocked)
	require.Equal(t, []string{":257\r\n"}, publisher.take())
	c := r.dial()
	for i := range 200 {
		c.do(fmt.Sprintf("PSUBSCRIBE %d*%sb*", i, strings.Repeat("?", 900)))
	}
	publisher.do("PUBLISH few x")
	require.Equal(t, 2, publisher.blocked)
	c.sub.End()
	publisher.do("PUBLISH few x")
	require.Equal(t, 2, publisher.blocked, "the patterns are forgotten")
}

// If there is no room for a message, its publisher gets an error. A line of MONITOR has no
// publisher, so the watcher is closed.
func TestMessagesWithoutRoom(t *testing.T) {
	r := newRig(t)
	c, watcher := r.dial(), r.dial()
	c.do("SUBSCRIBE a")
	watcher.do("MONITOR")
	r.bound = 1000
	require.Equal(t, "-ERR "+memory.ErrFull.Error()+"\r\n", c.do("PUBLISH a "+strings.Repeat("x", 2000)))
	require.Empty(t, c.take())
	require.False(t, c.lost)
	args := [][]byte{[]byte("GET"), []byte(strings.Repeat("x", 2000))}
	r.hub.Feed("1.2.3.4:5", 0, r.table.Find(args), args)
	require.True(t, watcher.lost)
	require.Zero(t, r.account.Total())
}

// MONITOR shows a command with its database and its client.
func TestCommandsAreShown(t *testing.T) {
	r := newRig(t)
	watcher, c := r.dial(), r.dial()
	args := [][]byte{[]byte("GET"), []byte("a\"\x00")}
	r.hub.Feed("1.2.3.4:5", 3, r.table.Find(args), args)
	watcher.do("MONITOR")
	require.True(t, r.watched)
	require.True(t, r.hub.Watched())
	require.True(t, watcher.sub.Shown().Monitoring)
	r.hub.Feed("1.2.3.4:5", 3, r.table.Find(args), args)
	lines := watcher.take()
	require.Len(t, lines, 1, "what came before is not shown")
	require.Zero(t, r.account.Total())
	require.Regexp(t, `^\+\d+\.\d{6} \[3 1\.2\.3\.4:5\] "GET" "a\\"\\x00"\r\n$`, lines[0])
	require.Empty(t, c.take())
	watcher.sub.End()
	require.False(t, r.watched)
	require.False(t, r.hub.Watched())
}

// With BCAST a connection hears of keys with its prefixes that others read.
func TestBroadcastsOfOthersReads(t *testing.T) {
	r := newRig(t)
	c, other := r.dial(), r.dial()
	invalidate := func(key string) string {
		return ">2\r\n$10\r\ninvalidate\r\n*1\r\n" + fmt.Sprintf("$%d\r\n%s\r\n", len(key), key)
	}
	c.do("TRACK x on BCAST PREFIX user:")
	require.True(t, r.tracked)
	require.True(t, c.sub.Shown().Tracking())
	other.do("GET user:1")
	other.do("GET post:1")
	require.Equal(t, []string{invalidate("user:1")}, c.take())
	require.Empty(t, other.take())
	c.do("TRACK x off")
	require.False(t, r.tracked)
	other.do("GET user:1")
	require.Empty(t, c.take())
	other.do("TRACK x on REDIRECT 1")
	require.EqualValues(t, 1, other.sub.Shown().Redirected())
	other.do("GET user:1")
	require.Equal(t, []string{invalidate("user:1")}, c.take())
	delete(r.clients, 1)
	other.do("GET user:1")
	require.Equal(t, []string{">2\r\n$21\r\ntracking-redir-broken\r\n:1\r\n"}, other.take())
}

// While a message is compared with many hostile patterns, others subscribe: the
// lock of the subscriptions is not held meanwhile.
func TestMatchingHoldsNoLock(t *testing.T) {
	r := newRig(t)
	c, other := r.dial(), r.dial()
	for i := range 1024 {
		c.do(fmt.Sprintf("PSUBSCRIBE *%sb%d*", strings.Repeat("?", 900), i))
	}
	channel := strings.Repeat("a", 1024)
	var total, worst time.Duration
	for range 5 { // on a busy machine the other one may wait for a processor, but not each time
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			for range 3 {
				_, _ = r.hub.Publish(pubsub.Channels, channel, nil)
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
			other.do("SUBSCRIBE a")
			other.do("UNSUBSCRIBE a")
			worst = max(worst, time.Since(since))
		}
		if total = time.Since(began); worst < total/4 {
			break
		}
	}
	require.Less(t, worst, total/4)
}

// Publishers, subscribers and readers are on threads of their own.
func TestSubscribersAreConcurrent(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	for range 4 {
		c := r.dial()
		wg.Go(func() {
			for range 200 {
				c.do("SUBSCRIBE a b")
				c.do("PSUBSCRIBE a*")
				c.do("MONITOR")
				c.do("TRACK x on BCAST")
				_, _ = r.hub.Publish(pubsub.Channels, "a", []byte("x"))
				c.do("UNSUBSCRIBE a")
				c.sub.End()
				c.take()
			}
		})
		wg.Go(func() {
			args := [][]byte{[]byte("GET"), []byte("k")}
			for range 200 {
				_ = c.sub.Shown().Subscribed()
				r.hub.Feed("x", 0, r.table.Find(args), args)
				r.hub.Receivers(pubsub.Channels, "a")
			}
		})
	}
	wg.Wait()
	for _, c := range r.clients {
		c.take()
	}
	require.Zero(t, r.account.Total())
	require.False(t, r.hub.Watched())
}
