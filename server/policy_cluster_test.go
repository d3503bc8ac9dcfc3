package server

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/policy/calendar"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/server/verdict"
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
	n.s, n.m = replicatedMachine(t, n.f, Config{Parts: One(n.e, nil)})
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

	// A follower that starts from a snapshot has it too.
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

	// A transaction, which cannot wait, gets TRYAGAIN.
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

// A check after a change of its policy, in one transaction, is decided by the committed policy.
// Without replication that is the change, and then the check has isolated the wrong keys.
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

// A change that meets the end of its node's leadership has changed nothing, and the error's
// code says that the client may try again.
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

	// The admitted calls are charged when there is a leader again.
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

// A zone whose rules change while a window is open: the counter's window stays,
// and the next one is of the new rules.
func TestOtherRulesMoveNoOpenWindow(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {day: {by: t, rate: 5/day, calendar: UTC}}}`)
	c := r.words("RL.CHECK p t a").([]any)
	require.EqualValues(t, 4, c[2])
	require.Equal(t, (24 * time.Hour).Milliseconds(), c[4])

	moved, err := calendar.New(calendar.Rules{Zone: "Asia/Kathmandu", Period: calendar.Day})
	require.NoError(t, err)
	r.s.policies.Set().Policy([]byte("p")).Limits[0].Calendar = moved
	r.at(20 * time.Hour) // beyond the midnight of Kathmandu
	c = r.words("RL.CHECK p t a").([]any)
	require.EqualValues(t, 3, c[2])
	require.Equal(t, (4 * time.Hour).Milliseconds(), c[4])
	c = r.words("RL.CHECK p t b").([]any)
	require.EqualValues(t, 4, c[2])
	require.Equal(t, (22*time.Hour + 15*time.Minute).Milliseconds(), c[4])
	r.at(24 * time.Hour)
	c = r.words("RL.CHECK p t a").([]any)
	require.EqualValues(t, 4, c[2])
	require.Equal(t, (18*time.Hour + 15*time.Minute).Milliseconds(), c[4])
}

// Windows outlast their leader, and are as long as they were.
func TestCalendarsOnThreeNodes(t *testing.T) {
	var nodes [3]*policyNode
	var set [3]func(int64)
	for i := range nodes {
		role := partition.Following
		if i == 0 {
			role = partition.Leading
		}
		var clock *engine.Clock
		clock, set[i] = engine.NewManualClock(rigStart)
		nodes[i] = newPolicyNodeOf(t, role, engine.Config{Clock: clock})
	}
	at := func(when string) {
		when += ":00+01:00"
		to, err := time.Parse(time.RFC3339, when)
		require.NoError(t, err)
		for i := range set {
			set[i](to.UnixNano())
		}
	}
	leader := nodes[0]
	asks := func(want string, args ...string) {
		t.Helper()
		require.Contains(t, leader.ask(t, append([]string{"RL.CHECK", "plan", "t", "a"}, args...)...), "*13\r\n"+want, args)
	}
	leads := func(next int) {
		leader.commit(t, nodes[(next+1)%3], nodes[next])
		leader.f.become(partition.Following)
		leader.replica.Depose()
		leader.l.Depose()
		leader = nodes[next]
		leader.replica.Lead(leader.e.Now())
		leader.f.become(partition.Leading)
	}
	leader.send("RL.POLICY", "SET", "plan", `{limits: {month: {by: t, rate: 1000/month, calendar: {zone: Europe/Paris, anchor: 17}}}}`)
	leader.commit(t, nodes[1:]...)
	at("2026-03-16T12:00")
	asks(":1\r\n:1000\r\n:20\r\n:0\r\n:43200000\r\n", "COST", "980")
	leads(1)
	asks(":1\r\n:1000\r\n:0\r\n", "COST", "20")
	asks(":0\r\n:1000\r\n:0\r\n:43200000\r\n")
	asks(":0\r\n:1000\r\n:0\r\n:-1\r\n", "COST", "1001")
	leads(2)
	asks(":0\r\n:1000\r\n:0\r\n:43200000\r\n")
	at("2026-03-17T00:00")
	asks(":1\r\n:1000\r\n:0\r\n:0\r\n:2674800000\r\n", "COST", "1000")
	leads(0)
	asks(":0\r\n:1000\r\n:0\r\n:2674800000\r\n")
}

// Without a leader nobody can take a slot: `open` lets calls pass without one, to `local`
// and `closed` a call that wants one is an error. What was taken before is kept.
func TestConcurrentLimitsWithoutALeader(t *testing.T) {
	n := newPolicyNode(t, partition.Leading)
	n.f.set(func(f *fakeCluster) { f.topology = threeVoters })
	n.send("RL.POLICY", "SET", "rate", "{on_failure: local, limits: {day: {by: t, rate: 90/day}}}")
	n.commit(t)
	n.m.lane.runPosts()
	for _, name := range []string{"open", "local", "closed"} {
		n.send("RL.POLICY", "SET", name, "{on_failure: "+name+", limits: {run: {by: t, concurrent: 2, ttl: 1h}, day: {by: t, rate: 90/day}}}")
		n.commit(t)
		n.m.lane.runPosts()
		require.Contains(t, n.ask(t, "RL.CHECK", name, "t", "a", "ID", "first"), "*13\r\n:1\r\n:2\r\n:1\r\n", name)
		n.commit(t)
	}
	n.f.become(partition.Orphaned)
	n.replica.Depose()
	n.l.Depose()
	require.Contains(t, n.ask(t, "RL.CHECK", "rate", "t", "a"), "*13\r\n:1\r\n:30\r\n:29\r\n", "rates are decided locally")
	for range 3 {
		for _, command := range []string{"RL.CHECK", "RL.RESERVE"} {
			reply := n.ask(t, command, "open", "t", "a")
			require.Contains(t, reply, "*13\r\n:1\r\n", command)
			require.Contains(t, reply, "$2\r\nok\r\n$-1\r\n", "%s is given no hold", command)
			for _, name := range []string{"local", "closed"} {
				require.Contains(t, n.ask(t, command, name, "t", "a"), "-CLUSTERDOWN ", "%s %s", command, name)
			}
			require.Contains(t, n.ask(t, command, "open", "t", "a", "FAIL", "local"), "-CLUSTERDOWN ")
			require.Contains(t, n.ask(t, command, "local", "t", "a", "FAIL", "open"), "$2\r\nok\r\n$-1\r\n")
		}
	}
	require.Contains(t, n.ask(t, "RL.COMMIT", "open;first"), "-CLUSTERDOWN ")
	n.replica.Lead(n.e.Now())
	n.f.become(partition.Leading)
	for _, name := range []string{"open", "local", "closed"} {
		require.Contains(t, n.ask(t, "RL.CHECK", name, "t", "a"), "*13\r\n:1\r\n:2\r\n:0\r\n", name)
		require.Contains(t, n.ask(t, "RL.CHECK", name, "t", "a"), "*13\r\n:0\r\n:2\r\n:0\r\n", name)
	}
}

// A hold that a reset has ended is ended on every node.
func TestAResetEndsHoldsEverywhere(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 100/h}}}`)
	leader.commit(t, follower)
	for _, user := range []string{"eve", "bob"} {
		require.Contains(t, leader.ask(t, "RL.RESERVE", "p", "user", user, "COST", "40", "ID", user), "p;"+user)
	}
	leader.commit(t, follower)
	leader.send("RL.POLICY", "RESET", "p", "user", "eve")
	leader.commit(t, follower)
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	require.Contains(t, follower.ask(t, "RL.COMMIT", "p;eve", "COST", "70"), "-NOHOLD")
	require.Contains(t, follower.ask(t, "RL.COMMIT", "p;bob", "COST", "70"), "*14\r\n:1\r\n:100\r\n:30\r\n")
	require.Contains(t, follower.ask(t, "RL.CHECK", "p", "user", "eve", "PEEK", "COST", "0"), "*13\r\n:1\r\n:100\r\n:100\r\n")
}

