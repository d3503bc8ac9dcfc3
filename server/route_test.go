package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
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
	eventually(t, "the leader answers", func() bool { m.lane.runPosts(); replies += m.take(); return m.stall == 0 && m.frame == nil })
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
	eventually(t, "the leaders answer", func() bool { m.lane.runPosts(); replies += m.take(); return m.stall == 0 && m.frame == nil })
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

func TestNoCommandCrossesPartitions(t *testing.T) {
	s, m := twoPartitions(t, newFakeCluster(partition.Leading), newFakeCluster(partition.Leading), partition.FailClosed)
	is := func(command, want string) {
		t.Helper()
		m.feed(command + "\r\n")
		require.Equal(t, want, m.take(), command)
	}
	crossing := "-" + errCrossing + "\r\n"
	is("DEL "+low+" "+high, crossing)
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
	first.durable = true
	s, m := twoPartitions(t, first, second, partition.FailClosed)
	m.feed("INCREX " + high + "\r\n")
	require.Equal(t, "*2\r\n:1\r\n:1\r\n", m.take())
	m.feed("FLUSHALL\r\n")
	time.Sleep(10 * time.Millisecond)
	eventually(t, "the job is done", func() bool { m.lane.runPosts(); return m.stall == 0 })
	require.Empty(t, m.take())
	s.parts[0].Release(1, nil)
	m.lane.runPosts()
	require.Equal(t, "+OK\r\n", m.take())
	require.Equal(t, 1, s.parts[1].Engine().Len(), "commands without keys are the first partition's")
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
