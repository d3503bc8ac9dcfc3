package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

// twoNodes are nodes of a cluster with three groups. The first leads the first and the third
// group, the second leads the second.
func twoNodes(t *testing.T, cfg Config) (one, two *groupsNode) {
	one = startGroups(t, cfg, partition.Leading, partition.Following, partition.Leading)
	two = startGroups(t, cfg, partition.Following, partition.Leading, partition.Following)
	one.follow(1, two)
	two.follow(0, one)
	two.follow(2, one)
	return one, two
}

// sizes returns how many keys each group has at its leader.
func sizes(one, two *groupsNode) []int {
	return []int{one.parts[0].Engine().Len(), two.parts[1].Engine().Len(), one.parts[2].Engine().Len()}
}

func strs(list any) []string {
	var all []string
	for _, v := range list.([]any) {
		all = append(all, v.(string))
	}
	slices.Sort(all)
	return all
}

func TestCommandsOfSeveralGroupsRunInParts(t *testing.T) {
	one, two := twoNodes(t, Config{})
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	for _, n := range []*groupsNode{one, two} {
		for _, proto := range []string{"2", "3"} {
			c := dial(t, n.addr)
			c.call("HELLO " + proto)
			c.do(fmt.Sprintf("MSET %s 1 %s 2 %s 3 %sx 4", a, b, d, a), "+OK\r\n")
			require.Equal(t, []int{2, 1, 1}, sizes(one, two))
			null := "$-1\r\n"
			if proto == "3" {
				null = "_\r\n"
			}
			c.do(fmt.Sprintf("MGET %s no%s %s %sx %s %s", d, b, b, a, a, a), "*6\r\n"+bulk("3")+null+bulk("2")+bulk("4")+bulk("1")+bulk("1"))
			c.do(fmt.Sprintf("EXISTS %s %s %s no%s", a, b, d, d), ":3\r\n")
			c.do(fmt.Sprintf("TOUCH %s %s %s", a, b, a), ":3\r\n")
			c.do("DBSIZE", ":4\r\n")
			require.ElementsMatch(t, []string{a, a + "x", b, d}, strs(c.call("KEYS *")), n.addr)
			require.Equal(t, []string{b}, strs(c.call("KEYS "+b)))
			found := map[string]bool{}
			eventually(t, "keys of all groups", func() bool { found[c.call("RANDOMKEY").(string)] = true; return len(found) == 4 })
			c.do(fmt.Sprintf("DEL %s %s no%s", a, b, d), ":2\r\n")
			require.Equal(t, []int{1, 0, 1}, sizes(one, two))
			c.do(fmt.Sprintf("UNLINK %s %s %sx", d, b, a), ":2\r\n")
			c.do(fmt.Sprintf("MGET %s %s", a, b), "*2\r\n"+null+null)
			for _, key := range []string{a, b, d} {
				c.call("RL.LIMIT " + key + " 10 60")
			}
			c.do(fmt.Sprintf("RL.RESET %s %s", a, b), ":2\r\n")
			require.Equal(t, []int{0, 0, 1}, sizes(one, two))
			c.call("RL.LIMIT " + b + " 10 60")
			c.do("FLUSHALL", "+OK\r\n")
			require.Equal(t, []int{0, 0, 0}, sizes(one, two))
			require.Nil(t, c.call("RANDOMKEY"))
			require.Empty(t, c.call("KEYS *"))
		}
	}
}