// While no leader answers the failure policy does: within the backstop, on this
// node's share, or not at all.
func TestDescriptorsWithoutALeader(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.topology = threeVoters
	s, m := replicatedMachine(t, f, Config{Backstop: 5})
	const text = "descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 9}}, {key: none, rate_limit: {unit: day, requests_per_unit: 0}}]}"
	for name, policy := range map[string]string{
		"open": "{on_failure: open, backstop: 2, " + text, "local": "{on_failure: local, " + text, "closed": "{on_failure: closed, " + text,
	} {
		m.feed(encode("RL.POLICY", "SET", name, policy))
		settlePolicy(t, f, s, m)
		require.Equal(t, ":1\r\n", m.take())
	}
	f.become(partition.Orphaned)
	passed := func(line string) (n int) {
		for range 30 {
			m.feed("RL.DESCRIPTORS " + line + "\r\n")
			reply := m.take()
			require.True(t, strings.HasPrefix(reply, "*5\r\n"), reply)
			if strings.HasPrefix(reply, "*5\r\n$2\r\nok\r\n") {
				n++
			}
		}
		return n
	}
	require.Equal(t, 18, passed("open 0 1 1 k a - -"))
	require.Equal(t, 0, passed("open 0 1 1 none a - -"))
	require.Equal(t, 30, passed("open 0 1 1 none a 0 -"))
	require.Equal(t, 30, passed("open 0 1 1 unknown a - -"))
	require.Equal(t, 20, passed("closed 0 1 1 k a - 4/day FAIL open"), "a limit of the request, five times")
	require.Equal(t, 3, passed("local 0 1 1 k a - -"))
	m.feed("RL.DESCRIPTORS closed 0 1 1 k a - -\r\n")
	require.Contains(t, m.take(), "-CLUSTERDOWN ")
	m.feed("HELLO 3\r\n")
	m.take()
	m.feed("RL.DESCRIPTORS open 0 1 1 k b - -\r\n")
	var v verdict.Ruling
	_, err := v.Read([]byte(m.take()))
	require.NoError(t, err)
	require.True(t, v.Degraded)
	require.False(t, v.Over)
}

