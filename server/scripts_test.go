package server

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/turns"
)

// resident is the memory of the process, in bytes, or of Go's heap where that is
// not known.
func resident(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	if f, err := os.Open("/proc/self/status"); err == nil {
		defer f.Close()
		for in := bufio.NewScanner(f); in.Scan(); {
			if kb, ok := strings.CutPrefix(in.Text(), "VmRSS:"); ok {
				n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kb, "kB")), 10, 64)
				require.NoError(t, err)
				return n << 10
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A hundred thousand scripts of one client, by EVAL and by SCRIPT LOAD, take bounded memory.
// Another client's scripts continue to run: new ones, and those that it has loaded and uses.
func TestManyDistinctScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector changes: make main runs it")
	}
	s, addr := startServer(t, Config{})
	const batch = 500
	const all = 100_000
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(40*patience)))
	other := dial(t, addr)
	require.NoError(t, other.SetDeadline(time.Now().Add(40*patience)))
	const body = "return redis.call('incr', KEYS[1])"
	sha := other.call(`SCRIPT LOAD "` + body + `"`).(string)
	require.Equal(t, int64(0), other.call(`EVAL "return #KEYS" 0`))
	before := resident(t)
	for _, command := range []string{"SCRIPT LOAD", "EVAL"} {
		late := 0
		for i := 0; i < all; i += batch {
			var lines strings.Builder
			for n := i; n < i+batch; n++ {
				fmt.Fprintf(&lines, `%s "local a, b = %d, tonumber(ARGV[1] or 7) if a > b then return a + b * 2 end return b"`, command, n)
				if command == "EVAL" {
					lines.WriteString(" 0")
				}
				lines.WriteString("\r\n")
			}
			c.send(lines.String())
			began := time.Now()
			_, isErr := other.call("EVALSHA " + sha + " 1 k").(error)
			require.False(t, isErr, "it is in use")
			require.Equal(t, int64(i), other.call(fmt.Sprintf(`EVAL "local other = true return %d" 0`, i)))
			if time.Since(began) >= 2*time.Second {
				late++
			}
			for range batch {
				_, isErr := c.reply().(error)
				require.False(t, isErr)
			}
		}
		require.Less(t, late, all/batch/2, "a busy machine makes some late, a defect all")
		require.Less(t, resident(t)-before, int64(256<<20))
	}
	require.LessOrEqual(t, cachedScripts(s), 10_000)
	_, bytes := s.scripts.Cached()
	require.LessOrEqual(t, bytes, 64<<20)
	require.Equal(t, []any{int64(1)}, other.call("SCRIPT EXISTS "+sha))
}

// leaderOfScripts is a node that leads a cluster.
func leaderOfScripts(t *testing.T) (*engine.Engine, *engine.Replica, *Server, *machine) {
	e := engine.New(engine.Config{})
	replica := e.Replicate(ledger.New(ledger.Hooks{}))
	replica.Lead(e.Now())
	s, m := replicatedMachine(t, newFakeCluster(partition.Leading), Config{Parts: One(e, nil)})
	return e, replica, s, m
}

// replyOf runs a command and returns its reply after its commit.
func replyOf(s *Server, m *machine, line string) string {
	m.feed(line + "\r\n")
	for m.stall&stallWorker != 0 {
		m.lane.runPosts()
		runtime.Gosched()
	}
	s.Partition().Release(1, nil)
	m.lane.runPosts()
	return m.take()
}

// A leader that inherits a full table of texts takes new ones all the same. Texts that nobody
// has used since it leads make room, those from EVAL first.
func TestScriptsOfEarlierLeadersMakeRoom(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		e, _, s, m := leaderOfScripts(t)
		sess := e.NewSession()
		const body = "return 'used'"
		sha := script.Digest([]byte(body))
		require.NoError(t, sess.PutScript(sha, engine.Script{Body: body, Loaded: true}))
		for i := 1; i < engine.MaxScripts; i++ {
			text := fmt.Sprintf("return %d", i)
			require.NoError(t, sess.PutScript(script.Digest([]byte(text)), engine.Script{Body: text, Loaded: loaded || i%2 == 0}))
		}
		require.Equal(t, "$4\r\nused\r\n", replyOf(s, m, "EVALSHA "+sha+" 0"))
		for i := range 200 {
			text := fmt.Sprintf("return %d + 0", i)
			require.Equal(t, fmt.Sprintf(":%d\r\n", i), replyOf(s, m, `EVAL "`+text+`" 0`), "loaded: %t", loaded)
			require.True(t, e.HasScript(script.Digest([]byte(text))))
			text += " "
			require.Equal(t, "$40\r\n"+script.Digest([]byte(text))+"\r\n", replyOf(s, m, `SCRIPT LOAD "`+text+`"`))
			require.True(t, e.HasScript(script.Digest([]byte(text))))
		}
		require.Equal(t, ":0\r\n", replyOf(s, m, `EVAL "return 0 + 0" 0`))
		require.True(t, e.HasScript(sha))
		if !loaded {
			gone := 0
			for i := 2; i < engine.MaxScripts; i += 2 {
				if !e.HasScript(script.Digest(fmt.Appendf(nil, "return %d", i))) {
					gone++
				}
			}
			require.Zero(t, gone, "came with SCRIPT LOAD")
		}
	}
}

