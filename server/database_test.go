package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
)

// Limits, slots and counters are apart too.
func TestLimitsOfDatabasesAreApart(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.run([]step{
		{0, "RL.LIMIT a 2 10", "[1 2 1 0 5000 0]"},
		{0, "SELECT 9", "OK"},
		{0, "RL.LIMIT a 2 10", "[1 2 1 0 5000 0]"},
		{0, "RL.LIMIT a 2 10 AND b 2 10", "[1 2 0 0 10000 0 [[1 2 0 0 10000 0] [1 2 1 0 5000 0]]]"},
		{0, "CL.THROTTLE c 1 1 60", "[0 2 1 -1 60]"},
		{0, "DBSIZE", "3"},
		{0, "MULTI", "OK"},
		{0, "RL.LIMIT b 2 10", "QUEUED"},
		{0, "EXEC", "[[1 2 0 0 10000 0]]"},
		{0, "RL.RESET a", "1"},
		{0, "SELECT 0", "OK"},
		{0, "DBSIZE", "1"},
		{0, "RL.LIMIT a 2 10 PEEK", "[1 2 0 0 10000 0]"},
		{0, "EXISTS b c", "0"},
	})
}

// Nothing of a command's database reaches the next connection of the same thread.
func TestDatabasesOfConnectionsOfAThread(t *testing.T) {
	r := newRig(t, engine.Config{})
	m := &machine{socket: 1 << 30}
	r.s.clients.admitted.Add(1)
	r.s.initConn(&m.conn, r.lane, m, -1, "other", "test")
	other := &rig{t: t, s: r.s, machine: m, set: r.set}
	for _, line := range []string{"SELECT 3", "SET k three", "MULTI", "SET k x", "SELECT 4", "SET k four", "EXEC", "EXISTS k", "NONSENSE", "SET", "GETRANGE k x 1"} {
		r.words(line)
		other.is("GET k", "nil")
	}
	r.is("RESET", "RESET")
	r.is("GET k", "nil")
	other.is("DBSIZE", "0")
	require.Zero(t, r.lane.db)
}

func TestDatabaseIsShown(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, watcher := dial(t, addr), dial(t, addr)
	watcher.do("MONITOR", "+OK\r\n")
	c.call("SELECT 7")
	c.call("INCR k")
	for _, want := range []string{`"SELECT" "7"`, `"INCR" "k"`} {
		require.Contains(t, watcher.reply(), want)
	}
	c.call("PING")
	require.Contains(t, watcher.reply(), " [7 ")
	require.Contains(t, c.call("CLIENT INFO"), " db=7 ")
	require.Contains(t, c.call("CLIENT LIST"), " db=0 ")
	c.call("RESET")
	require.Contains(t, c.call("CLIENT INFO"), " db=0 ")
	require.Contains(t, c.call("INFO keyspace"), "# Keyspace\r\ndb7:keys=1,expires=0,avg_ttl=0\r\n")
	c.call("SET a v EX 100")
	c.call("SET b v")
	require.Contains(t, c.call("INFO keyspace"), "db0:keys=2,expires=1,avg_ttl=")
}

// A node that forwards sends the database along, and keeps its streams apart.
func TestForwardedDatabases(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	a, b := dial(t, follower.addr), dial(t, follower.addr)
	direct := dial(t, leader.addr)
	a.call("SELECT 5")
	for i := range 50 {
		a.do("INCR k", fmt.Sprintf(":%d\r\n", i+1))
		b.do("DECR k", fmt.Sprintf(":%d\r\n", -i-1))
		if i%10 == 0 {
			a.call("HELLO 3")
			b.call("HELLO 2")
			a.call("HELLO 2")
		}
	}
	direct.do("GET k", bulk("-50"))
	direct.call("SELECT 5")
	direct.do("GET k", bulk("50"))

	// In one pipeline.
	a.send("INCR k\r\nSELECT 6\r\nINCR k\r\nSELECT 5\r\nGET k\r\nSELECT 99\r\nDBSIZE\r\nSELECT 0\r\nGET k\r\n")
	a.expect(":51\r\n+OK\r\n:1\r\n+OK\r\n" + bulk("51") + "-ERR DB index is out of range\r\n:1\r\n+OK\r\n" + bulk("-50"))

	// In a transaction, whose last database is the connection's.
	a.send("SELECT 5\r\nMULTI\r\nGET k\r\nSELECT 6\r\nGET k\r\nSELECT 99\r\nEXEC\r\nGET k\r\n")
	a.expect("+OK\r\n+OK\r\n" + strings.Repeat("+QUEUED\r\n", 4) + "*4\r\n" + bulk("51") + "+OK\r\n" + bulk("1") + "-ERR DB index is out of range\r\n" + bulk("1"))
	b.do("GET k", bulk("-50"))
	require.Contains(t, a.call("CLIENT INFO"), " db=6 ")
	// A stream is not where the transaction began any more.
	for range 2 * partition.Streams {
		a.send("SELECT 5\r\nMULTI\r\nSELECT 6\r\nGET k\r\nEXEC\r\nSELECT 5\r\nGET k\r\n")
		a.expect("+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n" + bulk("1") + "+OK\r\n" + bulk("51"))
	}
	require.Zero(t, follower.engine.Len())
}

// Clients of a Redis Cluster know of one database; nodes among each other do not
// mind.
func TestOneDatabaseOfClusterClients(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{})
	here(t, 0, leader)
	c := dial(t, leader.cluster)
	c.do("SELECT 0", "+OK\r\n")
	c.do("SELECT 1", "-ERR SELECT is not allowed in cluster mode\r\n")
	c.do("SELECT x", "-ERR value is not an integer or out of range\r\n")
	c.call("SET k v")
	c.do("MOVE k 1", "-ERR MOVE is not allowed in cluster mode\r\n")
	c.do("COPY k l DB 1", "-ERR Copying to another database is not allowed in cluster mode\r\n")
	c.do("COPY k l DB 0", ":1\r\n")
	dial(t, leader.forward).do("SELECT 1", "+OK\r\n")
}

// A share that is decided without a leader, and charged afterwards, is of its
// database.
func TestSharesOfDatabases(t *testing.T) {
	n := startNode(t, partition.Orphaned, Config{OnFailure: partition.FailLocal, ForwardTimeout: 10 * time.Millisecond})
	n.set(func(f *fakeCluster) { f.topology = threeVoters })
	c := dial(t, n.addr)
	c.call("SELECT 2")
	c.call("RL.LIMIT k 9 1h")
	c.call("RL.LIMIT k 9 1h")
	require.Equal(t, int64(0), c.call("RL.LIMIT k 9 1h").([]any)[2])
	require.Equal(t, int64(0), c.call("RL.LIMIT k 9 1h").([]any)[0], "the share is used up")
	c.call("SELECT 0")
	require.Equal(t, int64(2), c.call("RL.LIMIT k 9 1h").([]any)[2], "that of another database is whole")
	n.become(partition.Leading)
	eventually(t, "both databases are charged", func() bool {
		remaining := func() any { return c.call("RL.LIMIT k 9 1h COST 0").([]any)[2] }
		c.call("SELECT 0")
		zero := remaining()
		c.call("SELECT 2")
		return zero == int64(8) && remaining() == int64(6)
	})
}