// Every node prints a secret alike, by a key that comes with the policy.
func TestSecretsAreTheClusters(t *testing.T) {
	leader, follower, late := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", "DRYRUN", ofSecrets)
	leader.send("RL.POLICY", "SET", "p", ofSecrets)
	leader.commit(t, follower)
	var snap bytes.Buffer
	require.NoError(t, follower.replica.Snapshot().Persist(&snap))
	require.NoError(t, late.replica.Restore(&snap, leader.e.Now()))

	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	var prints []string
	for _, n := range []*policyNode{leader, follower, late} {
		n.replica.Lead(leader.e.Now())
		n.f.become(partition.Leading)
		prints = append(prints, n.ask(t, "RL.EXPLAIN", "POLICY", "p", "key", "hunter2"))
	}
	require.Contains(t, prints[0], ";key=~")
	require.Equal(t, prints[0], prints[1])
	require.Equal(t, prints[0], prints[2])

	other := newPolicyNode(t, partition.Leading)
	other.send("RL.POLICY", "SET", "p", ofSecrets)
	other.commit(t)
	require.NotEqual(t, prints[0], other.ask(t, "RL.EXPLAIN", "POLICY", "p", "key", "hunter2"), "another cluster has another key")
}

// blocklist is a file with a list of n addresses of 64 bytes, and a policy that denies
// these.
func blocklist(n int, domain string) string {
	var b strings.Builder
	b.WriteString("policies: {p: {deny: [{user: {list: bad}}], limits: {l: {by: user, rate: 5/h}}}}\nlists:\n  bad:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - %s\n", member(i, domain))
	}
	return b.String()
}

