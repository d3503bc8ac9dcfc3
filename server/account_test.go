package server

import (
	"io"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
)

const mib = 1 << 20

// eval is an EVAL of a script with arguments and without keys.
func eval(script string, args ...string) string {
	return encode(append([]string{"EVAL", script, "0"}, args...)...)
}

// ends reads until the server has closed the connection or answers an error, and
// returns that.
func (c *client) ends() string {
	c.t.Helper()
	require.NoError(c.t, c.SetDeadline(time.Now().Add(3*patience)))
	first, err := c.r.Peek(1)
	switch {
	case err != nil:
		return "closed"
	case first[0] == '-':
		line, _ := c.r.ReadString('\n')
		return line
	}
	n, err := io.Copy(io.Discard, c.r)
	require.Less(c.t, n, int64(32*mib), err)
	return "closed"
}

// loaded returns a server whose clients may take most bytes, with a value of 1 MiB
// and a hash of so much.
func loaded(t *testing.T, most int64) (*Server, string) {
	s, addr := startServer(t, Config{Runtime: Runtime{ClientMemory: most}})
	c := dial(t, addr)
	c.send(encode("SET", "k", strings.Repeat("v", mib)))
	require.Equal(t, "OK", c.reply())
	hash := []string{"HSET", "h"}
	for i := range 1000 {
		hash = append(hash, strings.Repeat("f", 500)+string(rune('a'+i%26))+strings.Repeat("g", i/26), strings.Repeat("v", 500))
	}
	c.send(encode(hash...))
	require.Equal(t, int64(1000), c.reply())
	return s, addr
}

// A reply finds room in the account while it is written: whatever makes it.
func TestRepliesAreAccountedWhileTheyAreWritten(t *testing.T) {
	const bound, times = 8 * mib, 200
	s, addr := loaded(t, bound)
	other := dial(t, addr)
	for name, send := range map[string]string{
		"MGET":                encode(append([]string{"MGET"}, strings.Split(strings.Repeat("k ", times), " ")...)...),
		"GET in EXEC":         "MULTI\r\n" + strings.Repeat("GET k\r\n", times) + "EXEC\r\nQUIT\r\n",
		"HGETALL in EXEC":     "MULTI\r\n" + strings.Repeat("HGETALL h\r\n", times) + "EXEC\r\nQUIT\r\n",
		"a script's":          eval("local s = redis.call('get', 'k') local t = {} for i = 1, 200 do t[i] = s end return t"),
		"a script's in EXEC":  "MULTI\r\n" + eval("local s = redis.call('get', 'k') local t = {} for i = 1, 200 do t[i] = s end return t") + "EXEC\r\nQUIT\r\n",
		"a script's, small":   eval("local m = {} for i = 1, 1000 do m[i] = 'v' end for d = 1, 2 do local o = {} for i = 1, 200 do o[i] = m end m = o end return m"),
		"a command's in it":   eval("local t = {} for i = 1, 200 do t[i] = 'k' end return #redis.call('mget', unpack(t))"),
		"an error of it":      eval("local t = {} for i = 1, 200 do t[i] = {err = redis.call('get', 'k')} end return t"),
		"a status of it":      eval("local t = {} for i = 1, 200 do t[i] = {ok = redis.call('get', 'k')} end return t"),
		"a big number of it":  "HELLO 3\r\n" + eval("local t = {} for i = 1, 200 do t[i] = {big_number = redis.call('get', 'k')} end return t"),
		"a verbatim of it":    eval("local t = {} for i = 1, 200 do t[i] = {verbatim_string = {format = 'txt', string = redis.call('get', 'k')}} end return t"),
		"a script's on its k": encode("EVAL", "local s = redis.call('get', KEYS[1]) local t = {} for i = 1, 200 do t[i] = s end return t", "1", "k"),
	} {
		c := dial(t, addr)
		before, most := allocatedBytes(), int64(0)
		stop := sampled(func() { most = max(most, s.memory.Total()) })
		c.send(send)
		if strings.HasPrefix(send, "HELLO") {
			_ = c.reply()
		}
		for first, _ := c.r.Peek(1); string(first) == "+"; first, _ = c.r.Peek(1) {
			_, _ = c.r.ReadString('\n') // OK and QUEUED
		}
		_ = c.ends()
		stop()
		c.Close()
		require.Less(t, allocatedBytes()-before, uint64(120*mib), name)
		require.LessOrEqual(t, most, int64(2*bound), name)
		other.do("PING", "+PONG\r\n")
		eventually(t, "all to be given back: "+name, func() bool { return s.memory.Total() < memoryStep })
	}
}

