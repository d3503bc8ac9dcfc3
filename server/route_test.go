package server

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/server/command"
)

// twoPartitions is a connection to a server whose slots are of two partitions,
// each half of them. Keys low… are of the first, keys high… of the second.
func twoPartitions(t *testing.T, first, second *fakeCluster, onFailure partition.OnFailure) (*Server, *machine) {
	cfg := Config{OnFailure: onFailure, ForwardTimeout: patience, HandoverWait: patience}
	for i, f := range []*fakeCluster{first, second} {
		clock, _ := engine.NewManualClock(rigStart + int64(i))
		cfg.Parts = append(cfg.Parts, Part{engine.New(engine.Config{Clock: clock}), f})
	}
	return testMachine(t, cfg, new(committer))
}

// low and high are keys with a tag of a slot of their half.
var low, high = keyIn(0), keyIn(1)

func keyIn(half uint16) string {
	for i := 0; ; i++ {
		key := fmt.Sprintf("{%d}", i)
		if keySlot([]byte(key))/(clusterSlots/2) == half {
			return key
		}
	}
}

func TestRepliesOfTwoPartitionsKeepTheOrderOfCommands(t *testing.T) {
	first, second := newFakeCluster(partition.Leading), newFakeCluster(partition.Leading)
	first.durable, second.durable = true, true
	second.ticket.Store(7)
	s, m := twoPartitions(t, first, second, partition.FailClosed)
	m.feed("INCREX " + low + "\r\nINCREX " + high + "\r\nPING\r\nINCREX " + low + "\r\n")
	require.EqualValues(t, 1, first.awaits.Load())
	require.EqualValues(t, 1, second.awaits.Load())
	require.Equal(t, 1, s.parts[0].Engine().Len())
	require.Equal(t, 1, s.parts[1].Engine().Len())
	s.parts[1].Release(7, nil)
	m.lane.runPosts()
	require.Empty(t, m.take(), "the first reply waits")
	s.parts[0].Release(1, nil)
	m.lane.runPosts()
	require.Equal(t, "*2\r\n:1\r\n:1\r\n*2\r\n:1\r\n:1\r\n+PONG\r\n*2\r\n:2\r\n:1\r\n", m.take())
}

// A batch looks at the partitions that it uses, and at the first one.
func TestBatchesBeginPartitionsWhenUsed(t *testing.T) {
	second := newFakeCluster(partition.Leading)
	_, m := twoPartitions(t, newFakeCluster(partition.Leading), second, partition.FailClosed)
	m.feed("INCREX " + low + "\r\n")
	require.Nil(t, m.lane.portions[1].sess)
	require.Equal(t, []uint16{0}, m.lane.begun)
	m.feed("INCREX " + high + "\r\nINCREX " + low + "\r\nINCREX " + high + "\r\n")
	require.Equal(t, []uint16{0, 1}, m.lane.begun)
	second.become(partition.Orphaned)
	m.take()
	m.feed("INCREX " + low + "\r\nINCREX " + high + "\r\n")
	require.Equal(t, "*2\r\n:3\r\n:1\r\n-"+errNoLeader+"\r\n", m.take(), "a batch reads the role anew")
}

// A commit wakes the threads that have replies of its partition, and no others.
func TestCommitsWakeThoseWhoWaitForThem(t *testing.T) {
	first, second := newFakeCluster(partition.Leading), newFakeCluster(partition.Leading)
	first.durable, second.durable = true, true
	s, m := twoPartitions(t, first, second, partition.FailClosed)
	posted := func(of int, want bool) {
		t.Helper()
		s.parts[of].Release(s.parts[of].Ticket(), nil)
		require.Equal(t, want, len(m.lane.posts) > 0)
		m.lane.runPosts()
		s.parts[of].Replication.(*fakeCluster).ticket.Add(1)
	}
	posted(0, false)
	m.feed("INCREX " + high + "\r\nINCREX " + low + "\r\nPING\r\n")
	posted(0, true)
	require.Empty(t, m.take())
	posted(1, true)
	require.NotEmpty(t, m.take())
	posted(0, false)
	posted(1, false)
	m.feed("INCREX " + high + "\r\n")
	posted(0, false)
	m.kill()
	m.release()
	posted(1, false)
}

