package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/script"
)

// orphan is a node that knew these counters when it lost its leader, and a
// connection to it.
func orphan(t *testing.T, policy partition.OnFailure, commands ...string) (*fakeCluster, *Server, *machine) {
	t.Helper()
	f := newFakeCluster(partition.Leading)
	f.topology = threeVoters
	s, m := replicatedMachine(t, f, Config{OnFailure: policy})
	for _, c := range commands {
		m.feed(encode(splitQuoted(c)...))
		s.Partition().Release(f.ticket.Add(1)-1, nil)
		m.settle()
		require.NotContains(t, m.take(), "-", c)
	}
	f.become(partition.Orphaned)
	return f, s, m
}

// asked sends commands, one after another, and compares each reply.
func asked(t *testing.T, m *machine, commandsAndReplies ...string) {
	t.Helper()
	for i := 0; i < len(commandsAndReplies); i += 2 {
		m.feed(commandsAndReplies[i] + "\r\n")
		require.Equal(t, commandsAndReplies[i+1], m.take(), commandsAndReplies[i])
	}
}

// Answers of the failure policy are in no table, so an EXEC that depends on one does nothing.
// If the leader was only late, it would execute the rest later.
func TestWatchDoesNotRestOnAFailurePolicy(t *testing.T) {
	f, _, m := orphan(t, partition.FailLocal, "SET k 100")
	f.become(partition.Leading)
	asked(t, m, "WATCH k", "+OK\r\n")
	f.become(partition.Stalled)
	asked(t, m, "GET k", "$3\r\n100\r\n")
	f.become(partition.Leading)
	asked(t, m, "MULTI", "+OK\r\n", "SET k 106", "+QUEUED\r\n", "EXEC", "*-1\r\n", "WATCH k", "+OK\r\n", "MULTI", "+OK\r\n", "SET k 106", "+QUEUED\r\n")
	m.feed("EXEC\r\n")
	require.Equal(t, "*1\r\n+OK\r\n", m.take())
}

// A loaded script is on the next leader: its SHA1 is answered when its text is committed, even
// if other replies do not wait for that.
func TestScriptLoadWaitsForItsCommit(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.topology = threeVoters
	s, m := replicatedMachine(t, f, Config{})
	m.feed("SET k 1\r\n")
	require.Equal(t, "+OK\r\n", m.take())
	m.feed("SCRIPT LOAD \"return 1\"\r\n")
	require.Empty(t, m.take())
	s.Partition().Release(f.ticket.Add(1)-1, nil)
	m.settle()
	require.Equal(t, "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n", m.take())
}

// Without a leader counters go on from this node's copies, with the times to
// live that they have there.
func TestCountersGoOnWithoutALeader(t *testing.T) {
	_, _, m := orphan(t, partition.FailLocal, "INCRBY known 7", "EXPIRE known 100", "INCR endless")
	asked(t, m,
		"INCR known", ":8\r\n", "INCRBY known 5", ":13\r\n", "DECR known", ":12\r\n", "DECRBY known 2", ":10\r\n", "GET known", "$2\r\n10\r\n",
		"TTL known", ":100\r\n", "INCR endless", ":2\r\n", "TTL endless", ":-1\r\n",
		"GET new", "$-1\r\n", "EXISTS new known", ":1\r\n", "INCRBY new 3", ":3\r\n", "TTL new", ":-1\r\n", "EXPIRE new 60", ":1\r\n", "TTL new", ":60\r\n",
		"EXPIRE new 30 NX", ":0\r\n", "PEXPIRE new 500000", ":1\r\n", "TTL new", ":500\r\n", "MGET new known none", "*3\r\n$1\r\n3\r\n$2\r\n10\r\n$-1\r\n",
		"SET set 0 EX 60 NX", "+OK\r\n", "SET set 5 EX 60 NX", "$-1\r\n", "INCR set", ":1\r\n", "TTL set", ":60\r\n", "SETNX set 9", ":0\r\n", "SETEX setex 60 0", "+OK\r\n", "INCR setex", ":1\r\n",
		"INCREX bounded EX 60 UBOUND 2", "*2\r\n:1\r\n:1\r\n", "INCREX bounded EX 60 UBOUND 2 BYINT 2", "*2\r\n:1\r\n:0\r\n", "EXPIRE none 10", ":0\r\n",
		"SELECT 1", "+OK\r\n", "INCR known", ":1\r\n", "SELECT 0", "+OK\r\n", "GET known", "$2\r\n10\r\n",
		"INCRBY known x", "-ERR value is not an integer or out of range\r\n", "INCRBY known 9223372036854775807", "-ERR increment or decrement would overflow\r\n",
	)
	m.feed("MULTI\r\nINCR tx\r\nEXPIRE tx 60\r\nINCRBY tx x\r\nTTL tx\r\nPING\r\nEXEC\r\n")
	require.Equal(t, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"+
		"*5\r\n:1\r\n:1\r\n-ERR value is not an integer or out of range\r\n:60\r\n+PONG\r\n", m.take())
	m.feed("INCRBY pipe 2\r\nEXPIRE pipe 60\r\nINCR pipe\r\n")
	require.Equal(t, ":2\r\n:1\r\n:3\r\n", m.take())
}