// sampled calls fn again and again until the function that it returns is called.
func sampled(fn func()) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for memory.Rests(end, time.Millisecond) {
			fn()
		}
	}()
	return func() { close(end); <-done }
}

// The memory of scripts is accounted while they run. The script that has most is ended with an
// error; others continue.
func TestScriptsAreAccounted(t *testing.T) {
	const bound = 8 * mib
	s, addr := loaded(t, bound)
	other := dial(t, addr)
	other.send("MULTI\r\n" + encode("ECHO", strings.Repeat("x", mib)))
	other.expect("+OK\r\n+QUEUED\r\n")
	for name, script := range map[string]string{
		"values":   "local t = {} for i = 1, 1e9 do t[i] = {i} end",
		"strings":  "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1000) .. i end",
		"one":      "return #string.rep('x', 30000000)",
		"copies":   "local s = string.rep('x', 1000000) for i = 1, 50 do redis.call('set', 'c' .. i, s) end while true do end",
		"messages": "local s = string.rep('x', 1000000) for i = 1, 15 do redis.call('publish', 'c', s) end while true do end",
	} {
		subscriber, c := dial(t, addr), dial(t, addr)
		subscriber.do("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
		c.send(eval(script))
		require.Contains(t, c.ends(), "ERR "+memory.ErrFull.Error()+" script: ", name)
		other.do("PING", "+QUEUED\r\n")
		c.do("PING", "+PONG\r\n")
		subscriber.do("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n")
		subscriber.Close()
		eventually(t, "all to be given back: "+name, func() bool { return s.memory.Total() < 2*mib })
	}
	other.send("DISCARD\r\n")
	eventually(t, "all to be given back", func() bool { return s.memory.Total() < memoryStep })
	require.Zero(t, s.Stats().MemoryKills)
}

// Of several jobs the one that has most is ended, whichever asks for more. Other memory of its
// client is left alone.
func TestTheJobThatHasMostIsEnded(t *testing.T) {
	const bound = 16 * mib
	s, addr := startServer(t, Config{Runtime: Runtime{ClientMemory: bound}})
	large, small := dial(t, addr), dial(t, addr)
	large.send(eval("local s = string.rep('x', 9000000) while true do s = s end"))
	eventually(t, "it to hold much", func() bool { return s.memory.Total() > bound/2 })
	small.send("MULTI\r\n" + encode("ECHO", strings.Repeat("x", 4*mib)))
	small.expect("+OK\r\n+QUEUED\r\n")
	require.Contains(t, large.ends(), memory.ErrFull.Error())
	small.send("EXEC\r\n")
	require.Len(t, small.reply().([]any)[0], 4*mib)
	large.do("PING", "+PONG\r\n")
	require.Zero(t, s.Stats().MemoryKills)
}

// deaf returns subscribers of the channel c that do not read.
func deaf(t *testing.T, addr string, n int) (all []*client) {
	for range n {
		c := dial(t, addr)
		c.do("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
		all = append(all, c)
	}
	return all
}

// Subscribers that do not read share one copy of each message, and get all of them,
// in order, once they read.
func TestSubscribersShareMessages(t *testing.T) {
	const subscribers, messages = 8, 16
	s, addr := startServer(t, Config{})
	all := deaf(t, addr, subscribers)
	publisher := dial(t, addr)
	message := strings.Repeat("x", mib)
	most := int64(0)
	stop := sampled(func() { most = max(most, s.memory.Total()) })
	for i := range messages {
		publisher.send(encode("PUBLISH", "c", string(rune('a'+i))+message))
		require.Equal(t, int64(subscribers), publisher.reply())
	}
	stop()
	require.Less(t, most, int64(messages+1)*(mib+1000)+subscribers*4*deliverTurn)
	eventually(t, "they to be shared still", func() bool { return s.memory.Total() > 10*mib })
	for _, c := range all {
		c.send("PING\r\n")
	}
	for _, c := range all {
		for i := range messages {
			m := c.reply().([]any)
			require.Equal(t, "c", m[1])
			require.Equal(t, string(rune('a'+i)), m[2].(string)[:1])
			require.Len(t, m[2], mib+1)
		}
		require.Equal(t, []any{"pong", ""}, c.reply(), "commands keep their place")
	}
	eventually(t, "all to be given back", func() bool { return s.memory.Total() < memoryStep })
}

// Subscribers that do not read are closed when their messages pass the bound. Publishers, and
// subscribers that read, continue.
func TestMessagesAreAccounted(t *testing.T) {
	const bound, messages = 8 * mib, 60
	s, addr := startServer(t, Config{Runtime: Runtime{ClientMemory: bound}})
	deaf(t, addr, 10)
	publisher, reader := dial(t, addr), dial(t, addr)
	reader.do("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	most := int64(0)
	stop := sampled(func() { most = max(most, s.memory.Total()) })
	got, message := 0, encode("PUBLISH", "c", strings.Repeat("x", mib))
	for range messages {
		publisher.send(message)
		if receivers, ok := publisher.reply().(int64); ok {
			require.Positive(t, receivers)
			got++
			require.Len(t, reader.reply().([]any)[2], mib)
		}
	}
	stop()
	require.Greater(t, got, messages/2)
	require.LessOrEqual(t, most, int64(2*bound))
	require.Positive(t, s.Stats().MemoryKills)
	eventually(t, "all to be given back", func() bool { return s.memory.Total() < mib })
}

// A script publishes no more than one argument may have; what nobody gets is not
// kept at all.
func TestMessagesOfAScriptAreBounded(t *testing.T) {
	s, addr := startServer(t, Config{MaxBulk: 2 * mib})
	c, subscriber := dial(t, addr), dial(t, addr)
	script := eval("local n = 0 for i = 1, 1000 do n = n + redis.call('publish', 'c', ARGV[1]) end return n", strings.Repeat("x", mib))
	before := allocatedBytes()
	c.send(script)
	require.Equal(t, int64(0), c.reply())
	require.Less(t, allocatedBytes()-before, uint64(100*mib))
	subscriber.do("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	c.send(script)
	require.ErrorContains(t, c.reply().(error), "ERR the messages of one script together exceed proto-max-bulk-len")
	c.send(eval("redis.call('publish', 'c', ARGV[1]) redis.pcall('publish', 'c', ARGV[1]) return 'kept'", strings.Repeat("x", 3*mib/2)))
	require.Equal(t, "kept", c.reply())
	for range 1 + 1 { // an error of the script keeps what it has done
		require.GreaterOrEqual(t, len(subscriber.reply().([]any)[2].(string)), mib)
	}
	eventually(t, "all to be given back", func() bool { return s.memory.Total() < memoryStep })
}

// Messages are written in turns, and only while the socket takes them. Commands
// that come meanwhile are answered after them.
func TestMessagesAreWrittenInTurns(t *testing.T) {
	const size, messages = 300_000, 3
	s, m := testMachine(t, Config{}, new(committer))
	m.feed("HELLO 3\r\nSUBSCRIBE c\r\n")
	m.take()
	want := ""
	for i := range messages {
		text := strings.Repeat(string(rune('a'+i)), size)
		receivers, err := s.pubsub.Publish(pubsub.Channels, "c", []byte(text))
		require.NoError(t, err)
		require.Equal(t, 1, receivers)
		want += ">3\r\n" + bulk("message") + bulk("c") + bulk(text)
	}
	got := ""
	for turns := 0; len(got) < len(want); turns++ {
		require.Less(t, turns, 2*messages*size/deliverTurn)
		m.lane.runPosts()
		require.LessOrEqual(t, m.out.Len(), deliverTurn+1000)
		if turns == 0 {
			m.feed("PING\r\n")
		}
		if turns == 1 {
			m.socket = 0
			m.lane.runPosts()
			waits := m.out.Len()
			m.lane.runPosts()
			require.Equal(t, waits, m.out.Len(), "the socket takes no more")
			m.socket = 1 << 30
			m.lane.begin()
			m.settle()
			m.lane.end()
		}
		got += m.take()
	}
	require.Equal(t, want+"+PONG\r\n", got)
	require.EqualValues(t, 0, s.memory.Total())
}

// A message of another thread never comes between the parts of a message, nor into a reply: not
// while a worker has a command of the subscriber.
func TestMessagesAndRepliesOfWorkers(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, publisher := dial(t, addr), dial(t, addr)
	c.send("HELLO 3\r\nSUBSCRIBE c\r\n")
	_, _ = c.reply(), c.reply()
	large := strings.Repeat("m", 5*deliverTurn)
	for range 20 {
		c.send("test.work " + strings.Repeat("w", 100) + "\r\n")
		publisher.send(encode("PUBLISH", "c", large))
		require.Equal(t, int64(1), publisher.reply())
		for range 2 {
			switch r := c.reply().(type) {
			case string:
				require.Equal(t, strings.Repeat("w", 100), r)
			case []any:
				require.Equal(t, []any{"message", "c", large}, r)
			}
		}
	}
}

// The account has nothing left of dropped work.
func TestDroppedWorkIsGivenBack(t *testing.T) {
	s, addr := loaded(t, 0)
	publisher := dial(t, addr)
	for _, send := range []string{
		eval("local t = {} for i = 1, 1e9 do t[i] = i end"),
		eval("local s = string.rep('x', 1000000) local t = {} for i = 1, 100 do t[i] = s end return t"),
		encode(append([]string{"MGET"}, strings.Split(strings.Repeat("k ", 20), " ")...)...),
		"MULTI\r\nGET k\r\nGET k\r\n",
		"SUBSCRIBE c\r\n",
		"MONITOR\r\n",
		"*2\r\n$4\r\nECHO\r\n$4000000\r\n" + strings.Repeat("x", mib),
	} {
		c := dial(t, addr)
		c.send(send)
		publisher.send(encode("PUBLISH", "c", strings.Repeat("x", 10*mib)))
		_ = publisher.reply()
		c.Close()
		eventually(t, "it to end", func() bool { return s.scripts.Slow() == 0 || s.scripts.Kill() && false })
		eventually(t, "all to be given back: "+send[:9], func() bool { return s.memory.Total() < memoryStep })
		s.memory.mu.Lock()
		require.Empty(t, s.memory.jobs)
		s.memory.mu.Unlock()
	}
}

// A reply of the leader that finds no room becomes an error, which says that the command was
// executed.
func TestRepliesOfTheLeaderAreAccounted(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, Config{ForwardTimeout: patience, Runtime: Runtime{ClientMemory: 4 * mib}})
	c := dial(t, leader.addr)
	c.send(encode("SET", "k", strings.Repeat("v", mib)))
	require.Equal(t, "OK", c.reply())
	c = dial(t, follower.addr)
	require.Len(t, c.call("GET k"), mib)
	require.ErrorContains(t, c.call("MGET"+strings.Repeat(" k", 20)).(error), "ERR the command was executed, and its reply found no room")
	require.Len(t, c.call("GET k"), mib)
	eventually(t, "all to be given back", func() bool { return follower.memory.Total() < memoryStep })
}

// A client that fills half a command piece by piece does not pass twice the bound
// for a moment, and is closed.
func TestHalfCommandsGrowWithinTheBound(t *testing.T) {
	const bound = 4 * mib
	s, addr := startServer(t, Config{Runtime: Runtime{ClientMemory: bound}})
	var most atomic.Int64
	stop := sampled(func() { most.Store(max(most.Load(), s.memory.Total())) })
	defer stop()
	c := dial(t, addr)
	_, _ = io.WriteString(c, "*2\r\n$4\r\nECHO\r\n$16000000\r\n")
	_, _ = io.WriteString(c, strings.Repeat("x", 15*mib))
	c.expectClosed()
	require.LessOrEqual(t, most.Load(), int64(2*bound))
	require.EqualValues(t, 1, s.Stats().MemoryKills)
}

// BenchmarkPublish is what a message takes with one subscriber.
func BenchmarkPublish(b *testing.B) {
	s := newTestServer(b, Config{}, func() uint64 { return 1 })
	m := newMachine(s)
	m.feed("SUBSCRIBE c\r\n")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.pubsub.Publish(pubsub.Channels, "c", []byte("message"))
		m.lane.runPosts()
		m.out.Reset()
	}
}

// Other fronts are in the account. They close nobody, and find no room beyond the
// bound.
func TestOtherFrontsAreInTheAccount(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{ClientMemory: 4 * mib}})
	c := dial(t, addr)
	c.send("MULTI\r\n" + encode("ECHO", strings.Repeat("x", mib)))
	c.expect("+OK\r\n+QUEUED\r\n")
	require.True(t, s.TakeMemory(2*mib))
	require.False(t, s.TakeMemory(2*mib))
	require.True(t, s.TakeMemory(mib/2))
	require.True(t, s.TakeMemory(-2*mib))
	require.True(t, s.TakeMemory(2*mib))
	require.True(t, s.TakeMemory(-5*mib/2))
	c.send("EXEC\r\n")
	require.Len(t, c.reply(), 1)
	eventually(t, "all to be given back", func() bool { return s.memory.Total() < memoryStep })
	require.Zero(t, s.Stats().MemoryKills)
}

// Memory goes back to the system soon after clients have given it back.
func TestMemoryOfClientsGoesBackToTheSystem(t *testing.T) {
	debug.FreeOSMemory() // what other tests have left
	_, addr := startServer(t, Config{})
	before := memory.Mapped()
	half := "*2\r\n$4\r\nECHO\r\n$16000000\r\n" + strings.Repeat("x", 10*mib)
	var all []*client
	for range 20 {
		c := dial(t, addr)
		c.send(half)
		all = append(all, c)
	}
	require.Eventually(t, func() bool { return memory.Mapped() > before+2*memory.ScavengeFrom }, patience, time.Millisecond, "the test is of no use")
	for _, c := range all {
		c.Close()
	}
	require.Eventually(t, func() bool { return memory.Mapped() < before+memory.ScavengeFrom }, 4*patience, 10*time.Millisecond)
}
