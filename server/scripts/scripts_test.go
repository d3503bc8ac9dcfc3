package scripts_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
	"github.com/headgate-io/headgate/server/scripts"
	"github.com/headgate-io/headgate/server/turns"
)

// shaOfAdd is that of a known script, which sets a key unless it is there.
const shaOfAdd = "a08c9c69b7c07ae2485190873b90d128a23e502d"

// endless is a script that has written, and goes on for ever.
const endless = "redis.call('set', KEYS[1], 1) while true do end"

// A script is known by its text and by its SHA1, until it is flushed.
func TestScriptsAreKnown(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	const body = "local n = redis.call('incrby', KEYS[1], ARGV[1]) return n + 0"
	sha := strings.Repeat("f", 40)
	require.Equal(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n", c.do("EVALSHA", sha, "1", "k", "5"))
	require.Equal(t, ":5\r\n", c.do("EVAL", body, "1", "k", "5"))
	loaded := strings.TrimSuffix(strings.TrimPrefix(c.do("SCRIPT", "LOAD", body), "$40\r\n"), "\r\n")
	require.Equal(t, command.SyncCommit, c.call.Sync, "who was answered need never send it again")
	require.Equal(t, ":10\r\n", c.do("EVALSHA", loaded, "1", "k", "5"))
	require.Equal(t, "*2\r\n:1\r\n:0\r\n", c.do("SCRIPT", "EXISTS", loaded, sha))
	n, bytes := r.scripts.Cached()
	require.Equal(t, 1, n)
	require.Positive(t, bytes)
	require.Equal(t, "+OK\r\n", c.do("SCRIPT", "FLUSH"))
	require.Contains(t, c.do("EVALSHA", loaded, "1", "k", "5"), "-NOSCRIPT")
	require.Zero(t, c.moved)
	require.Positive(t, c.took)
	require.EqualValues(t, 2, r.counted.Load(), "the commands that it has called")
	c.do("SET", "large", strings.Repeat("x", 20_000))
	require.Equal(t, ":20000\r\n", c.do("EVAL", "return #redis.call('get', KEYS[1])", "1", "large"))
	require.Zero(t, r.account.Total())
}

// A script that takes too long for a loop is taken back, and runs on a worker.
func TestSlowScriptsMove(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	require.Equal(t, ":1\r\n", c.do("EVAL", "for i = 1, 1e6 do end return redis.call('incr', KEYS[1])", "1", "k"))
	require.Equal(t, ":2\r\n", c.do("EVAL", "local n = redis.call('incr', KEYS[1]) for i = 1, 1e6 do end return n", "1", "k"), "not counted twice")
	require.Equal(t, 2, c.moved)
	require.EqualValues(t, 2, r.ended.Load())
	require.Equal(t, "$1\r\n3\r\n", c.do("EVAL", "return '3' --"+strings.Repeat("x", 8<<10), "0"), "a long text is compiled there")
	require.Equal(t, 3, c.moved)
	require.Zero(t, r.account.Total())
	require.Zero(t, r.scripts.Slow())
	runs := r.scripts.Runs()
	require.EqualValues(t, 3, runs.Runs())
	r.scripts.ResetRuns()
	runs = r.scripts.Runs()
	require.Zero(t, runs.Runs())
}

// A script that is ended from outside has changed nothing, and its error says why.
func TestSlowScriptsAreEnded(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "-NOTBUSY No scripts in execution right now.\r\n", r.dial().do("SCRIPT", "KILL"))
	require.False(t, r.scripts.Kill())
	for want, end := range map[string]func(){
		"-ERR Script killed by user with SCRIPT KILL.": func() { require.Equal(t, "+OK\r\n", r.dial().do("SCRIPT", "KILL")) },
		"-TRYAGAIN": func() { r.scripts.HandOver() },
	} {
		reply := make(chan string)
		go func() { reply <- r.dial().do("EVAL", endless, "1", "k") }()
		eventually(t, "it to leave its loop", func() bool { return r.scripts.Slow() == 1 })
		end()
		require.Contains(t, <-reply, want)
		require.Zero(t, r.engine.Len())
		require.Zero(t, r.scripts.Slow())
		require.Zero(t, r.account.Total())
	}
}

// inbox is a connection that keeps its messages.
type inbox struct {
	mu  sync.Mutex
	got []string
}

func (b *inbox) Put(m pubsub.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &resp.Writer{}
	m.Head(w)
	b.got = append(b.got, strings.ReplaceAll(string(w.B), "\r\n", " ")+string(m.Text()))
}
func (b *inbox) CatchUpWhole() {}
func (b *inbox) Changed()      {}