// Only the leader answers commands that are not about counters, or do not increment them.
func TestNotEverythingIsCountedWithoutALeader(t *testing.T) {
	for _, policy := range []partition.OnFailure{partition.FailLocal, partition.FailOpen} {
		_, _, m := orphan(t, policy, "INCR n", "SET text abc", "RPUSH list a", "SETEX half 100 1.5")
		for _, c := range []string{"DEL n", "PERSIST n", "GETSET n 1", "GETDEL n", "INCRBYFLOAT n 1", "APPEND n 1", "RENAME n m", "HSET h f 1", "ZADD z 1 a", "LPUSH list a",
			"SET lock token NX", "SETNX lock token", "SET fresh abc", "INCREX f BYFLOAT 0.5", "MGET" + strings.Repeat(" n", 65), "WAIT 1 0", "KEYS *",
			"FLUSHALL", "UNLINK n", "MSET a 1", "COPY n m"} {
			m.feed(c + "\r\n")
			require.Regexp(t, "^-CLUSTERDOWN ", m.take(), c)
		}
		for _, tx := range []string{"INCR n\r\nDEL n", "INCR n\r\nRL.LIMIT k 9 1h", "SELECT 1\r\nINCR n", "INCR n\r\nSET lock token NX"} {
			m.feed("MULTI\r\n" + tx + "\r\nEXEC\r\n")
			require.Regexp(t, "\\+QUEUED\r\n-CLUSTERDOWN ", m.take(), tx)
		}
		asked(t, m, "EXISTS lock fresh f", ":0\r\n")
		for _, c := range []string{"INCR text", "GET text", "TTL text", "GET half", "EXISTS n list", "EXPIRE list 10"} {
			m.feed(c + "\r\n")
			require.Regexp(t, "^-CLUSTERDOWN ", m.take(), c)
		}
		if policy == partition.FailOpen {
			asked(t, m, "INCR n", ":1\r\n")
			continue
		}
		asked(t, m, "GET n", "$1\r\n1\r\n")
		for _, c := range []string{"SET n 5", "SETEX n 60 5", "SET n 5 XX", "EXPIRE n 0", "EXPIRE n -1"} {
			m.feed(c + "\r\n")
			require.Regexp(t, "^-CLUSTERDOWN ", m.take(), c)
		}
		asked(t, m, "GET n", "$1\r\n1\r\n", "TTL n", ":-1\r\n")
	}
}