// A slow script whose node is deposed before its commit is known is uncertain,
// as any job is.
func TestSlowScriptOfADeposedLeaderIsUncertain(t *testing.T) {
	for _, durable := range []bool{false, true} {
		e := engine.New(engine.Config{})
		replica := e.Replicate(ledger.New(ledger.Hooks{}))
		replica.Lead(e.Now())
		f := newFakeCluster(partition.Leading)
		f.durable = durable
		s, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
		m.feed(`EVAL "local n = 0 for i = 1, 200000 do n = n + 1 end redis.call('set', KEYS[1], n) return n" 1 k` + "\r\n")
		require.NotZero(t, m.stall&stallWorker)
		eventually(t, "the script to end", func() bool { return s.workers.deciding.Load() == 0 })
		require.NoError(t, s.Partition().AwaitBatches(t.Context()))
		require.Equal(t, 1, e.Len())
		replica.Depose()
		s.Partition().Release(1, partition.ErrUncertain)
		f.ticket.Store(2)
		m.lane.runPosts()
		s.Partition().Release(2, nil)
		m.lane.runPosts()
		require.Equal(t, uncertain, m.take(), "durable %t", durable)
		require.Zero(t, e.Len())
	}
}

// A slow script whose node is deposed before it has copied its keys is uncertain too.
func TestSlowScriptThatBeginsOnANodeThatFollows(t *testing.T) {
	e, replica, s, m := leaderOfScripts(t)
	x := s.workers.turns.Take(anybody(s))
	y := s.workers.turns.Take(anybody(s))
	m.feed(`EVAL "for i = 1, 200000 do end redis.call('set', KEYS[1], 1)" 1 k` + "\r\n")
	replica.Depose()
	x.End()
	y.End()
	require.NoError(t, s.Partition().AwaitBatches(t.Context()))
	m.lane.runPosts()
	require.Equal(t, uncertain, m.take())
	require.Zero(t, e.Len())
}

// One that has copied its keys goes on with the copies until it ends, and may be killed.
func TestSlowScriptOnANodeThatFollows(t *testing.T) {
	e, replica, s, m := leaderOfScripts(t)
	const size = 1_000_000
	m.feed(fmt.Sprintf(`EVAL "redis.call('setrange', KEYS[1], %d, 'x') while redis.call('exists', KEYS[1]) == 1 do end" 1 k`, size) + "\r\n")
	eventually(t, "it to copy its key", func() bool { return s.scripts.Slow() == 1 && m.job.Taken() > size })
	replica.Depose()
	require.True(t, s.scripts.Kill())
	s.scripts.HandOver() // as AwaitBatches does if the script does not end soon
	require.NoError(t, s.Partition().AwaitBatches(t.Context()))
	m.lane.runPosts()
	require.Contains(t, m.take(), "Script killed by user")
	require.Zero(t, e.Len())
}

// A handover does not wait for endless scripts: they end, and have changed
// nothing.
func TestHandoverEndsSlowScripts(t *testing.T) {
	e, _, s, m := leaderOfScripts(t)
	m.feed(`EVAL "redis.call('set', KEYS[1], 1) while true do end" 1 k` + "\r\n")
	eventually(t, "it to leave its loop", func() bool { return s.scripts.Slow() == 1 })
	require.NoError(t, s.Partition().AwaitBatches(t.Context()))
	m.lane.runPosts()
	require.Equal(t, "-"+partition.TextHandover+"\r\n", m.take())
	require.Zero(t, e.Len())
}

