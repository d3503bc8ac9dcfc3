package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/subprocess"
	"github.com/headgate-io/headgate/raftlog"
)

// testNode is a node of a cluster under test, running or not.
type testNode struct {
	*process
	id      string
	cluster string // its address for clients of Redis Cluster
	grpc    string
	peer    string
	args    []string
}

// testCluster is a cluster of processes. Node i is called n<i+1>.
type testCluster struct {
	nodes []*testNode
	peers []string
	tls   []string // flags
}

// newCluster prepares n nodes, with the same flags for each start.
func newCluster(t *testing.T, n int, args ...string) *testCluster {
	t.Helper()
	planned, err := hgtest.Nodes(t.TempDir(), n, args...)
	require.NoError(t, err)
	c := &testCluster{}
	for _, p := range planned {
		c.peers = append(c.peers, p.Peer)
		c.nodes = append(c.nodes, &testNode{id: p.ID, cluster: p.Cluster, grpc: p.GRPC, peer: p.Peer, args: p.Args[1:]})
	}
	return c
}

// startCluster starts n nodes and waits for their leader.
func startCluster(t *testing.T, n int, args ...string) *testCluster {
	t.Helper()
	c := newCluster(t, n, args...)
	for _, node := range c.nodes {
		node.start(t)
	}
	c.leader(t)
	return c
}

func (n *testNode) start(t *testing.T) {
	t.Helper()
	n.process = start(t, n.args...)
}

