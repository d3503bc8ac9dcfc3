package server

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
)

// Every write to a watched key fails EXEC, even one that leaves the key as it was, one of the
// same connection, or one of a script.
func TestEveryWriteToAWatchedKeyCounts(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	exec := func(transaction ...string) any {
		c.call("MULTI")
		for _, line := range transaction {
			require.Equal(t, "QUEUED", c.call(line))
		}
		return c.call("EXEC")
	}
	for _, change := range []string{
		"SET k other|SET k v", "SET k v", "INCR n|DECR n", "INCRBY n 0", "DEL k|SET k v", "EXPIRE k 100", "EXPIRE k 100|PERSIST k", "FLUSHALL|SET k v", "FLUSHDB",
		"RENAME k x|RENAME x k", "HSET h f 1", "HSET h f 2|HSET h f 1", "LTRIM l 0 -1", "LMOVE l l LEFT LEFT", "RPOPLPUSH l l", "LSET l 0 a", "SADD s b|SREM s b", "ZADD z 2 a|ZADD z 1 a", "APPEND k x|SET k v", "GETDEL k|SET k v",
		`EVAL "redis.call('set',KEYS[1],'x') redis.call('set',KEYS[1],'v')" 1 k`, `EVAL "for i=1,30000 do end redis.call('set',KEYS[1],'x') redis.call('set',KEYS[1],'v')" 1 k`,
		"RL.LIMIT lim 10 60|DEL lim", "MULTI|SET k x|SET k v|EXEC", "COPY k x|COPY x k REPLACE",
	} {
		for _, by := range []*client{c, other} {
			c.call("DEL x lim h l s z n")
			for _, line := range []string{"SET k v", "SET n 5", "HSET h f 1", "RPUSH l a", "SADD s a", "ZADD z 1 a"} {
				c.call(line)
			}
			if by == c && strings.HasPrefix(change, "MULTI") {
				continue // that would end the watch
			}
			require.Equal(t, "OK", c.call("WATCH k n h l s z lim"))
			for _, line := range strings.Split(change, "|") {
				by.call(line)
			}
			require.Nil(t, exec("SET k lost"), change)
			require.NotNil(t, exec("PING"), "nothing is watched any more")
		}
	}
	for _, look := range []string{"GET k", "EXPIRE none 100", "DEL none", "LRANGE l 0 -1", "SADD s a", "ZADD z 1 a", "SREM s none", "SET k x NX", "SET none x XX", "HDEL h none", "RL.LIMIT lim 10 60 PEEK",
		`EVAL "return redis.call('get',KEYS[1])" 1 k`, "SELECT 1|SET k x|FLUSHDB|SELECT 0", "RENAME k k", "PERSIST k", "MULTI|GET k|EXEC"} {
		require.Equal(t, "OK", c.call("WATCH k h l s z lim none"))
		for _, line := range strings.Split(look, "|") {
			other.call(line)
		}
		require.NotNil(t, exec("PING"), look)
	}
}

// Writes that a script takes back fail no transaction, even if it does so again and again.
// Writes that stay do, even if the script ends with an error.
func TestScriptsThatAreTakenBackFailNoTransaction(t *testing.T) {
	_, addr := startServer(t, Config{Runtime: Runtime{ScriptTime: 50 * time.Millisecond}})
	c, other := dial(t, addr), dial(t, addr)
	for script, changed := range map[string]bool{
		`redis.call('set',KEYS[1],'x') while true do end`:                                               false,
		`redis.call('ltrim',KEYS[2],0,-1) while true do end`:                                            false,
		`redis.call('del',KEYS[1]) redis.call('rpush',KEYS[2],'b') redis.call('dbsize') while 1 do end`: false,
		`redis.call('set',KEYS[1],'x') error('no')`:                                                     true,
		`for i=1,30000 do end redis.call('ltrim',KEYS[2],0,-1)`:                                         true,
	} {
		setup := dial(t, addr)
		setup.call("SET k v")
		setup.call("DEL l")
		setup.call("RPUSH l a")
		require.Equal(t, "OK", c.call("WATCH k l"))
		for range 2 {
			reply := other.call(`EVAL "` + script + `" 2 k l`)
			if !changed {
				require.ErrorContains(t, reply.(error), "Script killed", script)
			}
		}
		c.call("MULTI")
		c.call("GET k")
		if changed {
			require.Nil(t, c.call("EXEC"), script)
		} else {
			require.Equal(t, []any{"v"}, c.call("EXEC"), script)
		}
	}
}

// EXEC, DISCARD, UNWATCH, RESET and the end of a connection leave no watches, even after a
// refused transaction.
func TestWatchesAreGivenBack(t *testing.T) {
	s, addr := startServer(t, Config{})
	watches := func() (n int) { return s.engine.Watches() }
	for _, end := range []string{"UNWATCH", "MULTI|EXEC", "MULTI|DISCARD", "RESET", "MULTI|RESET", "MULTI|NOSUCH|EXEC", "SET k1 v|MULTI|EXEC", "QUIT", "MULTI|SET k1 v|QUIT", "MULTI|FLUSHALL|DBSIZE|EXEC"} {
		c := dial(t, addr)
		require.Equal(t, "OK", c.call("WATCH k1 k2"))
		require.Equal(t, "OK", c.call("WATCH k2 k3"))
		require.Equal(t, 3, watches())
		for _, line := range strings.Split(end, "|") {
			c.call(line)
		}
		eventually(t, end, func() bool { return watches() == 0 })
		c.Close()
	}
	c := dial(t, addr)
	c.call("WATCH k")
	c.Close()
	eventually(t, "it is gone", func() bool { return watches() == 0 })
	c = dial(t, addr)
	c.call("WATCH k")
	require.NoError(t, s.Shutdown(context.Background()))
	require.Zero(t, watches())
}