// Scripts that call nothing but commands about counters of their keys count too.
func TestScriptsCountWithoutALeader(t *testing.T) {
	const window = `EVAL "local n = redis.call('incrby', KEYS[1], ARGV[1]) if n == tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[2]) end return {n, redis.call('pttl', KEYS[1]) > 0}" 1 %s 2 60000`
	run := func(m *machine, line string) string {
		t.Helper()
		m.feed(encode(splitQuoted(line)...))
		return m.take()
	}
	_, s, m := orphan(t, partition.FailLocal, "INCRBY known 7", "EXPIRE known 100", "SCRIPT LOAD return(redis.call('incr',KEYS[1]))")
	require.Equal(t, "*2\r\n:2\r\n:1\r\n", run(m, fmt.Sprintf(window, "new")))
	require.Equal(t, "*2\r\n:4\r\n:1\r\n", run(m, fmt.Sprintf(window, "new")))
	require.Equal(t, "*2\r\n:9\r\n:1\r\n", run(m, fmt.Sprintf(window, "known")))
	sha := script.Digest([]byte("return(redis.call('incr',KEYS[1]))"))
	require.Equal(t, ":10\r\n", run(m, "EVALSHA "+sha+" 1 known"))
	require.Equal(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n", run(m, "EVALSHA "+strings.Repeat("0", 40)+" 1 known"))
	require.Equal(t, "*3\r\n+OK\r\n$-1\r\n:1\r\n", run(m, `EVAL "return {redis.call('set',KEYS[1],0,'EX',60,'NX'), redis.call('set',KEYS[1],0,'EX',60,'NX'), redis.call('incr',KEYS[1])}" 1 first`))
	require.Equal(t, "$2\r\n10\r\n", run(m, `EVAL "return redis.call('get',KEYS[1])" 1 known`))
	require.Regexp(t, "^-ERR value is not an integer", run(m, `EVAL "redis.call('incr',KEYS[1]) return redis.call('incrby',KEYS[1],'x')" 1 failed`))
	asked(t, m, "GET failed", "$1\r\n1\r\n")
	for _, body := range []string{
		"redis.call('incr',KEYS[1]) return redis.call('hset','h','f',1)", "redis.call('incr',KEYS[1]) return redis.pcall('del',KEYS[1])", "redis.call('incr',KEYS[1]) return redis.call('incr','undeclared')",
		"redis.call('incr',KEYS[1]) redis.call('select',1) return 1", "redis.call('incr',KEYS[1]) return redis.call('set',KEYS[1],5)", "redis.call('incr',KEYS[1]) while true do end",
		"redis.call('incr',KEYS[1]) return redis.call('dbsize')", "redis.call('incr',KEYS[1]) return redis.call('rl.limit','k',5,60)",
	} {
		require.Regexp(t, "^-CLUSTERDOWN ", run(m, "EVAL \""+body+"\" 1 known"), body)
	}
	asked(t, m, "GET known", "$2\r\n10\r\n", "EXISTS undeclared", ":0\r\n")
	runs, _ := s.ScriptRuns()
	require.EqualValues(t, 7, runs.Runs())

	// Of a known one nobody need have sent the text, if it does nothing but count.
	const flexible, redisRate = "EVALSHA a1de965f42e177aa339706bd580f049065eca79a 1 flexible 1 60", "EVALSHA f52a5b566060d79fd321d695df55bc918339c4aa 1 rate:k 10 10 1 1"
	require.Regexp(t, "^-CLUSTERDOWN ", run(m, redisRate))
	require.Regexp(t, "^-CLUSTERDOWN ", run(m, "EVALSHA a08c9c69b7c07ae2485190873b90d128a23e502d 1 timer 1700000000 60"), "what SETEX gives is no increment")
	require.Equal(t, "*2\r\n:1\r\n:60000\r\n", run(m, flexible))
	asked(t, m, "TTL flexible", ":60\r\n", "GET flexible", "$1\r\n1\r\n")

	_, _, m = orphan(t, partition.FailOpen, "INCRBY known 7")
	for range 2 {
		require.Equal(t, "*2\r\n:2\r\n:1\r\n", run(m, fmt.Sprintf(window, "known")), "as on an absent key")
	}
	_, _, m = orphan(t, partition.FailClosed, "INCRBY known 7")
	require.Regexp(t, "^-CLUSTERDOWN ", run(m, fmt.Sprintf(window, "known")))
}

// splitQuoted splits a line at blanks outside of double quotes.
func splitQuoted(line string) []string {
	var words []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// With on-failure closed nothing is.
func TestNothingIsCountedWhenClosed(t *testing.T) {
	_, _, m := orphan(t, partition.FailClosed, "INCR n")
	for _, c := range []string{"INCR n", "GET n", "EXPIRE n 10", "SET m 1 NX"} {
		m.feed(c + "\r\n")
		require.Regexp(t, "^-CLUSTERDOWN ", m.take(), c)
	}
}

// With on-failure open every step finds empty keys.
func TestOpenCountsOnEmptyKeys(t *testing.T) {
	_, s, m := orphan(t, partition.FailOpen, "INCRBY n 7")
	for range 2 {
		asked(t, m, "INCR n", ":1\r\n", "GET n", "$-1\r\n", "TTL n", ":-2\r\n", "EXPIRE n 10", ":0\r\n", "SET n 0 EX 60 NX", "+OK\r\n", "EXISTS n", ":0\r\n")
		m.feed("MULTI\r\nSET n 0 EX 60 NX\r\nINCR n\r\nTTL n\r\nEXEC\r\n")
		require.Contains(t, m.take(), "*3\r\n+OK\r\n:1\r\n:60\r\n")
	}
	require.EqualValues(t, 14, s.Stats().Degraded)
}

// A node without a vote has no answer.
func TestANodeWithoutAVoteDoesNotCount(t *testing.T) {
	f, _, m := orphan(t, partition.FailLocal, "INCR n")
	f.set(func(f *fakeCluster) { f.topology.Self = "spare" })
	m.feed("INCR n\r\n")
	require.Regexp(t, "^-CLUSTERDOWN ", m.take())
}

// Counters and limits do not get at each other's keys.
func TestCountersAndSharesKeepApart(t *testing.T) {
	_, _, m := orphan(t, partition.FailLocal, "INCR n")
	asked(t, m, "INCR n", ":2\r\n")
	m.feed("RL.LIMIT n 9 1h\r\n")
	require.Regexp(t, "^-WRONGTYPE ", m.take())
	m.feed("RL.LIMIT k 9 1h\r\n")
	require.Contains(t, m.take(), "*6\r\n:1\r\n:3\r\n:2\r\n")
	m.feed("INCR k\r\n")
	require.Regexp(t, "^-CLUSTERDOWN ", m.take())
	m.feed("RL.LIMIT k 9 1h\r\n")
	require.Contains(t, m.take(), "*6\r\n:1\r\n:3\r\n:1\r\n", "the share is as it was")
	asked(t, m, "GET n", "$1\r\n2\r\n")
}

// Increments without a leader are added at the next one, once, even if the first answers are
// lost.
func TestIncrementsAreAddedOnce(t *testing.T) {
	leading := newFakeCluster(partition.Leading)
	leader, at := replicatedMachine(t, leading, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = leader.ServeForwarded(ln) }()

	f, _, m := orphan(t, partition.FailLocal, "INCRBY n 7", "EXPIRE n 100")
	asked(t, m, "INCR n", ":8\r\n", "INCRBY n 4", ":12\r\n", "DECR n", ":11\r\n", "INCR new", ":1\r\n", "EXPIRE new 60", ":1\r\n", "INCR new", ":2\r\n",
		"SET timer 1700000000 NX EX 60", "+OK\r\n", "SET other 1700000000 NX EX 60", "+OK\r\n", "SELECT 3", "+OK\r\n", "INCRBY n 2", ":2\r\n", "EXPIRE n 500", ":1\r\n")
	say := func(commandsAndReplies ...string) {
		t.Helper()
		for i := 0; i < len(commandsAndReplies); i += 2 {
			at.feed(commandsAndReplies[i] + "\r\n")
			leader.Partition().Release(leading.ticket.Add(1)-1, nil)
			require.Regexp(t, "^"+commandsAndReplies[i+1]+"$", strings.ReplaceAll(at.take(), "$", ""), commandsAndReplies[i])
		}
	}
	// The leader has more than the copy, and a time to live that ends later.
	say("INCRBY n 9", ":9\r\n", "EXPIRE n 200", ":1\r\n", "SET timer 1600000000 EX 90", "\\+OK\r\n")
	f.set(func(f *fakeCluster) { f.role, f.dial = partition.Following, flakyDial(ln.Addr().String()) })

	sess := leader.engine.NewSession()
	defer sess.Close()
	sess.Use(3)
	require.Eventually(t, func() bool {
		leader.Partition().Release(leading.ticket.Add(1)-1, nil) // its commits are this test's to make
		is, _ := sess.Exists(leader.engine.Now(), []byte("n"))
		return is
	}, 10*time.Second, 10*time.Millisecond)
	for range 50 {
		leader.Partition().Release(leading.ticket.Add(1)-1, nil)
		time.Sleep(10 * time.Millisecond)
	}
	say("GET n", "2\r\n13\r\n", "TTL n", ":(200|199)\r\n", "GET new", "1\r\n2\r\n", "TTL new", ":(60|59)\r\n", "GET other", "10\r\n1700000000\r\n",
		"GET timer", "10\r\n1600000000\r\n", "TTL timer", ":(90|89)\r\n", "SELECT 3", "\\+OK\r\n", "GET n", "1\r\n2\r\n", "TTL n", ":(500|499)\r\n")
}

// Without a leader N nodes admit at most N times what a counter allows.
func TestCountersAdmitAtMostNTimesTheLimit(t *testing.T) {
	const limit = 10
	admitted := 0
	for range len(threeVoters.Nodes) - 1 {
		_, _, m := orphan(t, partition.FailLocal, "INCRBY n 4", "EXPIRE n 100")
		for range 3 * limit {
			m.feed("INCR n\r\n")
			var n int
			_, err := fmt.Sscanf(m.take(), ":%d\r\n", &n)
			require.NoError(t, err)
			if n <= limit {
				admitted++
			}
		}
	}
	require.Equal(t, 3*(limit-4), admitted)
}