// running returns the nodes that have not ended.
func (c *testCluster) running() (nodes []*testNode) {
	for _, n := range c.nodes {
		if n.process != nil && n.Running() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// status asks node i.
func (c *testCluster) status(t *testing.T, i int) (s raftlog.Status, err error) {
	t.Helper()
	args := append([]string{"cluster", "status", "--json", "--timeout", "2s", "--peer", c.peers[i]}, c.tls...)
	out, err := command(t, args...).Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	return s, err
}

// leader waits until one running node serves and the others know it, and
// returns it.
func (c *testCluster) leader(t *testing.T) (leader *testNode) {
	t.Helper()
	require.Eventually(t, func() bool {
		leader = nil
		seen := map[string]bool{}
		for i, n := range c.nodes {
			if n.process == nil || !n.Running() {
				continue
			}
			s, err := c.status(t, i)
			if err != nil {
				return false
			}
			if s.Serving {
				leader = n
			}
			seen[s.LeaderID] = true
		}
		return leader != nil && len(seen) == 1 && seen[leader.id]
	}, waitLimit, 20*time.Millisecond)
	return leader
}

// followers are the running nodes but leader.
func (c *testCluster) followers(leader *testNode) (nodes []*testNode) {
	for _, n := range c.running() {
		if n != leader {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// limit runs RL.LIMIT and returns allowed, limit and remaining; an error reply
// comes back as text.
func (c *client) limit(args ...string) (n [3]int64, refused string) {
	c.t.Helper()
	header := c.do(append([]string{"RL.LIMIT"}, args...)...)
	if strings.HasPrefix(header, "-") {
		return n, header
	}
	require.Equal(c.t, "*6", header)
	for i := range 6 {
		line, err := c.line()
		require.NoError(c.t, err)
		v, err := strconv.ParseInt(strings.TrimPrefix(line, ":"), 10, 64)
		require.NoError(c.t, err)
		if i < len(n) {
			n[i] = v
		}
	}
	return n, ""
}

// remaining peeks, through whichever node, until somebody answers for the
// leader.
func (n *testNode) remaining(t *testing.T, args ...string) (remaining int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, refused := dial(t, "tcp", n.redis).limit(append(args, "COST", "0")...)
		remaining = r[2]
		return refused == ""
	}, waitLimit, 20*time.Millisecond)
	return remaining
}

func TestOneNodeKeepsItsLimits(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--peer-listen=127.0.0.1:0", "--on-failure=closed"}
	for i, end := range []struct {
		signal syscall.Signal
		mode   string
	}{{syscall.SIGTERM, "ASYNC"}, {syscall.SIGKILL, "SYNC"}} {
		n := &testNode{process: start(t, args...)}
		require.EqualValues(t, 10-4*i, n.remaining(t, "key", "10", "3600"))
		got, refused := dial(t, "tcp", n.redis).limit("key", "10", "3600", "COST", "4", end.mode)
		require.Empty(t, refused)
		require.EqualValues(t, [3]int64{1, 10, int64(6 - 4*i)}, got)
		n.signal(t, end.signal)
		if err := n.wait(t); end.signal == syscall.SIGTERM {
			require.NoError(t, err)
		}
	}
	n := &testNode{process: start(t, args...)}
	require.EqualValues(t, 2, n.remaining(t, "key", "10", "3600"))

	again := fails(t, command(t, append([]string{"serve", "--listen=127.0.0.1:0", "--http-listen="}, args...)...))
	require.Contains(t, again, "data directory is in use by another process")
	again = fails(t, command(t, append([]string{"serve", "--listen=127.0.0.1:0", "--http-listen=", "--node-id=other"}, args...)...))
	require.Contains(t, again, "data directory is in use by another process")
}

// Clients of Redis Cluster ask INFO or CONFIG GET whether the node is one of a
// cluster.
func TestClusterEnabled(t *testing.T) {
	t.Parallel()
	ports, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	p := start(t, "--data-dir", t.TempDir(), "--peer-listen=127.0.0.1:0", "--cluster-listen", ports[0])
	for addr, want := range map[string]string{p.redis: "cluster_enabled:0", ports[0]: "cluster_enabled:1"} {
		c := dial(t, "tcp", addr)
		require.Equal(t, [2]string{"cluster-enabled", "yes"}, c.config("cluster-enabled"))
		c.do("INFO", "cluster")
		for _, want := range []string{"# Cluster", want} {
			line, err := c.line()
			require.NoError(t, err)
			require.Equal(t, want, line)
		}
	}
}

// The cluster door speaks TLS if every other port of the Redis protocol does.
func TestClusterDoorSpeaksTLSAsListenDoes(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, certstest.New().Write("headgate", cert, key))
	for _, plain := range []bool{true, false} {
		ports, err := subprocess.Addrs("127.0.0.1", 1)
		require.NoError(t, err)
		args := []string{"--data-dir", t.TempDir(), "--peer-listen=127.0.0.1:0", "--cluster-listen", ports[0], "--tls-cert", cert, "--tls-key", key}
		if plain {
			args = append(args, "--tls-listen=127.0.0.1:0")
		}
		start(t, args...)
		var conn net.Conn
		if plain {
			conn, err = net.Dial("tcp", ports[0])
		} else {
			conn, err = tls.Dial("tcp", ports[0], &tls.Config{InsecureSkipVerify: true})
		}
		require.NoError(t, err)
		c := newClient(t, conn)
		require.Equal(t, "-ERR SELECT is not allowed in cluster mode", c.do("SELECT", "1"))
		require.NoError(t, conn.Close())
	}
}

// Two seconds of downtime are two seconds of refill, also when nobody was left
// to keep the cluster's clock.
func TestDowntimeRefills(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	args := []string{"--data-dir", t.TempDir(), "--peer-listen=127.0.0.1:0", "--on-failure=closed"}
	n := &testNode{process: start(t, args...)}
	n.remaining(t, "key", "1000", "10")
	asked := time.Now()
	got, refused := dial(t, "tcp", n.redis).limit("key", "1000", "10", "COST", "1000", "SYNC")
	answered := time.Now()
	require.Empty(t, refused)
	require.EqualValues(t, [3]int64{1, 1000, 0}, got)
	n.signal(t, syscall.SIGKILL)
	require.Error(t, n.wait(t))
	time.Sleep(2 * time.Second)

	n.process = start(t, args...)
	n.remaining(t, "key", "1000", "10") // until it leads
	least := time.Since(answered)
	remaining := n.remaining(t, "key", "1000", "10")
	most := time.Since(asked)
	require.Greater(t, least, 2*time.Second)
	const slack = 5 // 50 ms: the wall clock may be slewed
	require.GreaterOrEqual(t, remaining, least.Milliseconds()/10-slack)
	require.LessOrEqual(t, remaining, most.Milliseconds()/10+slack)
}

func TestThreeNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--on-failure=closed")
	leader := c.leader(t)
	for i, n := range c.nodes {
		got, refused := dial(t, "tcp", n.redis).limit("key", "10", "3600", "COST", "2", "SYNC")
		require.Empty(t, refused)
		require.EqualValues(t, [3]int64{1, 10, int64(8 - 2*i)}, got, "every node asks the leader")
	}
	follower := c.followers(leader)[0]
	require.Eventually(t, func() bool {
		return leader.status("/readyz") == 200 && follower.status("/readyz") == 200 &&
			strings.Contains(leader.get(t, "/metrics"), `headgate_peer_up{node="`+follower.id+`"} 1`) &&
			strings.Contains(leader.get(t, "/metrics"), "\nheadgate_replication_feature_level 1\n")
	}, waitLimit, 10*time.Millisecond)
	shows := func(n *testNode, metrics ...string) {
		t.Helper()
		body := n.get(t, "/metrics")
		for _, metric := range metrics {
			require.Contains(t, body, "\nheadgate_"+metric+"\n")
		}
	}
	shows(leader, `replication_leader{group="0"} 1`, `replication_leader_known{group="0"} 1`, `replication_role{group="0",role="leading"} 1`, `replication_role{group="0",role="following"} 0`,
		"replication_forwarded_total 0", `redirects_total{group="0"} 0`, "replication_max_unacked_seconds 0.25", `replication_snapshot_age_seconds{group="0"} -1`,
		"replication_feature_level_supported 1", "replication_feature_level_held_back 0",
		`peer_voter{node="`+follower.id+`"} 1`, `peer_feature_level_supported{node="`+follower.id+`"} 1`)
	shows(follower, `replication_leader{group="0"} 0`, `replication_leader_known{group="0"} 1`, `replication_role{group="0",role="following"} 1`, "replication_forwarded_total 1", `group_forwarded_total{group="0"} 1`)
	require.NotContains(t, leader.get(t, "/metrics"), `{node="`+leader.id+`"}`)

	leader.signal(t, syscall.SIGKILL)
	require.Error(t, leader.wait(t))
	for _, n := range c.running() {
		require.EqualValues(t, 4, n.remaining(t, "key", "10", "3600"))
	}
	next := c.leader(t)
	require.NotEqual(t, leader.id, next.id)

	// The killed node comes back, follows, and is a voter still.
	leader.start(t)
	require.Eventually(t, func() bool { return leader.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
	require.EqualValues(t, 4, leader.remaining(t, "key", "10", "3600"))
	for i := range c.nodes {
		s, err := c.status(t, i)
		require.NoError(t, err)
		require.Len(t, s.Members, 3)
		for _, m := range s.Members {
			require.True(t, m.Voter, m.ID)
		}
	}
}

// Every node is restarted in turn under load: nothing is forgotten, nothing
// admitted twice, in async, and no call fails for long.
// A node that waits for the others listens and is not ready.
func TestReadyIsLoggedWhenItIsTrue(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := newCluster(t, 3)
	n := c.nodes[0]
	n.start(t)
	require.Equal(t, "not ready\n", n.page(t, "/readyz", 503))
	require.False(t, n.ready())
	for _, other := range c.nodes[1:] {
		other.start(t)
	}
	require.Eventually(t, n.ready, waitLimit, 10*time.Millisecond)
	require.Equal(t, 200, n.status("/readyz"))
	require.Equal(t, 1, strings.Count(n.stderr.String(), `"msg":"ready"`))
}

func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--on-failure=closed")
	limit := []string{"key", "100000", "3600", "ALGORITHM", "fixed", "ALIGN", "first"}
	stop := make(chan struct{})
	type load struct{ allowed, unknown int64 }
	done := make(chan load)
	current := make(chan *testNode, 1)
	go func() {
		var l load
		n := <-current
		conn, err := net.Dial("tcp", n.redis)
		for {
			select {
			case <-stop:
				done <- l
				return
			case n = <-current:
				conn, err = net.Dial("tcp", n.redis)
			default:
			}
			if err != nil {
				conn, err = net.Dial("tcp", n.redis)
				continue
			}
			allowed, broken := callOnce(conn, limit)
			if broken != nil {
				// The reply is lost with its connection: it may have counted.
				err = broken
				l.unknown++
				conn.Close()
			}
			l.allowed += allowed
			time.Sleep(200 * time.Microsecond)
		}
	}()
	for i, n := range c.nodes {
		current <- c.nodes[(i+1)%3] // clients of the node that stops go elsewhere
		time.Sleep(200 * time.Millisecond)
		n.signal(t, syscall.SIGTERM)
		require.NoError(t, n.wait(t))
		require.NotContains(t, n.stderr.String(), "the next leader has to be elected")
		n.start(t)
		require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
		c.leader(t)
	}
	close(stop)
	l := <-done
	require.Greater(t, l.allowed, int64(100))
	used := 100000 - c.nodes[0].remaining(t, limit...)
	require.GreaterOrEqual(t, used, l.allowed, "a decision was forgotten")
	require.LessOrEqual(t, used, l.allowed+l.unknown)
	require.Less(t, l.unknown, int64(20))
}

// callOnce runs one RL.LIMIT over conn. It returns the units taken, or why the
// outcome is unknown.
func callOnce(conn net.Conn, limit []string) (allowed int64, err error) {
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	args := append([]string{"RL.LIMIT"}, limit...)
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := conn.Write([]byte(request.String())); err != nil {
		return 0, err
	}
	reply := make([]byte, 0, 256)
	for {
		buf := make([]byte, 256)
		n, err := conn.Read(buf)
		if err != nil {
			return 0, err
		}
		reply = append(reply, buf[:n]...)
		switch lines := strings.Count(string(reply), "\r\n"); {
		case reply[0] == '-' && lines == 1:
			if strings.HasPrefix(string(reply), "-UNCERTAIN") {
				return 0, fmt.Errorf("%s", reply)
			}
			return 0, nil
		case lines == 7 && strings.HasPrefix(string(reply), "*6\r\n:1\r\n"):
			return 1, nil
		case lines == 7:
			return 0, nil
		}
	}
}

// careless sends commands to an address after SELECT 3, and does not look at what
// that replies, until stop. It connects again when its connection ends. It returns how
// many of its calls were executed.
func careless(addr string, stop <-chan struct{}) (executed int64) {
	for {
		select {
		case <-stop:
			return executed
		default:
		}
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		_ = nc.SetDeadline(time.Now().Add(waitLimit))
		_, _ = io.WriteString(nc, "SELECT 3\r\nINCR k\r\nINCR k\r\n")
		in := bufio.NewReader(nc)
		for range 3 {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			if line[0] == ':' {
				executed++
			}
		}
		nc.Close()
	}
}

// A client that selected a database stays in it when its node restarts, alone or
// with the others. It need not read the reply of SELECT.
func TestARestartedNodeKnowsItsDatabases(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--durability=sync", "--on-failure=closed") // each answer is kept
	n := c.nodes[0]
	ready := func() bool { return n.status("/readyz") == 200 }
	require.Eventually(t, ready, waitLimit, 10*time.Millisecond)
	stop, executed := make(chan struct{}), make(chan int64)
	for range 2 {
		go func() { executed <- careless(n.redis, stop) }()
	}
	rdb := redis.NewClient(&redis.Options{Addr: n.redis, DB: 3, ContextTimeoutEnabled: true})
	defer rdb.Close()
	go func() {
		n := int64(0)
		for {
			select {
			case <-stop:
				executed <- n
				return
			default:
				if rdb.Incr(context.Background(), "k").Err() == nil {
					n++
				}
			}
		}
	}()
	for range 3 {
		n.signal(t, syscall.SIGKILL)
		require.Error(t, n.wait(t), "killed")
		n.start(t)
		require.Eventually(t, ready, waitLimit, 10*time.Millisecond)
	}
	close(stop)
	total := <-executed + <-executed + <-executed
	require.Equal(t, ":0", dial(t, "tcp", n.redis).do("DBSIZE"))
	counted, err := rdb.Get(context.Background(), "k").Int64()
	require.NoError(t, err)
	require.Positive(t, total)
	require.GreaterOrEqual(t, counted, total)

	for _, n := range c.nodes {
		n.signal(t, syscall.SIGKILL)
		require.Error(t, n.wait(t), "killed")
	}
	n.start(t)
	require.Eventually(t, func() bool { // when it has opened its log
		return dial(t, "tcp", n.redis).do("SELECT", "3") == "+OK"
	}, waitLimit, 10*time.Millisecond, "without a majority")
}

// Commands of policies and holds name no key: any node takes them.
func TestAnyNodeTakesChecksThatNameNoKey(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3)
	leader := c.leader(t)
	rdb := redis.NewClient(&redis.Options{Addr: c.followers(leader)[0].cluster, Protocol: 2})
	defer rdb.Close()
	do := func(args ...any) any {
		t.Helper()
		v, err := rdb.Do(t.Context(), args...).Result()
		require.NoError(t, err, "%v", args)
		return v
	}
	require.Eventually(t, func() bool {
		return rdb.Do(t.Context(), "RL.POLICY", "SET", "p", "{limits: {all: {rate: 9/h}}}").Err() == nil
	}, waitLimit, 10*time.Millisecond)
	require.EqualValues(t, 1, do("RL.CHECK", "p").([]any)[0])
	require.EqualValues(t, 1, do("RL.CHECK", "p", "FAIL", "OPEN").([]any)[0])
	do("RL.RESERVE", "p", "ID", "h", "TTL", "1m")
	do("RL.COMMIT", "p;h")
	do("RL.RESERVE", "p", "ID", "g", "TTL", "1m")
	do("RL.CANCEL", "p;g")
	require.Len(t, do("SCRIPT", "LOAD", "return 1"), 40)
	require.EqualValues(t, 5, do("RL.CHECK", "p").([]any)[2])
	require.ErrorContains(t, rdb.Do(t.Context(), "RL.LIMIT", "k", 9, "1h").Err(), "MOVED ")
}

func TestTransferAndMembership(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--durability=sync")
	leader := c.leader(t)
	peer := "--peer=" + c.peers[1]
	run := func(args ...string) string {
		t.Helper()
		out, err := command(t, append([]string{"cluster", peer}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	_, refused := dial(t, "tcp", c.nodes[2].redis).limit("key", "10", "3600", "COST", "3")
	require.Empty(t, refused)

	require.Equal(t, "transferred\n", run("transfer"))
	next := c.leader(t)
	require.NotEqual(t, leader.id, next.id)
	require.Equal(t, "transferred\n", run("transfer", leader.id))
	require.Equal(t, leader.id, c.leader(t).id)
	require.EqualValues(t, 7, next.remaining(t, "key", "10", "3600"))
	require.Contains(t, fails(t, command(t, "cluster", peer, "transfer", "nobody")), "unknown member: nobody")
	require.Contains(t, fails(t, command(t, "cluster", peer, "transfer", leader.id)), leader.id+" leads already")

	require.Regexp(t, `^snapshot written, up to entry [1-9][0-9]*, in .*s\n$`, run("snapshot"))
	require.Contains(t, run("set-clock"), "the cluster clock has moved forward by ")

	// A fourth node, with the command line of the others, joins as a spare.
	extra := newCluster(t, 1, "--node-id=n4", "--bootstrap-expect=0", "--nonvoter=yes", "--join", c.peers[0])
	extra.nodes[0].start(t)
	require.Eventually(t, func() bool { return extra.nodes[0].status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
	require.EqualValues(t, 7, extra.nodes[0].remaining(t, "key", "10", "3600"))
	require.EventuallyWithT(t, func(t *assert.CollectT) { // until the asked node has met it too
		require.Regexp(t, `(?m)^n4 +`+extra.peers[0]+` +`+extra.nodes[0].redis+` +nonvoter +`, run("status"))
	}, waitLimit, 20*time.Millisecond)
	require.Contains(t, fails(t, command(t, "cluster", peer, "promote", "n5")), "unknown member: n5")
	require.Equal(t, "promoted\n", run("promote", "n4"))
	require.JSONEq(t, `{"result": "removed"}`, run("remove", "n4", "--json"))
	require.Eventually(t, func() bool { return extra.nodes[0].status("/readyz") == 503 }, waitLimit, 10*time.Millisecond)
	require.Contains(t, extra.nodes[0].page(t, "/readyz", 503), "removed from the cluster")
	s, err := c.status(t, 0)
	require.NoError(t, err)
	require.Len(t, s.Members, 3)
}

// With two of three nodes gone for good, recover goes on from the survivor.
func TestRecover(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--durability=sync")
	_, refused := dial(t, "tcp", c.nodes[0].redis).limit("key", "10", "3600", "COST", "3")
	require.Empty(t, refused)
	survivor := c.leader(t)
	require.Contains(t, fails(t, command(t, append([]string{"cluster", "recover"}, survivor.args...)...)), "in use by another process")
	for _, n := range c.nodes {
		n.signal(t, syscall.SIGKILL)
		require.Error(t, n.wait(t))
	}
	out, err := command(t, append([]string{"cluster", "recover"}, survivor.args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "holds a cluster of 1; start it with serve\nvoter "+survivor.id+" at "+survivor.peer+"\n")
	survivor.start(t)
	require.EqualValues(t, 7, survivor.remaining(t, "key", "10", "3600"))

	// A wiped node joins with its old command line.
	for _, n := range c.nodes {
		if n != survivor {
			dir := n.args[3]
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "group-0")))
			n.start(t)
			require.EqualValues(t, 7, n.remaining(t, "key", "10", "3600"))
			break
		}
	}
	require.Contains(t, fails(t, command(t, "cluster", "recover")), "recover needs data-dir")
	for voter, want := range map[string]string{
		"x":                "--voter x: want node-id=peer-address",
		"n2=bad":           `--voter n2=bad: peer address "bad"`,
		"a b=127.0.0.1:1":  `--voter a b=127.0.0.1:1: node id "a b"`,
		"n1=192.0.2.1:171": "--voter n1=192.0.2.1:171: the address of this node is 127.0.0.1:7381, from its peer-listen or peer-advertise",
	} {
		require.Contains(t, fails(t, command(t, "cluster", "recover", "--data-dir", t.TempDir(), "--voter", voter)), want)
	}
}

func TestPeerTLS(t *testing.T) {
	t.Parallel()
	authority, dir := certstest.New(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, authority.Write("node", at("cert.pem"), at("key.pem")))
	require.NoError(t, os.WriteFile(at("ca.pem"), authority.PEM, 0o600))
	flags := []string{"--peer-tls-cert", at("cert.pem"), "--peer-tls-key", at("key.pem"), "--peer-tls-ca", at("ca.pem")}
	c := newCluster(t, 2, flags...)
	c.tls = flags
	for _, n := range c.nodes {
		n.start(t)
	}
	leader := c.leader(t)
	got, refused := dial(t, "tcp", c.followers(leader)[0].redis).limit("key", "10", "3600", "SYNC")
	require.Empty(t, refused)
	require.EqualValues(t, [3]int64{1, 10, 9}, got)
	for _, n := range c.nodes {
		require.NoFileExists(t, filepath.Join(n.args[3], "peer.secret"), "it is not needed")
	}
	require.Equal(t, "+OK", dial(t, "tcp", leader.redis).do("CONFIG", "SET", "requirepass", "pw"))

	require.NotEmpty(t, fails(t, command(t, "cluster", "status", "--peer", c.peers[0], "--timeout=2s")), "no TLS")
	stranger := certstest.New()
	require.NoError(t, stranger.Write("node", at("cert2.pem"), at("key2.pem")))
	// In TLS 1.3 the refusal comes after the handshake, or as a closed connection.
	require.NotEmpty(t, fails(t, command(t, "cluster", "status", "--peer", c.peers[0], "--timeout=2s",
		"--peer-tls-cert", at("cert2.pem"), "--peer-tls-key", at("key2.pem"), "--peer-tls-ca", at("ca.pem"))), "an unknown authority")
	for _, some := range [][]string{flags[:2], flags[:4], flags[4:]} {
		require.Contains(t, fails(t, command(t, append([]string{"cluster", "status"}, some...)...)),
			"peer-tls-cert, peer-tls-key and peer-tls-ca need each other")
	}
}

func TestClusterConfigurationErrors(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--join=127.0.0.1:1"}, "join needs data-dir"},
		{[]string{"--node-id=n1", "--durability=sync"}, "node-id needs data-dir: without it nothing is replicated or kept\ndurability needs data-dir"},
		{[]string{"--data-dir", dir, "--join=127.0.0.1:1"}, "join needs node-id"},
		{[]string{"--data-dir", dir, "--join=nonsense", "--node-id=a"}, "--join"},
		{[]string{"--data-dir", dir, "--node-id=a b"}, "--node-id"},
		{[]string{"--data-dir", dir, "--bootstrap-expect=3"}, "bootstrap-expect 3 needs join"},
		{[]string{"--data-dir", dir, "--bootstrap-expect=1", "--nonvoter=yes"}, "only voters found a cluster"},
		{[]string{"--data-dir", dir, "--peer-listen="}, "data-dir needs peer-listen"},
		{[]string{"--cluster-listen=127.0.0.1:0"}, "cluster-listen needs data-dir"},
		{[]string{"--data-dir", dir, "--cluster-listen=0.0.0.0:1", "--protected-mode=no"}, "cluster-listen 0.0.0.0:1 needs advertise"},
		{[]string{"--data-dir", dir, "--cluster-listen=192.0.2.1:1"}, "cluster-listen 192.0.2.1:1 is open to other machines without a password"},
		{[]string{"--data-dir", dir, "--cluster-listen=127.0.0.1:7381"}, "are the same port"},
		{[]string{"--data-dir", dir, "--peer-listen=0.0.0.0:1"}, "peer-listen 0.0.0.0:1 needs peer-advertise"},
		{[]string{"--data-dir", dir, "--peer-listen=192.0.2.1:1"}, "open to other machines without TLS"},
		{[]string{"--data-dir", dir, "--peer-tls-cert=x"}, "peer-tls-cert, peer-tls-key and peer-tls-ca need each other"},
		{[]string{"--data-dir", dir, "--peer-tls-cert=/nowhere", "--peer-tls-key=/nowhere", "--peer-tls-ca=/nowhere"}, "load peer-tls-cert /nowhere"},
		{[]string{"--data-dir", dir, "--max-unacked=-1s"}, "--max-unacked"},
		{[]string{"--data-dir", dir, "--on-failure=nonsense"}, "want one of default, open, closed"},
		{[]string{"--data-dir", "/proc/nowhere", "--peer-listen=127.0.0.1:0"}, "create data directory"},
		{[]string{"--data-dir", "/proc/nowhere", "--peer-listen=127.0.0.1:0", "--join=127.0.0.1:1", "--node-id=a"}, "create group directory"},
	} {
		args := append([]string{"serve", "--listen=127.0.0.1:0", "--http-listen="}, c.args...)
		require.Contains(t, fails(t, command(t, args...)), c.want, "%v", c.args)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Contains(t, fails(t, command(t, "cluster", "status", "--peer=127.0.0.1:1")), "connection refused")
}