// Commands that copy a value count as what they take: a script of such commands
// leaves its loop after a few.
func TestScriptOfCopiesLeavesItsLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	s, addr := startServer(t, Config{Runtime: Runtime{ScriptTime: time.Minute}})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
	c.do("SETRANGE a 1000000 x", ":1000001\r\n")
	const calls = 400
	for name, body := range map[string]string{
		"copy":   fmt.Sprintf("for i = 1, %d do redis.call('copy', KEYS[1], KEYS[2], 'REPLACE') end", calls),
		"rename": fmt.Sprintf("for i = 1, %d do redis.call('rename', KEYS[1 + (i - 1) %% 2], KEYS[1 + i %% 2]) end", calls),
	} {
		spec := s.table.ByFullName([]byte(name))
		if err, isErr := c.call(`EVAL "` + body + `" 2 a b`).(error); isErr {
			require.Equal(t, "copy", name)
			require.ErrorContains(t, err, "held its keys", "a slow script copies with its keys held")
		}
		sum := s.stats.sum(func(n *counters) *atomic.Uint64 { return &n.calls[spec.Index] })
		require.Less(t, sum, uint64(calls+calls/2), "on the loop and on the worker: %s", name)
	}
}

// In a script and in a transaction every command has a reply, with too few and with too many
// arguments: none needs anything that only a client's own call has.
func TestCommandsInScriptsAndTransactions(t *testing.T) {
	s, m := testMachine(t, Config{Settings: newFakeSettings()}, new(committer))
	reply := func(args ...string) string {
		m.feed(encode(args...))
		for deadline := time.Now().Add(patience); m.stall != 0; m.lane.runPosts() {
			require.True(t, time.Now().Before(deadline), "%q hangs", args)
		}
		return m.take()
	}
	s.table.Each(func(cmd *command.Spec) {
		if strings.HasPrefix(cmd.Full, "test.") {
			return
		}
		for more := range 5 {
			args := append(strings.Split(cmd.Full, "|"), slices.Repeat([]string{"1"}, more)...)
			script := reply(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, args...)...)
			require.NotEmpty(t, script, args)
			require.NotContains(t, script, "internal error", args)
			exec := ""
			if cmd.Flags&(command.NoMulti|command.Immediate) == 0 && cmd.Full != "client|reply" {
				require.Equal(t, "+OK\r\n", reply("MULTI"))
				queued := reply(args...)
				exec = reply("EXEC")
				reply("RESET") // with subscriptions it could do little else
				require.Equal(t, queued != "+QUEUED\r\n", strings.HasPrefix(exec, "-EXECABORT"), args)
			}
			for _, text := range []string{script, exec} {
				if strings.Contains(text, "wrong number of arguments for") {
					require.Contains(t, text, "'"+cmd.Full+"'", args)
				}
			}
		}
	})
}

// Endless scripts hold up neither other slow scripts nor first EVALs of long
// texts, and can be killed.
func TestEndlessScriptsLeaveRoom(t *testing.T) {
	s, addr := startServer(t, Config{})
	const endless = 8
	var clients []*client
	for range endless {
		c := dial(t, addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
		c.send("EVAL \"local n = 0 while true do n = n + 1 end\" 0\r\n")
		clients = append(clients, c)
	}
	eventually(t, "the scripts to leave their loops", func() bool { return s.scripts.Slow() == endless })
	c := dial(t, addr)
	mostly(t, 10, time.Second, func(i int) {
		require.Equal(t, int64(30000), c.call(`EVAL "local n = 0 for i = 1, 30000 do n = n + 1 end redis.call('set', KEYS[1], n) return n" 1 k`))
		long := fmt.Sprintf("return %d --%s", i, strings.Repeat("x", 2*4<<10))
		require.Equal(t, int64(i), c.call(`EVAL "`+long+`" 0`))
	})
	require.Equal(t, "30000", c.call("GET k"))
	require.Equal(t, endless, s.scripts.Slow())
	require.Equal(t, "OK", c.call("SCRIPT KILL"))
	for _, c := range clients {
		err, isErr := c.reply().(error)
		require.True(t, isErr)
		require.ErrorContains(t, err, "Script killed by user with SCRIPT KILL.")
	}
}

// More slow scripts than go on at a time: all of them end, and each as it should.
// On a machine that is busy some may have to make room.
func TestManySlowScripts(t *testing.T) {
	_, addr := startServer(t, Config{})
	const together = 64 // go on at a time
	const scripts = together + 36
	var wg sync.WaitGroup
	var done, ended atomic.Int64
	for i := range scripts {
		c := dial(t, addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
		wg.Go(func() {
			switch reply := c.call(fmt.Sprintf(`EVAL "local n = 0 for i = 1, 100000 do n = n + 1 end return redis.call('incrby', KEYS[1], 1)" 1 k%d`, i)).(type) {
			case int64:
				done.Add(reply)
			case error:
				require.ErrorContains(t, reply, "BUSY "+turns.ErrCrowded.Error())
				ended.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, scripts, done.Load()+ended.Load())
	require.GreaterOrEqual(t, done.Load(), int64(together))
	require.EqualValues(t, done.Load(), dial(t, addr).call("DBSIZE"))
}
