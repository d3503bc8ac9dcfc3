package server

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
)

// policyNode is a node of a cluster whose log the test is.
type policyNode struct {
	e       *engine.Engine
	l       *ledger.Ledger
	replica *engine.Replica
	f       *fakeCluster
	s       *Server
	m       *machine
}

func newPolicyNode(t *testing.T, role partition.Role) *policyNode {
	return newPolicyNodeOf(t, role, engine.Config{})
}

func newPolicyNodeOf(t *testing.T, role partition.Role, cfg engine.Config) *policyNode {
	n := &policyNode{e: engine.New(cfg), l: ledger.New(ledger.Hooks{}), f: newFakeCluster(role)}
	n.replica = n.e.Replicate(n.l)
	if role == partition.Leading {
		n.replica.Lead(n.e.Now())
	}
	n.s, n.m = replicatedMachine(t, n.f, Config{Engine: n.e})
	return n
}

// send begins a command, and waits for its worker.
func (n *policyNode) send(args ...string) {
	n.m.feed(encode(args...))
	for n.m.stall&stallWorker != 0 {
		n.m.lane.runPosts()
		runtime.Gosched()
	}
}

// commit cuts, commits, and has the other nodes apply it.
func (n *policyNode) commit(t *testing.T, followers ...*policyNode) {
	parts, ok := n.replica.Cut(1 << 20)
	require.True(t, ok)
	require.True(t, n.l.Commit())
	for _, f := range followers {
		require.NoError(t, f.replica.Apply(parts, n.e.Now()))
	}
}

// ask runs a check on another connection, and returns its reply.
func (n *policyNode) ask(t *testing.T, args ...string) string {
	m := newMachine(n.s)
	m.feed(encode(args...))
	return m.take()
}

// A version takes effect when it is committed, on every node, and its reply
// comes after that.
func TestPoliciesTakeEffectWhenCommitted(t *testing.T) {
	leader, follower, late := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following), newPolicyNode(t, partition.Following)
	const five, nine = `{limits: {a: {by: user, rate: 5/h}}}`, `{limits: {a: {by: user, rate: 9/h}}}`
	check := []string{"RL.CHECK", "p", "user", "eve"}
	const none = "-NOPOLICY there is no policy 'p'\r\n"
	leader.send("RL.POLICY", "SET", "p", five)
	require.Empty(t, leader.m.take(), "not committed")
	require.Equal(t, none, leader.ask(t, check...))
	leader.commit(t, follower)
	require.Contains(t, leader.ask(t, check...), "*13\r\n:1\r\n:5\r\n:4\r\n")
	leader.s.Partition().Release(1, nil)
	leader.m.lane.runPosts()
	require.Equal(t, ":1\r\n", leader.m.take())

	leader.send("RL.POLICY", "SET", "p", nine)
	require.Contains(t, leader.ask(t, check...), "*13\r\n:1\r\n:5\r\n:3\r\n", "still the version before")
	leader.commit(t, follower)
	require.Contains(t, leader.ask(t, check...), "*13\r\n:1\r\n:9\r\n:6\r\n")
	leader.send("RL.OVERRIDE", "SET", "p", "LIMIT", "a", "RATE", "7/h", "user", "bob")
	require.Contains(t, leader.ask(t, "RL.CHECK", "p", "user", "bob", "PEEK"), "*13\r\n:1\r\n:9\r\n")
	leader.commit(t, follower)
	require.Contains(t, leader.ask(t, "RL.CHECK", "p", "user", "bob", "PEEK"), "*13\r\n:1\r\n:7\r\n")
	leader.send("RL.OVERRIDE", "DEL", "p", "LIMIT", "a", "user", "bob") // never committed
	leader.send("RL.POLICY", "SET", "p", five)
	leader.commit0(t)

	// Who has it from a snapshot has it too.
	var snap bytes.Buffer
	require.NoError(t, follower.replica.Snapshot().Persist(&snap))
	require.NoError(t, late.replica.Restore(&snap, leader.e.Now()))

	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	for _, n := range []*policyNode{leader, follower, late} {
		n.replica.Lead(leader.e.Now())
		n.f.become(partition.Leading)
		require.Contains(t, n.ask(t, append(check, "PEEK")...), "*13\r\n:1\r\n:9\r\n")
		require.Contains(t, n.ask(t, "RL.CHECK", "p", "user", "bob", "PEEK"), "*13\r\n:1\r\n:7\r\n")
		require.Contains(t, n.ask(t, "RL.POLICY", "GET", "p"), ":2\r\n")
	}
}