// listen subscribes to a channel.
func (r *rig) listen(channel string) *inbox {
	b, sub := new(inbox), new(pubsub.Subscriber)
	sub.Init(r.hub, b)
	on := func(fn func(s *pubsub.Subscriber, call *command.Call)) command.Handler {
		return func(call *command.Call) { fn(sub, call) }
	}
	table, err := command.NewTable(pubsub.Commands(r.hub, on), []command.Spec{{Name: "monitor", Arity: 1, Handler: on((*pubsub.Subscriber).Monitor)}})
	require.NoError(r.t, err)
	args := [][]byte{[]byte("SUBSCRIBE"), []byte(channel)}
	if channel == "" {
		args = [][]byte{[]byte("MONITOR")}
	}
	call := command.Call{Spec: table.Find(args), Args: args, W: &resp.Writer{}}
	call.Spec.Handler(&call)
	return b
}

// A script's messages are sent at its end, once, and not at all if it is taken back.
func TestMessagesAreSentAtTheEnd(t *testing.T) {
	r := newRig(t)
	b, c := r.listen("c"), r.dial()
	require.Equal(t, "*2\r\n:1\r\n:0\r\n", c.do("EVAL", "return {redis.call('publish', 'c', 'one'), redis.call('publish', 'none', 'x')}", "0"))
	require.Contains(t, c.do("EVAL", "redis.call('publish', 'c', 'two') for i = 1, 1e6 do end error('own')", "0"), "-ERR")
	require.Equal(t, 1, c.moved, "it was taken back once")
	go func() { eventually(t, "it to move", r.scripts.Kill) }()
	require.Contains(t, c.do("EVAL", "redis.call('publish', 'c', 'three') while true do end", "0"), "killed")
	require.Contains(t, c.do("EVAL", "return redis.call('publish', 'own', 'x')", "0"), "only the server publishes events")
	require.Contains(t, c.do("EVAL", "for i = 1, 1025 do redis.call('publish', 'c', 'x') end", "0"), "at most 1024 messages from one script")
	require.Contains(t, c.do("EVAL_RO", "return redis.call('publish', 'c', 'x')", "0"), "Write commands are not allowed")
	require.Equal(t, 1+1+1024, len(b.got))
	require.True(t, strings.HasSuffix(b.got[0], "one"))
	require.True(t, strings.HasSuffix(b.got[1], "two"), "an error of its own keeps what it has done")
	require.True(t, strings.HasSuffix(b.got[2], " x") || strings.HasSuffix(b.got[2], "c x"), b.got[2])
}

// MONITOR is shown each command once, though a script runs again on a worker.
func TestCalledCommandsAreShownOnce(t *testing.T) {
	r := newRig(t)
	b := r.listen("")
	r.dial().do("EVAL", "redis.call('incr', 'n') for i = 1, 1e6 do end return redis.call('get', 'n')", "0")
	require.Len(t, b.got, 2)
	require.Regexp(t, `^\+\d+\.\d+ \[0 lua\] "incr" "n" $`, b.got[0])
	require.Regexp(t, `^\+\d+\.\d+ \[0 lua\] "get" "n" $`, b.got[1])
}

// A script may call what is guarded only if its client may.
func TestGuardedCommandsInScripts(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	require.Contains(t, c.do("EVAL", "return redis.call('test.guarded')", "0"),
		"ACL failure in script: User default has no permissions to run the 'test.guarded' command")
	c.admin = true
	require.Equal(t, "+OK\r\n", c.do("EVAL", "return redis.call('test.guarded')", "0"))
	require.Contains(t, c.do("EVAL", "return redis.call('eval', 'return 1', 0)", "0"), "This Redis command is not allowed from script")
	require.EqualValues(t, 1, r.counted.Load())
}