// A scattered command keeps its place in a pipeline, its database and its errors.
func TestScatteredCommandsInAPipeline(t *testing.T) {
	one, two := twoNodes(t, Config{})
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	for _, n := range []*groupsNode{one, two} {
		c := dial(t, n.addr)
		c.send(strings.NewReplacer("$A", a, "$B", b, "$D", d).Replace(
			"INCR $A\r\nINCR $B\r\nEXISTS $A $B $D\r\nINCR $D\r\nDEL $A $B\r\nINCR $A\r\nEXISTS $A $B $D\r\nSELECT 3\r\nEXISTS $A $B\r\nINCR $B\r\nDBSIZE\r\n" +
				"FLUSHDB\r\nSELECT 0\r\nDBSIZE\r\nFLUSHALL x\r\nMSET $A 1 $B\r\nKEYS\r\nCLIENT REPLY SKIP\r\nDEL $A $B\r\nCLIENT REPLY OFF\r\nDBSIZE\r\nCLIENT REPLY ON\r\nFLUSHALL\r\nPING\r\n"))
		c.expect(":1\r\n:1\r\n:2\r\n:1\r\n:2\r\n:1\r\n:2\r\n+OK\r\n:0\r\n:1\r\n:1\r\n" +
			"+OK\r\n+OK\r\n:2\r\n-ERR syntax error\r\n-ERR wrong number of arguments for 'mset' command\r\n-ERR wrong number of arguments for 'keys' command\r\n+OK\r\n+OK\r\n+PONG\r\n")
		require.Equal(t, []int{0, 0, 0}, sizes(one, two))
		for i := range 40 { // every second is forwarded, and may be on its way
			key := []string{a, b}[i%2]
			c.send("SET " + key + " x\r\nRL.RESET " + key + " " + d + "\r\n")
			c.expect("+OK\r\n:1\r\n")
		}
		c.do("MULTI", "+OK\r\n")
		for _, line := range []string{"DEL " + a + " " + b, "DBSIZE", "FLUSHALL", "SCAN 0"} {
			reply, _ := c.call(line).(error)
			require.ErrorContains(t, reply, "CROSSSLOT", line)
		}
		c.do("DISCARD", "+OK\r\n")
	}
}

// Replies wait for the commits of all groups, and a group without a leader fails the command.
func TestScatteredCommandsWaitForEachGroup(t *testing.T) {
	one, _ := twoNodes(t, Config{})
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	one.groups[2].set(func(f *fakeCluster) { f.durable = true })
	c := dial(t, one.addr)
	c.send("MSET " + a + " 1 " + b + " 2 " + d + " 3\r\n")
	eventually(t, "a part waits", func() bool { return one.Stats().Held == 1 })
	one.parts[2].Release(1, nil)
	c.expect("+OK\r\n")
	one.groups[2].become(partition.Orphaned)
	c.do("DEL "+a+" "+d, "-"+errNoLeader+"\r\n")
	c.do("EXISTS "+a+" "+b, ":1\r\n")
	c.do("DBSIZE", "-"+errNoLeader+"\r\n")
}

// WAIT counts the nodes that have what each group has decided.
func TestWaitIsForAllGroups(t *testing.T) {
	one, two := twoNodes(t, Config{})
	for i, n := range []int{3, 1, 2} {
		of := []*groupsNode{one, two, one}[i]
		of.groups[i].set(func(f *fakeCluster) { f.replicas = func(context.Context, int) int { return n } })
	}
	dial(t, one.addr).do("WAIT 1 1000", ":1\r\n")
	dial(t, one.cluster).do("WAIT 1 1000", ":2\r\n")
	dial(t, two.cluster).do("WAIT 1 1000", ":1\r\n")
	asked := make(chan struct{})
	ended := make(chan struct{})
	one.groups[0].set(func(f *fakeCluster) {
		f.replicas = func(ctx context.Context, _ int) int { close(asked); <-ctx.Done(); close(ended); return 0 }
	})
	c := dial(t, one.cluster)
	c.send("WAIT 9 0\r\n")
	<-asked
	dial(t, one.addr).call("CLIENT KILL ADDR " + c.LocalAddr().String())
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("WAIT has not ended with its client")
	}
}