// A partition that fails its tickets fails no other one's.
func TestTicketsBelongToTheirPartition(t *testing.T) {
	first, second := newFakeCluster(partition.Leading), newFakeCluster(partition.Leading)
	first.durable, second.durable = true, true
	s, m := twoPartitions(t, first, second, partition.FailClosed)
	m.feed("INCREX " + low + "\r\nINCREX " + high + "\r\n")
	s.parts[1].Release(1, partition.ErrUncertain)
	m.lane.runPosts()
	require.Empty(t, m.take())
	s.parts[0].Release(1, nil)
	m.lane.runPosts()
	require.Equal(t, "*2\r\n:1\r\n:1\r\n"+uncertain, m.take())
}

// Of two partitions this node leads one: commands for the other go to its
// leader, and replies keep their order all the same.
func TestEachPartitionHasItsLeader(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{})
	first, second := newFakeCluster(partition.Leading), newFakeCluster(partition.Following)
	(&node{fakeCluster: second}).follow(leader.forward)
	s, m := twoPartitions(t, first, second, partition.FailClosed)
	m.feed("INCREX " + low + "\r\nINCREX " + high + " BYINT 5\r\nINCREX " + high + "\r\nINCREX " + low + "\r\nPING\r\n")
	replies := ""
	eventually(t, "the leader answers", func() bool { m.lane.runPosts(); replies += m.take(); return m.stall == 0 && m.flight == nil })
	require.Equal(t, "*2\r\n:1\r\n:1\r\n*2\r\n:5\r\n:5\r\n*2\r\n:6\r\n:1\r\n*2\r\n:2\r\n:1\r\n+PONG\r\n", replies)
	require.Equal(t, 1, leader.engine.Len())
	require.Equal(t, 1, s.parts[0].Engine().Len())
	require.Zero(t, s.parts[1].Engine().Len())
}

// Frames are for one leader: commands for two follow each other.
func TestFramesAreOfOnePartition(t *testing.T) {
	one, two := startNode(t, partition.Leading, Config{}), startNode(t, partition.Leading, Config{})
	first, second := newFakeCluster(partition.Following), newFakeCluster(partition.Following)
	(&node{fakeCluster: first}).follow(one.forward)
	(&node{fakeCluster: second}).follow(two.forward)
	_, m := twoPartitions(t, first, second, partition.FailClosed)
	m.feed("INCREX " + low + "\r\nINCREX " + high + " BYINT 5\r\nINCREX " + low + "\r\nMULTI\r\nINCREX " + high + "\r\nEXEC\r\n")
	replies := ""
	eventually(t, "the leaders answer", func() bool { m.lane.runPosts(); replies += m.take(); return m.stall == 0 && m.flight == nil })
	require.Equal(t, "*2\r\n:1\r\n:1\r\n*2\r\n:5\r\n:5\r\n*2\r\n:2\r\n:1\r\n+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:6\r\n:1\r\n", replies)
	require.Equal(t, 1, one.engine.Len())
	require.Equal(t, 1, two.engine.Len())
}

// A partition without leader is answered by the failure policy, the other by
// this node, each at the time of its own clock.
func TestOnePartitionIsAnsweredWithoutALeader(t *testing.T) {
	s, m := twoPartitions(t, newFakeCluster(partition.Leading), newFakeCluster(partition.Orphaned), partition.FailOpen)
	for range 3 {
		m.feed("RL.LIMIT " + low + " 10 1h\r\n")
	}
	m.take()
	for range 3 {
		m.feed("RL.LIMIT " + high + " 10 1h\r\n")
		require.Regexp(t, "^\\*6\r\n:1\r\n:10\r\n:9\r\n", m.take(), "every limit is full")
	}
	require.EqualValues(t, 3, s.Stats().Degraded)
	m.feed("RL.LIMIT " + low + " 10 1h\r\n")
	require.Regexp(t, "^\\*6\r\n:1\r\n:10\r\n:6\r\n", m.take())
	require.Equal(t, rigStart, m.lane.portions[0].now)
	require.Equal(t, rigStart+1, m.lane.portions[1].now)
}