// A transaction runs on copies, and is stored in one step unless somebody has changed
// what it watches.
func TestTransactionsRunAside(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	exec := func(watched []engine.Watch, lines ...string) string {
		tx := &scripts.Transaction{Watched: watched, Addr: "1.2.3.4:5", Keys: func(int64) (keys [][]byte) { return nil }}
		for _, line := range lines {
			var args [][]byte
			for _, word := range strings.Fields(line) {
				args = append(args, []byte(word))
			}
			tx.Commands = append(tx.Commands, args)
		}
		w := c.aside(func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) { r.scripts.Exec(r.engine, tx, w, spent, x) })
		return string(w.B)
	}
	b := r.listen("")
	require.Equal(t, "*3\r\n+OK\r\n:2\r\n-ERR value is not an integer or out of range\r\n", exec(nil, "SET n 1", "INCR n", "INCRBY n x"))
	require.Contains(t, b.got[0], "[0 1.2.3.4:5]")
	sess := r.engine.NewSession()
	defer sess.Close()
	watch, err := sess.Watch(r.engine.Now(), []byte("n"))
	require.NoError(t, err)
	defer watch.End()
	require.Equal(t, "*1\r\n:3\r\n", exec([]engine.Watch{watch}, "INCR n"))
	require.Equal(t, "*-1\r\n", exec([]engine.Watch{watch}, "INCR n"), "it has changed")
	require.Equal(t, "$1\r\n3\r\n", c.do("GET", "n"))
	require.Contains(t, exec(nil, "SET big "+strings.Repeat("x", 600_000), "GET big", "GET big"), "-EXECABORT Transaction discarded: the reply exceeds")
	require.Equal(t, ":0\r\n", c.do("EXISTS", "big"))
	require.Zero(t, r.account.Total())
}

// A thread's memory for known scripts keeps nothing of a call with very many arguments, whether
// or not the script ran.
func TestKnownScriptsLetGoOfManyArguments(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for _, head := range [][]string{{"EVALSHA", shaOfAdd, "1", "k", "v", "60"}, {"EVALSHA", shaOfAdd, "1", "k", "v", "0"}} {
		c.do(append(head, make([]string, 4096)...)...)
		require.False(t, scripts.KeepsArguments(c.call.Tally))
	}
	require.Equal(t, "$-1\r\n", c.do("EVALSHA", shaOfAdd, "1", "k", "v", "60"), "it has run with many arguments")
	require.True(t, scripts.KeepsArguments(c.call.Tally), "few are not let go of")
	c.call.Tally.Flush()
	runs := r.scripts.Runs()
	require.EqualValues(t, 2, runs.Native)
}

// A run that is kept holds no copies of keys. One that is given back after the end is not
// kept.
func TestIdleRuns(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	var together sync.WaitGroup
	for i := range 40 {
		together.Go(func() {
			r.dial().do("EVAL", "redis.call('set', KEYS[1], string.rep('x', 1e5)) for i = 1, 1e5 do end return 1", "1", fmt.Sprint("k", i))
		})
	}
	together.Wait()
	n, copies := r.scripts.Idle()
	require.Positive(t, n)
	require.LessOrEqual(t, n, 16)
	require.Zero(t, copies)

	reply := make(chan string)
	go func() { reply <- c.do("EVAL", "return redis.call('test.wait')", "0") }()
	<-r.enter
	r.scripts.Close()
	close(r.leave)
	require.Equal(t, "+OK\r\n", <-reply)
	n, _ = r.scripts.Idle()
	require.Zero(t, n)
	require.Equal(t, r.made.Load(), r.closed.Load())
}

// Many clients run scripts of all kinds at a time.
func TestScriptsAreConcurrent(t *testing.T) {
	r := newRig(t)
	var all sync.WaitGroup
	var done atomic.Int64
	for i := range 8 {
		c := r.dial()
		all.Go(func() {
			for n := range 20 {
				c.do("EVAL", "return redis.call('incr', KEYS[1])", "1", "n")
				switch reply := c.do("EVAL", "redis.call('incr', KEYS[1]) for i = 1, 2e4 do end return 1", "1", "n"); {
				case reply == ":1\r\n":
					done.Add(1)
				case strings.HasPrefix(reply, "-BUSY others keep changing its keys"):
				case strings.HasPrefix(reply, "-ERR Script killed: it held its keys"): // on a busy machine; it has changed nothing
				default:
					t.Error(reply)
				}
				c.do("EVAL", fmt.Sprintf("return %d", i*100+n), "0")
				c.do("EVALSHA", shaOfAdd, "1", fmt.Sprint("k", i), "v", "60")
				c.do("RL.SCRIPTS")
			}
		})
	}
	all.Wait()
	r.scripts.Close()
	r.turns.Close(context.Background())
	require.Equal(t, fmt.Sprintf("$3\r\n%d\r\n", 160+done.Load()), r.dial().do("GET", "n"))
	require.Greater(t, done.Load(), int64(100))
	require.Zero(t, r.account.Total())
	require.Equal(t, r.made.Load(), r.closed.Load())
	require.Less(t, r.turns.Busy(time.Now()), patience)
}