// commit0 cuts what is never committed.
func (n *policyNode) commit0(t *testing.T) {
	_, ok := n.replica.Cut(1 << 20)
	require.True(t, ok)
}

// Two changes that nobody has committed yet come one after another.
func TestChangesOfPoliciesFollowEachOther(t *testing.T) {
	leader := newPolicyNode(t, partition.Leading)
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {rate: 5/h}}}`)
	other := newMachine(leader.s)
	other.feed(encode("RL.POLICY", "SET", "p", "IF", "0", `{limits: {a: {rate: 6/h}}}`))
	leader.commit(t)
	for other.stall&stallWorker != 0 {
		other.lane.runPosts()
		runtime.Gosched()
	}
	leader.s.Partition().Release(9, nil)
	other.lane.runPosts()
	require.Equal(t, "-VERSION the policy has another version: 1\r\n", other.take())
	require.Contains(t, leader.ask(t, "RL.CHECK", "p"), "*13\r\n:1\r\n:5\r\n")

	// A transaction, which cannot wait, is told to come again.
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {rate: 7/h}}}`)
	other = newMachine(leader.s)
	for _, args := range [][]string{{"MULTI"}, {"RL.POLICY", "SET", "p", `{limits: {a: {rate: 8/h}}}`}, {"EXEC"}} {
		other.feed(encode(args...))
	}
	leader.commit(t)
	leader.s.Partition().Release(9, nil)
	other.lane.runPosts()
	require.Equal(t, "+OK\r\n+QUEUED\r\n*1\r\n-TRYAGAIN policies are being changed\r\n", other.take())
	require.Contains(t, leader.ask(t, "RL.CHECK", "p", "PEEK"), "*13\r\n:1\r\n:7\r\n")
}

// A check behind a change of its policy, in one transaction, is decided by what is
// committed. Where nothing is replicated that is the change, and the check has come
// for other keys.
func TestChecksBehindAChangeInATransaction(t *testing.T) {
	const text = `{limits: {%s: {by: u, rate: 5/h}}}`
	leader, r := newPolicyNode(t, partition.Leading), newRig(t, engine.Config{})
	for i, want := range []string{"-NOPOLICY there is no policy 'p'\r\n", "*13\r\n:1\r\n:5\r\n:4\r\n"} {
		set := []string{"RL.POLICY", "SET", "p", fmt.Sprintf(text, []string{"a", "b"}[i])}
		other := newMachine(leader.s)
		for _, args := range [][]string{{"MULTI"}, set, {"RL.CHECK", "p", "u", "x"}, {"EXEC"}} {
			other.feed(encode(args...))
		}
		leader.commit(t)
		leader.s.Partition().Release(9, nil)
		other.lane.runPosts()
		require.Contains(t, other.take(), fmt.Sprintf("*2\r\n:%d\r\n%s", i+1, want))

		for _, args := range [][]string{{"MULTI"}, set, {"RL.CHECK", "p", "u", "x"}} {
			r.raw(args...)
		}
		require.Equal(t, fmt.Sprintf("*2\r\n:%d\r\n-TRYAGAIN policies are being changed\r\n", i+1), r.raw("EXEC"))
	}
}

// A change that meets the end of its node's leadership has changed nothing, and
// its client is told so by a code that says to come again.
func TestChangesOnANodeThatIsDeposed(t *testing.T) {
	n := newPolicyNode(t, partition.Leading)
	n.replica.Depose() // which the server has not heard of
	n.l.Depose()
	n.send("RL.POLICY", "SET", "p", `{limits: {a: {rate: 5/h}}}`)
	n.s.Partition().Release(9, nil)
	n.m.lane.runPosts()
	require.Equal(t, "-TRYAGAIN not the leader\r\n", n.m.take())
}

// settlePolicy waits for the worker of a change, and commits it.
func settlePolicy(t *testing.T, f *fakeCluster, s *Server, m *machine) {
	t.Helper()
	for m.stall&stallWorker != 0 {
		m.lane.runPosts()
		runtime.Gosched()
	}
	s.Partition().Release(f.ticket.Add(1)-1, nil)
	m.settle()
}