// WAIT of several groups ends when one of them is lost: no number of nodes is the answer of
// all groups any more.
func TestWaitEndsWhenOneGroupIsLost(t *testing.T) {
	one, two := twoNodes(t, Config{})
	var waiting atomic.Int32
	for i, n := range []*groupsNode{one, two, one} {
		n.groups[i].set(func(f *fakeCluster) {
			f.replicas = func(ctx context.Context, _ int) int { waiting.Add(1); <-ctx.Done(); waiting.Add(-1); return 1 }
		})
	}
	wait := func(addr string, groups int) *client {
		c := dial(t, addr)
		c.send("WAIT 9 0\r\n")
		eventually(t, "all groups wait", func() bool { return waiting.Load() == int32(groups) })
		return c
	}
	c := wait(one.cluster, 2)
	one.parts[1].Deposed()
	one.parts[2].Deposed()
	c.expect(":0\r\n")
	eventually(t, "no group waits", func() bool { return waiting.Load() == 0 })

	// A part that fails is the reply.
	two.groups[1].set(func(f *fakeCluster) { f.replicas = func(context.Context, int) int { return 0 } })
	c = dial(t, one.addr)
	c.do("WAIT 9 0", ":0\r\n")
	eventually(t, "no group waits", func() bool { return waiting.Load() == 0 })
	one.groups[1].become(partition.Orphaned)
	c.do("WAIT 9 0", "-"+errNoLeader+"\r\n")
	eventually(t, "no group waits", func() bool { return waiting.Load() == 0 })
}

// scanAll returns the keys of a whole iteration.
func (c *client) scanAll(options string) (keys []string) {
	c.t.Helper()
	for cursor := "0"; ; {
		reply := c.call("SCAN " + cursor + options).([]any)
		keys = append(keys, strs(reply[1])...)
		if cursor = reply[0].(string); cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys)
		}
	}
}

func TestScanOfAllGroups(t *testing.T) {
	one, two := twoNodes(t, Config{})
	c := dial(t, one.addr)
	var want []string
	for i := range 300 {
		key := fmt.Sprintf("k%03d", i)
		want = append(want, key)
		c.call("SET " + key + " 1")
	}
	require.NotContains(t, sizes(one, two), 0)
	for _, n := range []*groupsNode{one, two} {
		c := dial(t, n.addr)
		require.Equal(t, want, c.scanAll(" COUNT 7"))
		require.Equal(t, want, c.scanAll(" COUNT 1000"))
		require.Equal(t, want[100:200], c.scanAll(" MATCH k1* COUNT 50"))
		require.Error(t, c.call("SCAN x").(error))
		require.Error(t, c.call("SCAN -1").(error))
		require.Error(t, c.call("SCAN 0 NO 1").(error))
	}
	// The masters add up.
	first, second := dial(t, one.cluster).scanAll(" COUNT 10"), dial(t, two.cluster).scanAll(" COUNT 10")
	require.Len(t, first, sizes(one, two)[0]+sizes(one, two)[2])
	require.Len(t, second, sizes(one, two)[1])
	all := append(first, second...)
	slices.Sort(all)
	require.Equal(t, want, all)
}

// Clients of Redis Cluster add up the masters themselves, and name keys of one slot.
func TestClusterDoorSeesTheGroupsLedHere(t *testing.T) {
	one, two := twoNodes(t, Config{})
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	dial(t, one.addr).do(fmt.Sprintf("MSET %s 1 %s 2 %s 3", a, b, d), "+OK\r\n")
	c, other := dial(t, one.cluster), dial(t, two.cluster)
	for _, line := range []string{"DEL %s %s", "MGET %s %s", "MSET %s 1 %s 2", "RL.RESET %s %s"} {
		c.do(fmt.Sprintf(line, a, d), "-"+errCrossing+"\r\n")
	}
	c.do("DBSIZE", ":2\r\n")
	other.do("DBSIZE", ":1\r\n")
	require.ElementsMatch(t, []string{a, d}, strs(c.call("KEYS *")))
	require.Equal(t, []string{b}, strs(other.call("KEYS *")))
	require.Equal(t, b, other.call("RANDOMKEY"))
	c.do("FLUSHALL", "+OK\r\n")
	require.Equal(t, []int{0, 1, 0}, sizes(one, two))
	two.groups[1].become(partition.Orphaned)
	for _, line := range []string{"DBSIZE", "FLUSHALL", "SCAN 0"} {
		require.ErrorContains(t, other.call(line).(error), "CLUSTERDOWN", "nobody else answers for it")
	}
	two.groups[1].become(partition.Following)
	other.do("DBSIZE", ":0\r\n")
	other.do("SCAN 0", "*2\r\n"+bulk("0")+"*0\r\n")
}

