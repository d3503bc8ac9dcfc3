package server

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// withReplicas makes AwaitReplicas of a fake cluster return n.
func withReplicas(f *fakeCluster, n int) {
	f.set(func(f *fakeCluster) { f.replicas = func(context.Context, int) int { return n } })
}

// leaderOf starts a leader of a term, whose decisions two nodes have.
func leaderOf(t *testing.T, term uint64) *node {
	n := startNode(t, partition.Leading, patient)
	n.term.Store(term)
	withReplicas(n.fakeCluster, 2)
	return n
}

// move makes n follow another leader.
func (n *node) move(leader *node) {
	n.follow(leader.forward)
	n.Partition().LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{})
}

// WAIT does not confirm what a lost leader has decided.
func TestWaitDoesNotConfirmAnotherLeadersDecisions(t *testing.T) {
	one, two := leaderOf(t, 1), leaderOf(t, 2)
	n := startNode(t, partition.Following, patient)
	n.move(one)
	c, idle := dial(t, n.addr), dial(t, n.addr)
	c.do("INCR a", ":1\r\n")
	c.do("WAIT 1 0", ":2\r\n")
	c.do("INCR a", ":2\r\n")
	c.do("WAIT 1 0", ":2\r\n")
	c.do("INCR a", ":3\r\n")
	n.move(two)
	c.do("WAIT 1 0", ":0\r\n")
	c.do("WAIT 1 0", ":2\r\n") // the record began anew
	c.send("INCR a\r\nWAIT 1 0\r\nINCR a\r\nWAIT 1 0\r\n")
	c.expect(":1\r\n:2\r\n:2\r\n:2\r\n")
	idle.do("INCR a", ":3\r\n")
	idle.do("WAIT 1 0", ":2\r\n")
}

// The same node may lead again, without what it had decided.
func TestWaitNoticesALeaderElectedAgain(t *testing.T) {
	leader := leaderOf(t, 1)
	n := startNode(t, partition.Following, patient)
	n.move(leader)
	there, here := dial(t, n.addr), dial(t, leader.addr)
	for _, c := range []*client{there, here} {
		c.call("INCR a")
		c.do("WAIT 1 0", ":2\r\n")
		c.call("INCR a")
	}
	leader.term.Store(2)
	for _, c := range []*client{there, here} {
		c.do("WAIT 1 0", ":0\r\n")
		c.call("INCR a")
		c.do("WAIT 1 0", ":2\r\n")
	}
}

// A WAIT without a result does not end the record; otherwise its repetition would confirm
// what is lost.
func TestWaitAfterATimeoutDoesNotConfirmAnotherLeadersDecisions(t *testing.T) {
	one, two := leaderOf(t, 1), leaderOf(t, 2)
	withReplicas(one.fakeCluster, 0)
	n := startNode(t, partition.Following, patient)
	n.move(one)
	there, here := dial(t, n.addr), dial(t, one.addr)
	for _, c := range []*client{there, here} {
		c.call("INCR a")
		c.do("WAIT 1 1", ":0\r\n")
	}
	n.move(two)
	one.term.Store(3)
	withReplicas(one.fakeCluster, 2)
	for _, c := range []*client{there, here} {
		c.do("WAIT 1 1", ":0\r\n")
		c.do("WAIT 1 1", ":2\r\n")
	}
}

// A transaction may contain WAIT.
func TestWaitInATransactionDoesNotConfirmAnotherLeadersDecisions(t *testing.T) {
	one, two := leaderOf(t, 1), leaderOf(t, 2)
	n := startNode(t, partition.Following, patient)
	n.move(one)
	there, here := dial(t, n.addr), dial(t, one.addr)
	transaction := func(c *client, want string) {
		c.send("MULTI\r\nGET a\r\nWAIT 1 0\r\nGET a\r\nEXEC\r\n")
		c.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n" + want)
	}
	for _, c := range []*client{there, here} {
		c.do("SET a x", "+OK\r\n")
		transaction(c, "$1\r\nx\r\n:2\r\n$1\r\nx\r\n")
	}
	n.move(two)
	one.term.Store(3)
	transaction(there, "$-1\r\n:0\r\n$-1\r\n")
	transaction(here, "$1\r\nx\r\n:0\r\n$1\r\nx\r\n")
}