// member is an entry of a blocklist.
func member(i int, domain string) string {
	return fmt.Sprintf("somebody-%0*d@%s", 64-len("somebody-@")-len(domain), i, domain)
}

// A list may have as many entries as the reference promises, much more than fit a record: on
// every node, in snapshots, and as an earlier version.
func TestListOfAsManyEntriesAsPromised(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	leader, follower, late := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following), newPolicyNode(t, partition.Following)
	commit := func(want string, args ...string) {
		t.Helper()
		leader.send(args...)
		parts, ok := leader.replica.Cut(256 << 10)
		require.True(t, ok, leader.m.take())
		for _, part := range parts {
			require.LessOrEqual(t, len(part), 256<<10)
		}
		require.True(t, leader.l.Commit())
		require.NoError(t, follower.replica.Apply(parts, leader.e.Now()))
		leader.s.Partition().Release(leader.f.ticket.Add(1)-1, nil)
		leader.m.settle()
		require.Equal(t, want, leader.m.take())
	}
	denied := func(n *policyNode, user string, want bool) {
		t.Helper()
		got := n.ask(t, "RL.CHECK", "p", "user", user, "PEEK")
		require.Equal(t, want, strings.HasPrefix(got, "*13\r\n:0\r\n"), got)
	}
	loaded := func(version int) string {
		return fmt.Sprintf("*2\r\n*4\r\n$4\r\nname\r\n$9\r\nlists/bad\r\n$7\r\nversion\r\n:%d\r\n*4\r\n$4\r\nname\r\n$1\r\np\r\n$7\r\nversion\r\n:1\r\n", version)
	}
	first, last := member(0, "one.example"), member(grammar.MaxListed-1, "one.example")
	require.Len(t, last, 64)
	commit(loaded(1), "RL.POLICY", "LOAD", blocklist(grammar.MaxListed, "one.example"))
	denied(leader, first, true)
	denied(leader, last, true)
	denied(leader, "eve", false)
	commit(loaded(2), "RL.POLICY", "LOAD", blocklist(grammar.MaxListed, "two.example"))
	denied(leader, first, false)
	denied(leader, member(7, "two.example"), true)
	commit(":3\r\n", "RL.POLICY", "ROLLBACK", "lists/bad", "1")

	var snap bytes.Buffer
	require.NoError(t, follower.replica.Snapshot().Persist(&snap))
	require.NoError(t, late.replica.Restore(&snap, leader.e.Now()))
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	for _, n := range []*policyNode{leader, follower, late} {
		n.replica.Lead(leader.e.Now())
		n.f.become(partition.Leading)
		denied(n, first, true)
		denied(n, last, true)
		denied(n, "eve", false)
		denied(n, member(7, "two.example"), false)
		for version, domain := range []string{"one.example", "one.example", "two.example", "one.example"} {
			args := []string{"RL.POLICY", "GET", "lists/bad", "VERSION", fmt.Sprint(version)}
			if version == 0 {
				args = args[:3]
			}
			require.True(t, strings.Contains(n.ask(t, args...), member(grammar.MaxListed-1, domain)), args)
		}
		require.True(t, strings.HasPrefix(n.ask(t, "RL.POLICY", "HISTORY", "lists/bad"), "*3\r\n"))
		require.Contains(t, n.ask(t, "RL.POLICY", "LIST"), "lists/bad")
	}
}