// Money goes from one account to another by WATCH and EXEC, while others move it
// there and back, and is neither made nor lost. A transaction that looks at the
// whole table is as safe.
func TestTransfersByWatch(t *testing.T) {
	for _, also := range []string{"PING", "DBSIZE", "TIME"} {
		_, addr := startServer(t, Config{IOThreads: 2})
		const accounts, total = 3, 300
		setup := dial(t, addr)
		for i := range accounts {
			setup.call("SET a" + strconv.Itoa(i) + " 100")
		}
		var wg sync.WaitGroup
		for w := range 6 {
			c := dial(t, addr)
			wg.Go(func() {
				for n := 0; n < 100; {
					from, to := "a"+strconv.Itoa((w+n)%accounts), "a"+strconv.Itoa((w+n+1)%accounts)
					c.call("WATCH " + from + " " + to)
					has, _ := strconv.Atoi(c.call("GET " + from).(string))
					gets, _ := strconv.Atoi(c.call("GET " + to).(string))
					c.call("MULTI")
					c.call("SET " + from + " " + strconv.Itoa(has-1))
					c.call(also)
					c.call("SET " + to + " " + strconv.Itoa(gets+1))
					if c.call("EXEC") != nil {
						n++
					}
				}
			})
		}
		wg.Wait()
		sum := 0
		for i := range accounts {
			n, err := strconv.Atoi(setup.call("GET a" + strconv.Itoa(i)).(string))
			require.NoError(t, err)
			sum += n
		}
		require.Equal(t, total, sum, also)
	}
}

// A transaction that watches keys is alone with the table when it looks at the
// whole of it, and refuses what would wait for itself.
func TestWatchingTransactionsHoldTheTable(t *testing.T) {
	s, m := testMachine(t, Config{}, new(committer))
	for _, f := range []struct{ line, reply string }{
		{"INFO", "-" + errTableRead + "\r\n"}, {"MEMORY STATS", "-" + errTableRead + "\r\n"},
		{"DBSIZE", ":1\r\n"}, {"EVAL \"return redis.call('dbsize')\" 0", ":1\r\n"}, {"KEYS *", "*1\r\n" + bulk("k")},
		{"SCAN 0", "*2\r\n" + bulk("0") + "*1\r\n" + bulk("k")}, {"RANDOMKEY", bulk("k")}, {"FLUSHDB", "+OK\r\n"}, {"FLUSHALL", "+OK\r\n"},
		{"EVAL \"return redis.pcall('info').err\" 0", bulk("ERR This Redis command is not allowed after commands about keys from script")},
	} {
		if strings.Contains(f.line, "EVAL") {
			f.line, f.reply = f.line+"\r\nDBSIZE", f.reply+":1\r\n" // or only its keys are held
		}
		m.feed("SET k v\r\nWATCH k\r\nMULTI\r\n" + f.line + "\r\nEXEC\r\n")
		require.True(t, strings.HasSuffix(m.take(), "+QUEUED\r\n*"+strconv.Itoa(1+strings.Count(f.line, "\n"))+"\r\n"+f.reply), f.line)
	}
	m.feed("WATCH k\r\nMULTI\r\nUNWATCH\r\nINCREX k\r\nEXEC\r\n")
	require.Equal(t, "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n-ERR value is not an integer or out of range\r\n", m.take())
	m.feed("MULTI\r\nINFO\r\nEXEC\r\n")
	require.NotContains(t, m.take(), errTableRead)
	require.Zero(t, s.engine.Watches())
}

// A transaction that moves to a worker is not failed by what it has taken back,
// but by what others write until it is stored.
func TestWatchingTransactionsMove(t *testing.T) {
	s, addr := startServer(t, Config{Workers: 1})
	c, other := dial(t, addr), dial(t, addr)
	manyMembers(t, c, "set", 3000)
	for _, changes := range []bool{false, true} {
		c.call("DEL n")
		for _, line := range []string{"WATCH n set", "MULTI", "INCR n", "SUNIONSTORE union set"} {
			c.call(line)
		}
		x := s.workers.turns.Take(anybody(s)) // so that it waits
		c.send("EXEC\r\n")
		eventually(t, "it has moved", func() bool { return s.workers.kept.Load() > 0 })
		require.Equal(t, "0", strconv.Itoa(int(other.call("EXISTS n").(int64))), "it is taken back")
		if changes {
			other.call("INCR n")
			other.call("DEL n")
		}
		x.End()
		if changes {
			require.Nil(t, c.reply())
		} else {
			require.Equal(t, []any{int64(1), int64(3000)}, c.reply())
		}
		require.Equal(t, changes, other.call("EXISTS n") == int64(0))
		eventually(t, "nothing is watched any more", func() bool { return s.engine.Watches() == 0 })
	}
}

// A node that has led, followed, and leads again, has not seen what was written
// meanwhile.
func TestWatchEndsWithLeadership(t *testing.T) {
	e := engine.New(engine.Config{})
	replica := e.Replicate(ledger.New(ledger.Hooks{}))
	replica.Lead(e.Now())
	f := newFakeCluster(partition.Leading)
	_, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
	m.feed("WATCH k\r\n")
	replica.Depose()
	replica.Lead(e.Now())
	m.feed("MULTI\r\nINCREX k\r\nEXEC\r\nMULTI\r\nINCREX k\r\nEXEC\r\n")
	require.Equal(t, "+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:1\r\n:1\r\n", m.take())
}