// Keys of one partition, but of two slots.
func TestKeysAreBoundBySlot(t *testing.T) {
	other := high + "{}" // its own slot, which the test wants in the second half
	for i := 0; keySlot([]byte(other)) == keySlot([]byte(high)) || keySlot([]byte(other)) < clusterSlots/2; i++ {
		other = fmt.Sprintf("k%d", i)
	}
	_, m := twoPartitions(t, newFakeCluster(partition.Leading), newFakeCluster(partition.Leading), partition.FailClosed)
	is := func(command, want string) {
		t.Helper()
		m.feed(command + "\r\n")
		require.Equal(t, want, m.take(), command)
	}
	crossing := "-" + errCrossing + "\r\n"
	for _, line := range []string{
		"RENAME %s %s", "COPY %s %s", "MSETNX %s 1 %s 2", "SUNION %s %s", "LMOVE %s %s LEFT LEFT", "WATCH %s %s", "EVAL x 2 %s %s",
		"RL.LIMIT %s 10 60 AND %s 10 60",
	} {
		is(fmt.Sprintf(line, high, other), crossing)
	}
	is("MULTI", "+OK\r\n")
	is("INCREX "+high, "+QUEUED\r\n")
	is("INCREX "+other, crossing)
	is("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
	is("WATCH "+high, "+OK\r\n")
	is("MULTI", "+OK\r\n")
	is("INCREX "+other, crossing)
	is("DISCARD", "+OK\r\n")
	is("WATCH "+other, "+OK\r\n")
	is("UNWATCH", "+OK\r\n")

	_, one := replicatedMachine(t, newFakeCluster(partition.Leading), Config{})
	one.feed("RENAME " + high + " " + other + "\r\nMSETNX " + high + " 1 " + other + " 2\r\nMULTI\r\nINCR " + high + "\r\nINCR " + other + "\r\nDBSIZE\r\nEXEC\r\n")
	require.Equal(t, "-ERR no such key\r\n:1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:2\r\n:3\r\n:2\r\n", one.take(), "with one partition slots do not matter")
}

// Commands without keys are the first partition's, also in a transaction, which then has no
// keys.
func TestTransactionsHaveKeysOrNone(t *testing.T) {
	first := newFakeCluster(partition.Leading)
	second := newFakeCluster(partition.Leading)
	second.replicas = func(context.Context, int) int { return 7 }
	s, m := twoPartitions(t, first, second, partition.FailClosed)
	is := func(command, want string) {
		t.Helper()
		m.feed(command + "\r\n")
		require.Equal(t, want, m.take(), command)
	}
	s.parts[1].Release(1, nil)                                               // of the change's number, which the second partition commits
	m.feed(encode("RL.POLICY", "SET", "pay", "{limits: {l: {rate: 10/h}}}")) // without a home
	settlePolicy(t, first, s, m)
	require.Equal(t, ":1\r\n", m.take())
	check := "RL.CHECK pay user u"
	for _, key := range []string{low, high} {
		for _, queue := range [][]string{{check, "INCREX " + key}, {"INCREX " + key, check}, {"EVAL return 0", "INCREX " + key}} {
			is("MULTI", "+OK\r\n")
			is(queue[0], "+QUEUED\r\n")
			is(queue[1], "-"+errKeyless+"\r\n")
			is("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
		}
		is("WATCH "+key, "+OK\r\n")
		is("MULTI", "+OK\r\n")
		is(check, "-"+errKeyless+"\r\n")
		is("DISCARD", "+OK\r\n")
	}
	is("MULTI", "+OK\r\n")
	is("WAIT 0 1", "+QUEUED\r\n")
	is("INCREX "+high, "+QUEUED\r\n")
	is("PING", "+QUEUED\r\n")
	is("WAIT 0 1", "+QUEUED\r\n")
	is("EXEC", "*4\r\n:7\r\n*2\r\n:1\r\n:1\r\n+PONG\r\n:7\r\n")
	require.Equal(t, 1, s.parts[1].Engine().Len())
	before := s.parts[0].Engine().Len()
	m.feed("INCREX " + high + "\r\nMULTI\r\n" + check + "\r\nEXEC\r\n")
	require.Contains(t, m.take(), "+QUEUED\r\n*1\r\n*13\r\n:1\r\n")
	require.Equal(t, before+1, s.parts[0].Engine().Len())
	require.Equal(t, 1, s.parts[1].Engine().Len())
}

// A script calls commands on keys of the slot of its KEYS. Without KEYS it calls commands
// without keys.
func TestScriptsStayInTheirSlot(t *testing.T) {
	s, m := twoPartitions(t, newFakeCluster(partition.Leading), newFakeCluster(partition.Leading), partition.FailClosed)
	eval := func(script string, keys ...string) string {
		m.feed(encode(append([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys...)...))
		for m.stall != 0 {
			m.lane.runPosts()
			runtime.Gosched()
		}
		return m.take()
	}
	call := func(command string) string {
		return "return redis.call('" + strings.Join(strings.Fields(command), "', '") + "')"
	}
	require.Equal(t, ":1\r\n", eval(call("INCR "+high+"x"), high))
	require.Equal(t, ":1\r\n", eval(call("INCR "+low+"x"), low))
	strayed := "-ERR Script attempted to access keys that do not hash to the same slot"
	require.Contains(t, eval(call("INCR "+low), high), strayed)
	require.Contains(t, eval(call("MGET "+high+" "+low), high), strayed)
	require.Contains(t, eval(call("INCR "+low)), strayed, "a script without KEYS")
	require.Contains(t, eval(call("DBSIZE")), strayed)
	require.Contains(t, eval(call("DBSIZE"), high), strayed)
	require.Contains(t, eval(call("RL.CHECK pay"), low), strayed)
	require.NotContains(t, eval(call("RL.CHECK pay")), strayed)
	require.Equal(t, "+PONG\r\n", eval(call("PING"), high))
	require.Equal(t, 1, s.parts[0].Engine().Len())
	require.Equal(t, 1, s.parts[1].Engine().Len())
	slow := "for i = 1, 1e5 do redis.call('INCR', KEYS[1]) end " // on a worker
	require.Contains(t, eval(slow+call("INCR "+low), high), strayed)
}

// The first partition keeps the texts of scripts. On other partitions EVAL keeps them on its
// node, and EVALSHA finds both.
func TestScriptsAreTheFirstPartitions(t *testing.T) {
	cfg := Config{}
	for range 2 {
		e := engine.New(engine.Config{})
		e.Replicate(ledger.New(ledger.Hooks{})).Lead(e.Now())
		cfg.Parts = append(cfg.Parts, Part{e, newFakeCluster(partition.Leading)})
	}
	s, m := testMachine(t, cfg, new(committer))
	run := func(args ...string) string {
		m.feed(encode(args...))
		s.parts[0].Release(1, nil)
		m.lane.runPosts()
		return m.take()
	}
	text, sha := "return 7", script.Digest([]byte("return 7"))
	require.Contains(t, run("EVALSHA", sha, "1", high), "-NOSCRIPT")
	for range 2 {
		require.Equal(t, ":7\r\n", run("EVAL", text, "1", high))
		require.Equal(t, ":7\r\n", run("EVALSHA", sha, "1", high))
	}
	for _, p := range s.parts {
		require.False(t, p.Engine().HasScript(sha))
	}
	require.Equal(t, bulk(sha), run("SCRIPT", "LOAD", text))
	require.True(t, s.parts[0].Engine().HasScript(sha))
	require.Equal(t, ":7\r\n", run("EVALSHA", sha, "1", high))
	require.Equal(t, "+OK\r\n", run("SCRIPT", "FLUSH"))
	require.Contains(t, run("EVALSHA", sha, "1", high), "-NOSCRIPT")
	require.Equal(t, ":7\r\n", run("EVAL", text, "1", low))
	require.True(t, s.parts[0].Engine().HasScript(sha))
	require.False(t, s.parts[1].Engine().HasScript(sha))
}

func TestNoCommandCrossesPartitions(t *testing.T) {
	s, m := twoPartitions(t, newFakeCluster(partition.Leading), newFakeCluster(partition.Leading), partition.FailClosed)
	is := func(command, want string) {
		t.Helper()
		m.feed(command + "\r\n")
		require.Equal(t, want, m.take(), command)
	}
	crossing := "-" + errCrossing + "\r\n"
	is("SUNION "+low+" "+high, crossing)
	is("RL.LIMIT "+low+" 10 60 AND "+high+" 10 60", crossing)
	is("DEL "+high+"x "+high, ":0\r\n")
	is("MULTI", "+OK\r\n")
	is("INCREX "+high, "+QUEUED\r\n")
	is("PING", "+QUEUED\r\n")
	is("EXEC", "*2\r\n*2\r\n:1\r\n:1\r\n+PONG\r\n")
	require.Equal(t, 1, s.parts[1].Engine().Len())
	is("MULTI", "+OK\r\n")
	is("INCREX "+high, "+QUEUED\r\n")
	is("INCREX "+low, crossing)
	is("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
	is("WATCH "+high, "+OK\r\n")
	is("WATCH "+low, crossing)
	is("MULTI", "+OK\r\n")
	is("INCREX "+low, crossing)
	is("DISCARD", "+OK\r\n")
	is("WATCH "+low, "+OK\r\n")
	is("UNWATCH", "+OK\r\n")
	is("WATCH "+high, "+OK\r\n")
	is("INCREX "+high, "*2\r\n:2\r\n:1\r\n")
	is("MULTI", "+OK\r\n")
	is("INCREX "+high, "+QUEUED\r\n")
	is("EXEC", "*-1\r\n")
}

// A job's reply waits for the commit of the partition that it was about.
func TestJobsBelongToTheirPartition(t *testing.T) {
	first, second := newFakeCluster(partition.Leading), newFakeCluster(partition.Leading)
	s, m := twoPartitions(t, first, second, partition.FailClosed)
	m.feed("INCREX " + high + "\r\nINCREX " + low + "\r\n")
	require.Equal(t, "*2\r\n:1\r\n:1\r\n*2\r\n:1\r\n:1\r\n", m.take())
	second.set(func(f *fakeCluster) { f.durable = true })
	m.feed("DEL" + strings.Repeat(" "+high, command.InlineEntries+1) + "\r\n")
	time.Sleep(10 * time.Millisecond)
	eventually(t, "the job is done", func() bool { m.lane.runPosts(); return m.stall == 0 })
	require.Empty(t, m.take())
	s.parts[0].Release(1, nil)
	m.lane.runPosts()
	require.Empty(t, m.take())
	s.parts[1].Release(1, nil)
	m.lane.runPosts()
	require.Equal(t, ":1\r\n", m.take())
	require.Equal(t, 1, s.parts[0].Engine().Len())
}

// Commands about a slot look at the partition that has it.
func TestSlotsAreOfTheirPartition(t *testing.T) {
	_, m := twoPartitions(t, newFakeCluster(partition.Leading), newFakeCluster(partition.Leading), partition.FailClosed)
	for _, key := range []string{low, high} {
		slot := strconv.Itoa(int(keySlot([]byte(key))))
		m.feed("INCREX " + key + "\r\n")
		m.take()
		m.settled(t, "CLUSTER COUNTKEYSINSLOT "+slot)
		require.Equal(t, ":1\r\n", m.take(), key)
		m.settled(t, "CLUSTER GETKEYSINSLOT "+slot+" 9")
		require.Equal(t, "*1\r\n"+bulk(key), m.take(), key)
	}
}

// The position of a key costs no memory.
func TestRoutesOfOneKeyDoNotAllocate(t *testing.T) {
	_, m := twoPartitions(t, newFakeCluster(partition.Leading), newFakeCluster(partition.Leading), partition.FailClosed)
	for _, line := range []string{"INCREX " + high, "INCREX " + low} {
		in := []byte(encode(strings.Fields(line)...))
		require.Zero(t, testing.AllocsPerRun(100, func() {
			m.lane.begin()
			m.input(in)
			m.lane.takeOutput()
			m.lane.end()
		}), line)
	}
}

// A WATCH that was refused watches nothing, and so binds no transaction. One in a
// transaction is refused, too.
func TestARefusedWatchBindsNothing(t *testing.T) {
	first, second := newFakeCluster(partition.Leading), newFakeCluster(partition.Following)
	_, m := twoPartitions(t, first, second, partition.FailClosed)
	is := func(command, want string) {
		t.Helper()
		m.feed(command + "\r\n")
		require.Contains(t, m.take(), want, command)
	}
	is("WATCH "+high, "-") // this node does not lead it
	is("MULTI", "+OK\r\n")
	is("INCREX "+low, "+QUEUED\r\n")
	is("EXEC", "*1\r\n")
	is("MULTI", "+OK\r\n")
	is("WATCH "+high, "-")
	is("INCREX "+low, "+QUEUED\r\n")
	is("DISCARD", "+OK\r\n")
	is("WATCH "+low, "+OK\r\n")
	is("MULTI", "+OK\r\n")
	is("INCREX "+high, "-"+errCrossing)
	is("DISCARD", "+OK\r\n")
}