// Without a leader each policy answers as it says, or as the call does.
func TestPoliciesWithoutALeader(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.topology = threeVoters
	s, m := replicatedMachine(t, f, Config{})
	for name, text := range map[string]string{
		"open":   `{on_failure: open, limits: {a: {rate: 9/h}}}`,
		"closed": `{on_failure: closed, limits: {a: {rate: 9/h}}}`,
		"local":  `{on_failure: local, limits: {a: {rate: 9/h}, b: {rate: 1/h, mode: soft}}}`,
		"server": `{limits: {a: {rate: 9/h}}}`,
	} {
		m.feed(encode("RL.POLICY", "SET", name, text))
		settlePolicy(t, f, s, m)
		require.Equal(t, ":1\r\n", m.take())
	}
	f.become(partition.Orphaned)
	ask := func(want string, args ...string) {
		t.Helper()
		m.feed(encode(append([]string{"RL.CHECK"}, args...)...))
		require.Contains(t, m.take(), want, args)
	}
	for range 20 { // of a backstop of 90
		ask("*13\r\n:1\r\n:9\r\n:8\r\n", "open")
	}
	for i := range 3 {
		ask("*13\r\n:1\r\n:3\r\n:"+string(rune('2'-i)), "local")
	}
	ask("*13\r\n:0\r\n:3\r\n:0\r\n", "local")
	for _, args := range [][]string{{"closed"}, {"server"}, {"unknown"}, {"open", "FAIL", "closed"}, {"local", "COST", "9"}} {
		ask("-CLUSTERDOWN ", args...)
	}
	ask("*13\r\n:1\r\n:9\r\n:8\r\n", "closed", "FAIL", "open")
	ask("*13\r\n:1\r\n:3\r\n:2\r\n", "server", "FAIL", "local")
	for line, want := range map[string]string{
		"RL.LIMIT k 9 1h": "-CLUSTERDOWN ", "RL.LIMIT k 9 1h FAIL open": "*6\r\n:1\r\n:9\r\n", "RL.LIMIT k 9 1h fail LOCAL": "*6\r\n:1\r\n:3\r\n",
		"RL.LIMIT k 9 1h AND l 5 1h FAIL open": "*7\r\n:1\r\n", "RL.LIMIT k 9 1h FAIL closed": "-CLUSTERDOWN ",
	} {
		m.feed(line + "\r\n")
		require.Contains(t, m.take(), want, line)
	}
	for _, line := range []string{"MULTI", "RL.CHECK open", "RL.CHECK closed", "EXEC"} {
		m.feed(line + "\r\n")
	}
	require.Contains(t, m.take(), "-CLUSTERDOWN ")

	// What was admitted is charged when there is a leader again.
	f.become(partition.Leading)
	require.Eventually(t, func() bool {
		m.feed(encode("RL.CHECK", "local", "PEEK"))
		return bytes.Contains([]byte(m.take()), []byte("*13\r\n:1\r\n:9\r\n:5\r\n"))
	}, patience, 10*time.Millisecond)
}

// A change and an override that are committed together, or one between the other's
// beginning and its commit, both take effect.
func TestAnOverrideBesideAChange(t *testing.T) {
	for _, together := range []bool{true, false} {
		n := newPolicyNode(t, partition.Leading)
		n.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 5/h}}}`)
		n.commit(t)
		n.m.lane.runPosts()
		other := newMachine(n.s)
		other.feed(encode("RL.OVERRIDE", "SET", "p", "LIMIT", "a", "RATE", "7/h", "user", "bob"))
		if !together {
			_, ok := n.replica.Cut(1 << 20)
			require.True(t, ok)
		}
		n.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 6/h}}}`)
		if !together {
			require.True(t, n.l.Commit())
			require.Contains(t, n.ask(t, "RL.CHECK", "p", "user", "bob", "PEEK"), "*13\r\n:1\r\n:7\r\n")
		}
		n.commit(t)
		require.Contains(t, n.ask(t, "RL.CHECK", "p", "user", "bob", "PEEK"), "*13\r\n:1\r\n:7\r\n", "together %t", together)
		require.Contains(t, n.ask(t, "RL.CHECK", "p", "user", "eve", "PEEK"), "*13\r\n:1\r\n:6\r\n", "together %t", together)
	}
}