// The failure policy's answers are no leader's decisions.
func TestWaitDoesNotConfirmDegradedAnswers(t *testing.T) {
	leader := leaderOf(t, 1)
	n := startNode(t, partition.Orphaned, Config{OnFailure: partition.FailOpen, ForwardTimeout: patience})
	c := dial(t, n.addr)
	require.Len(t, c.call("RL.LIMIT a 10 1h"), 6)
	n.move(leader)
	c.do("WAIT 1 0", ":0\r\n")
	c.do("WAIT 1 0", ":2\r\n")
}

// A leader that does not know of its successor answers for nobody.
func TestWaitDoesNotBelieveAFormerLeader(t *testing.T) {
	one := leaderOf(t, 1)
	n := startNode(t, partition.Following, patient)
	n.move(one)
	c := dial(t, n.addr)
	c.do("WAIT 1 0", ":2\r\n")
	n.Partition().SeeTerm(2)
	c.do("WAIT 1 0", ":0\r\n")
	c.do("WAIT 1 0", ":0\r\n")
	one.Partition().SeeTerm(2)
	here := dial(t, one.addr)
	here.call("INCR a")
	here.do("WAIT 1 0", ":0\r\n")
}

// A node of an older version does not tell its term.
func TestWaitThroughALeaderOfAnOlderVersion(t *testing.T) {
	leader := leaderOf(t, 1)
	var older []command.Spec
	for _, list := range leader.commandLists() {
		for _, cmd := range list {
			if cmd.Name == "hello" {
				cmd.Handler = onConn(func(c *conn, _ [][]byte) { c.w.OK() })
			}
			older = append(older, cmd)
		}
	}
	table, err := command.NewTable(older)
	require.NoError(t, err)
	leader.fromNodes = table.Forwarded()
	leader.serveNodes(t)
	n := startNode(t, partition.Following, patient)
	n.move(leader)
	c := dial(t, n.addr)
	c.do("INCR a", ":1\r\n")
	c.do("WAIT 1 0", ":0\r\n")
}

// A stream is for one term, and a node that begins to lead tells it later.
func TestStreamsAreOfOneTerm(t *testing.T) {
	leader := startNode(t, partition.Handover, Config{})
	leader.term.Store(0)
	withReplicas(leader.fakeCluster, 2)
	n := startNode(t, partition.Following, Config{ForwardTimeout: patience, HandoverWait: patience})
	n.move(leader)
	c := dial(t, n.addr)
	c.send("INCR a\r\n")
	eventually(t, "it is refused", func() bool { return leader.Stats().ErrorReplies > 0 })
	leader.term.Store(1)
	leader.become(partition.Leading)
	c.expect(":1\r\n")
	c.do("WAIT 1 0", ":2\r\n")

	stream := dial(t, leader.forward)
	require.Equal(t, int64(1), pair(t, stream.call("HELLO 2"), "term"))
	stream.do("INCR a", ":2\r\n")
	leader.term.Store(2)
	stream.do("INCR a", refused)
	require.Equal(t, int64(2), pair(t, stream.call("HELLO 2"), "term"))
	stream.do("INCR a", refused)
	stream.do("RL.CLIENT '' '' ''", "+OK\r\n")
	stream.do("INCR a", ":3\r\n")
}

// A command of several groups is confirmed if all leaders are those that decided it.
func TestWaitOfSeveralGroupsNoticesAChangeInEach(t *testing.T) {
	one, two := twoNodes(t, Config{})
	for i, of := range []*groupsNode{one, two, one} {
		withReplicas(of.groups[i], 2)
	}
	a, b, d := keysOfThree[0], keysOfThree[1], keysOfThree[2]
	c, far := dial(t, one.addr), dial(t, two.addr)
	for term := uint64(1); term <= 4; term++ {
		of := []*fakeCluster{one.groups[0], two.groups[1], one.groups[2]}[term%3]
		for _, c := range []*client{c, far} {
			c.do("MSET "+a+" 1 "+b+" 2 "+d+" 3", "+OK\r\n")
			c.do("WAIT 1 0", ":2\r\n")
			c.do("SET "+[]string{a, b, d}[term%3]+" 1", "+OK\r\n")
		}
		of.term.Add(1)
		for _, c := range []*client{c, far} {
			c.do("WAIT 1 0", ":0\r\n")
			c.do("WAIT 1 0", ":2\r\n")
		}
	}
}