// A reply of several groups is bounded as one of one group, and other fronts get it too.
func TestScatteredReplies(t *testing.T) {
	one, _ := twoNodes(t, Config{OutputBufferLimit: 4096, OutputBufferSoft: 4096})
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	c := dial(t, one.addr)
	value := strings.Repeat("x", 1500)
	c.do(fmt.Sprintf("MSET %s %s %s %s", a, value, b, value), "+OK\r\n")
	require.Equal(t, []any{value, value}, c.call(fmt.Sprintf("MGET %s %s", a, b)))
	c.do(fmt.Sprintf("SET %s %s", d, value), "+OK\r\n")
	require.ErrorContains(t, c.call(fmt.Sprintf("MGET %s %s %s", a, b, d)).(error), "client-output-buffer-limit")
	require.Equal(t, "3", says(t, one.Caller(), fmt.Sprintf("EXISTS %s %s %s", a, b, d)))
	require.Equal(t, "3", says(t, one.Caller(), "DBSIZE"))
	require.Equal(t, "2", says(t, one.Caller(), fmt.Sprintf("DEL %s %s", a, b)))
}

// INFO and DEBUG DIGEST are about all tables of a node. At the cluster door, INFO counts
// the keys of the groups that the node leads.
func TestFiguresAreOfAllGroups(t *testing.T) {
	one, two := twoNodes(t, Config{})
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	plain, cluster := dial(t, one.addr), dial(t, one.cluster)
	plain.do(fmt.Sprintf("MSET %s 1 %s 2 %s 3", a, b, d), "+OK\r\n")
	keys := func(c *client, n int) {
		t.Helper()
		require.Contains(t, c.call("INFO keyspace"), fmt.Sprintf("db0:keys=%d,", n))
	}
	keys(plain, 2)
	keys(cluster, 2)
	keys(dial(t, two.addr), 1)
	require.Equal(t, 2, one.cfg.tables().Keys)
	one.groups[2].become(partition.Orphaned)
	keys(plain, 2)
	keys(cluster, 1)

	digest := func() (sum string, keys int64) {
		t.Helper()
		pairs := plain.call("DEBUG DIGEST").([]any)
		require.Equal(t, []any{"digest", "keys", "clock"}, []any{pairs[0], pairs[2], pairs[4]})
		return pairs[1].(string), pairs[3].(int64)
	}
	before, n := digest()
	require.EqualValues(t, 2, n)
	one.groups[2].become(partition.Leading)
	plain.do("SET "+d+" 4", "+OK\r\n")
	after, _ := digest()
	require.NotEqual(t, before, after, "the last group's table counts")
	plain.do("SET "+d+" 3", "+OK\r\n")
	again, _ := digest()
	require.Equal(t, before, again)
}

// The legs of WAIT leave lines for others: beyond their places, WAIT answers BUSY at once.
func TestWaitsOfAllGroupsAreBounded(t *testing.T) {
	one, _ := twoNodes(t, Config{})
	for range mostLegs - 2 {
		one.legs.wait <- struct{}{}
	}
	c := dial(t, one.addr)
	c.do("WAIT 0 0", "-"+errLegsBusy+"\r\n")
	require.Len(t, one.legs.wait, mostLegs-2, "a refused one holds none")
	c.do("DBSIZE", ":0\r\n")
	<-one.legs.wait
	require.IsType(t, int64(0), c.call("WAIT 0 1"))
	require.Eventually(t, func() bool { return len(one.legs.wait) == mostLegs-3 }, patience, time.Millisecond)
	require.Empty(t, one.legs.run[0])
}