// A denial that is a strike waits until it is durable, as what is charged does.
func TestStrikesWaitForTheirCommit(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{durability: sync, limits: {a: {by: user, rate: 1/h, penalty: {after: 2, block: 1h}}}}`)
	leader.commit(t, follower)
	leader.s.Partition().Release(1, nil)
	leader.m.lane.runPosts()
	require.Equal(t, ":1\r\n", leader.m.take())
	for i, want := range []string{":1\r\n", ":0\r\n", ":0\r\n"} {
		leader.f.ticket.Store(uint64(2 + i))
		leader.m.feed(encode("RL.CHECK", "p", "user", "eve"))
		require.Empty(t, leader.m.take(), "not committed")
		leader.commit(t, follower)
		leader.s.Partition().Release(uint64(2+i), nil)
		leader.m.lane.runPosts()
		reply := leader.m.take()
		require.True(t, strings.HasPrefix(reply, "*13\r\n"+want), reply)
	}
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	follower.m.feed(encode("RL.CHECK", "p", "user", "eve"))
	follower.s.Partition().Release(9, nil)
	follower.m.lane.runPosts()
	require.Contains(t, follower.m.take(), "penalty")
}

// The next leader settles a hold once, and repeats its answer.
func TestHoldsOverAFailover(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 100/h, algorithm: fixed}}}`)
	leader.commit(t, follower)
	reply := leader.ask(t, "RL.RESERVE", "p", "user", "eve", "COST", "40")
	_, rest, ok := strings.Cut(reply, "$22\r\n")
	require.True(t, ok, reply)
	h := rest[:22]
	leader.commit(t, follower)
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	for range 3 {
		require.Contains(t, follower.ask(t, "RL.COMMIT", h, "COST", "10"), "*14\r\n:1\r\n:100\r\n:90\r\n")
	}
	require.Contains(t, follower.ask(t, "RL.CHECK", "p", "user", "eve", "PEEK", "COST", "0"), "*13\r\n:1\r\n:100\r\n:90\r\n")
}

// Without a leader a policy that is open admits, and holds nothing; nothing can be
// settled.
func TestHoldsWithoutALeader(t *testing.T) {
	n := newPolicyNode(t, partition.Leading)
	n.send("RL.POLICY", "SET", "p", `{on_failure: open, limits: {a: {by: user, rate: 100/h}}}`)
	n.commit(t)
	n.f.become(partition.Orphaned)
	n.replica.Depose()
	n.l.Depose()
	reply := n.ask(t, "RL.RESERVE", "p", "user", "eve")
	require.Contains(t, reply, "*13\r\n:1\r\n:100\r\n")
	require.Contains(t, reply, "$2\r\nok\r\n$-1\r\n")
	require.Contains(t, n.ask(t, "RL.RESERVE", "p", "user", "eve", "FAIL", "closed", "TTL", "5s"), "-CLUSTERDOWN")
	require.Contains(t, n.ask(t, "RL.COMMIT", "p;x"), "-CLUSTERDOWN")
	require.Contains(t, n.ask(t, "RL.CANCEL", "p;x"), "-CLUSTERDOWN")
}

// The leader dies between charge and answer: the client asks the next one, and is
// charged once.
func TestACallIsRepeatedAfterAFailover(t *testing.T) {
	leader, follower := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", `{limits: {a: {by: user, rate: 100/h, algorithm: fixed}}}`)
	leader.commit(t, follower)
	check := []string{"RL.CHECK", "p", "user", "eve", "COST", "40", "ID", "x"}
	want := "*13\r\n:1\r\n:100\r\n:60\r\n"
	require.Contains(t, leader.ask(t, check...), want)
	leader.commit(t, follower)
	lost := []string{"RL.CHECK", "p", "user", "eve", "COST", "7", "ID", "lost"}
	require.Contains(t, leader.ask(t, lost...), ":53\r\n")
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	follower.replica.Lead(leader.e.Now())
	follower.f.become(partition.Leading)
	for range 3 {
		require.Contains(t, follower.ask(t, check...), want)
	}
	for range 2 {
		require.Contains(t, follower.ask(t, lost...), "*13\r\n:1\r\n:100\r\n:53\r\n", "what was lost is charged now, once")
	}
}