// A group whose leader does not answer holds up its own commands only.
func TestALostGroupHoldsUpNoOthers(t *testing.T) {
	one, _ := twoNodes(t, Config{})
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	one.groups[1].set(func(f *fakeCluster) {
		f.dial = func(ctx context.Context) (net.Conn, error) { return net.Dial("tcp", silent.Addr().String()) }
	})
	for range mostLegs + 1 {
		dial(t, one.addr).send(fmt.Sprintf("EXISTS %s %s\r\n", b, a))
	}
	eventually(t, "the others to wait", func() bool { return one.workers.kept.Load() >= int64(mostLegs)*int64(len(a)) })
	start := time.Now()
	dial(t, one.addr).do(fmt.Sprintf("EXISTS %s %s", a, d), ":0\r\n")
	require.Less(t, time.Since(start), patience/2)
}

// A part that was undone does not show that the whole command was.
func TestAnUndonePartLeavesTheCommandUncertain(t *testing.T) {
	one, _ := twoNodes(t, Config{})
	for _, g := range []int{0, 2} {
		one.groups[g].set(func(f *fakeCluster) { f.durable = true })
	}
	c := dial(t, one.addr)
	c.send(fmt.Sprintf("DEL %s %s\r\n", keysOfThree[0], keysOfThree[2]))
	eventually(t, "the parts to wait", func() bool { return one.groups[0].awaits.Load() > 0 && one.groups[2].awaits.Load() > 0 })
	one.parts[0].Release(1, nil)
	one.parts[2].Release(1, partition.ErrUndone)
	c.expect(uncertain)
}

// The replies of a command's parts are in the account of the clients.
func TestRepliesOfPartsAreAccounted(t *testing.T) {
	one, two := twoNodes(t, Config{})
	for _, n := range []*groupsNode{one, two} {
		n.Configure(Runtime{ClientMemory: 6 * mib})
	}
	a, b := keysOfThree[0], keysOfThree[1]
	c := dial(t, one.addr)
	for _, key := range []string{a, b} { // 1 MiB each
		c.send(encode("SET", key, strings.Repeat("v", mib)))
		require.Equal(t, "OK", c.reply())
	}
	c.Close()
	givenBack := func() {
		t.Helper()
		for _, n := range []*groupsNode{one, two} { // the one that forwards, and the leader
			eventually(t, "all to be given back", func() bool { return n.memory.Total() < memoryStep })
		}
	}
	c = dial(t, one.addr)
	for range 3 {
		givenBack()
		// Each part has room alone, and both have, but the whole reply has none beside them.
		require.ErrorContains(t, c.call(fmt.Sprintf("MGET %[1]s %[2]s %[2]s %[2]s", a, b)).(error), "its reply found no room")
		givenBack()
		require.Len(t, c.call(fmt.Sprintf("MGET %s %sx %s", a, a, b)), 3)
	}
}

// Commands in parts that wait for their turn have the bounds of jobs, and give everything
// back.
func TestMemoryOfScatteredCommandsIsBounded(t *testing.T) {
	one, _ := twoNodes(t, Config{QueryBufferLimit: 256 << 10, MaxBulk: 256 << 10})
	a, b := keysOfThree[0], keysOfThree[1]
	big := strings.Repeat("x", 150<<10)
	for range cap(one.legs.run[0]) {
		one.legs.run[0] <- struct{}{}
	}
	first, second := dial(t, one.addr), dial(t, one.addr)
	mset := encode("MSET", a, big, b, "1")
	first.send(mset)
	require.Eventually(t, func() bool { return one.workers.kept.Load() > 150<<10 }, patience, time.Millisecond)
	held := one.Stats().ClientMemory
	require.Greater(t, held, int64(150<<10))
	second.send(mset)
	second.expect("-" + errWorkersBusy + "\r\n")
	for range cap(one.legs.run[0]) {
		<-one.legs.run[0]
	}
	first.expect("+OK\r\n")
	require.Zero(t, one.workers.kept.Load())
	first.do(fmt.Sprintf("DEL %s %s", a, b), ":2\r\n")
	require.ErrorContains(t, first.call("SCAN x").(error), "invalid cursor")
	require.Zero(t, one.workers.kept.Load(), "a refused one, too")
}
