package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

const (
	// Known scripts: one sets a key that does not exist, one takes the first of
	// some keys that is free, one reads a window.
	shaOfAdd     = "a08c9c69b7c07ae2485190873b90d128a23e502d"
	shaOfFunnel  = "420ca604de4310d8301943a71390ee669720d640"
	shaOfTooMany = "1c5d436d6863e949247f4fa66fa1e32b7fa18da9"

	// textOfCount is known by its fingerprint.
	textOfCount = "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n"
)

// interpreted reports whether any script has called INCR since the last time it
// was asked.
func (c *client) interpreted() bool {
	c.t.Helper()
	stats, ok := c.call("INFO commandstats").(string)
	require.True(c.t, ok)
	c.do("CONFIG RESETSTAT", "+OK\r\n")
	return strings.Contains(stats, "cmdstat_incr:")
}

// A known script is answered though nobody has sent it, and still is after SCRIPT
// FLUSH.
func TestKnownScriptNeedNotBeLoaded(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	for range 2 {
		c.do("SCRIPT EXISTS "+shaOfAdd+" "+strings.ToUpper(shaOfAdd)+" ffffffffffffffffffffffffffffffffffffffff", "*3\r\n:1\r\n:1\r\n:0\r\n")
		c.call("DEL k")
		c.do("EVALSHA "+shaOfAdd+" 1 k v 60", "+OK\r\n")
		c.do("EVALSHA "+strings.ToUpper(shaOfAdd)+" 1 k v 60", "$-1\r\n")
		c.do("TTL k", ":60\r\n")
		c.do("SCRIPT FLUSH", "+OK\r\n")
	}
	c.call("HELLO 3")
	c.do("EVALSHA "+shaOfAdd+" 1 k v 60", "_\r\n")
}

// A script is known by what it does, and runs as Go: its commands are not called.
func TestKnownScriptByFingerprint(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.do("EVAL "+quote(textOfCount)+" 1 k 60", ":1\r\n")
	sha := c.call("SCRIPT LOAD " + quote("-- a copy of it\nlocal x = redis.call( 'incr' , KEYS[1] );\nif x == 1 then redis.call('expire', KEYS[1], ARGV[1]) end return x")).(string)
	c.do("EVALSHA "+sha+" 1 k 60", ":2\r\n")
	require.False(t, c.interpreted())
	c.do("EVAL "+quote("local _ = 0 "+textOfCount)+" 1 k 60", ":3\r\n")
	require.True(t, c.interpreted(), "another script")
	c.do("EVAL "+quote("#!lua\n"+textOfCount)+" 1 k 60", ":4\r\n")
	require.True(t, c.interpreted(), "one with flags")
}

// If a known script would not act exactly as its text, the text runs; without a text nothing
// happens.
func TestKnownScriptDeclines(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.do("EVALSHA "+shaOfAdd+" 1 k v 0", "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	c.do("EVALSHA "+shaOfAdd+" 0", "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	c.do("EXISTS k", ":0\r\n")
	c.do("EVALSHA "+shaOfAdd+" 2 k", "-ERR Number of keys can't be greater than number of args\r\n")
	c.do("EVALSHA "+shaOfAdd+" x k", "-ERR value is not an integer or out of range\r\n")

	c.do("HSET hash f v", ":1\r\n")
	err := c.call("EVAL " + quote(textOfCount) + " 1 hash 60").(error)
	require.ErrorContains(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value script: ")
	c.do("EVAL "+quote(textOfCount)+" 1 k 0", ":1\r\n")
	c.do("EXISTS k", ":0\r\n")
	err = c.call("EVAL " + quote(textOfCount) + " 1 k x").(error)
	require.ErrorContains(t, err, "value is not an integer or out of range script: ")
	c.do("GET k", "$1\r\n1\r\n")
}

// In a transaction, with one key and with several.
func TestKnownScriptsInTransactions(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.do("MULTI", "+OK\r\n")
	for _, cmd := range []string{"EVALSHA " + shaOfAdd + " 1 a x 60", "EVALSHA " + shaOfFunnel + " 2 a b name 60 me", "EVALSHA " + shaOfFunnel + " 2 a b name 60 me", "GET b", "EVALSHA " + shaOfFunnel + " 1 hash n 0 me"} {
		c.do(cmd, "+QUEUED\r\n")
	}
	c.do("EXEC", "*5\r\n+OK\r\n$5\r\nname2\r\n$-1\r\n$2\r\nme\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n")
	c.do("EVALSHA "+shaOfFunnel+" 3 a b c name 60 me", "$5\r\nname3\r\n")
}

// A script that only reads may be called as such, one that writes may not.
func TestKnownScriptsReadOnly(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.do("EVALSHA_RO "+shaOfTooMany+" 1 k 10.5 10 5 3", "*2\r\n:0\r\n:15\r\n")
	c.do("EVALSHA_RO "+shaOfAdd+" 1 k v 60", "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	err := c.call("EVAL_RO " + quote(textOfCount) + " 1 k 60").(error)
	require.ErrorContains(t, err, "Write commands are not allowed from read-only scripts.")
	c.do("EXISTS k", ":0\r\n")
}

// MONITOR shows what a script calls.
func TestKnownScriptsAreWatched(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, watcher := dial(t, addr), dial(t, addr)
	watcher.do("MONITOR", "+OK\r\n")
	c.do("EVAL "+quote(textOfCount)+" 1 k 60", ":1\r\n")
	var seen []string
	for len(seen) < 3 {
		seen = append(seen, watcher.reply().(string))
	}
	require.Contains(t, seen[1], `lua] "INCR" "k"`)
	require.Contains(t, seen[2], `lua] "EXPIRE" "k" "60"`)
	require.True(t, c.interpreted())
}

// An interpreted script is timed as any command that may take long, a known one
// now and then, as fast commands are.
func TestKnownScriptsAreTimedAsFastCommands(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	timed := func(name string) uint64 {
		for _, d := range s.Durations() {
			if d.Command == name {
				return d.Count
			}
		}
		return 0
	}
	c.do("SET k v", "+OK\r\n")
	for range 256 {
		c.do("EVALSHA "+shaOfAdd+" 1 k v 60", "$-1\r\n")
	}
	require.Less(t, timed("evalsha"), uint64(100))
	for range 10 {
		c.do("EVAL "+quote("return 1")+" 0", ":1\r\n")
	}
	require.Equal(t, uint64(10), timed("eval"))

	_, addr = startServer(t, Config{Runtime: Runtime{SlowlogThreshold: 0, SlowlogMaxLen: 4}})
	c = dial(t, addr)
	c.do("EVALSHA "+shaOfAdd+" 1 k v 60", "+OK\r\n")
	require.Contains(t, fmt.Sprint(c.call("SLOWLOG GET")), shaOfAdd, "the slow log asks for all")
}

// A known script in one database leaves the others alone.
func TestKnownScriptsInDatabases(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.do("EVALSHA "+shaOfFunnel+" 2 a b name 60 me", "$5\r\nname1\r\n")
	c.do("SELECT 3", "+OK\r\n")
	c.do("EVALSHA "+shaOfAdd+" 1 a x 60", "+OK\r\n")
	c.do("EVALSHA "+shaOfFunnel+" 2 a b name 60 me", "$5\r\nname2\r\n")
	c.do("GET a", "$1\r\nx\r\n")
	c.do("SELECT 0", "+OK\r\n")
	c.do("GET a", "$2\r\nme\r\n")
	c.do("EXISTS b", ":0\r\n")
}

// EXPIRE takes whole numbers only, so a sliding log whose window is none is left
// to its Lua.
func TestKnownSlidingLogLeavesOddWindowsToLua(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	const text = "redis.call('zremrangebyscore', KEYS[1], 0, ARGV[1] - ARGV[2]) local n = redis.call('zcard', KEYS[1]) " +
		"if n < tonumber(ARGV[3]) then redis.call('zadd', KEYS[1], ARGV[1], ARGV[1]) redis.call('expire', KEYS[1], ARGV[2]) return 1 end return 0"
	require.Equal(t, int64(1), c.call(`EVAL "`+text+`" 1 known 100 60 5`))
	require.Equal(t, int64(60), c.call("TTL known"))
	for _, window := range []string{"60.0", "060", "6e1"} {
		require.ErrorContains(t, c.call(`EVAL "`+text+`" 1 odd 100 `+window+" 5").(error), "value is not an integer or out of range", window)
	}
}

// knownCalls are calls of known scripts, which follow one another.
var knownCalls = map[string][]string{
	"add":  {"EVALSHA " + shaOfAdd + " 1 add 1 60"},
	"swap": {"EVALSHA 535b2fd00a12a23393fe15cf99599ecc51cd3007 1 swap state state 60000"},
	"moving window": {
		"EVALSHA 741eab638ba93ed71020bb821c45c022d0fa02c4 1 moving 1700000000.1234567 1 60 1",
		"EVALSHA 741eab638ba93ed71020bb821c45c022d0fa02c4 1 moving 1700000100.1234567 1 60 1",
		"DEL moving",
	},
	"throttle": {"EVALSHA 29cc07bd431ccbf64637e5dcb60484560fdfa2da 1 throttle 1700000000.1234 1700000000 60 1000000"},
	"two keys": {"EVALSHA 0ad5736ed1c04aae6ec194376c784b89b8c08a7a 2 tokens filled 10 100 1700000000 1"},
	"in turns": {"EVALSHA " + shaOfAdd + " 1 add 1 60", "EVALSHA 535b2fd00a12a23393fe15cf99599ecc51cd3007 1 swap state state 60000"},
	"GET":      {"GET swap"}, // to compare with
}

// knownBatch is a pipeline of 16 calls, of which each has been made before.
func knownBatch(t testing.TB, calls []string) (m *machine, batch []byte) {
	s := newTestServer(t, Config{Parts: One(engine.New(engine.Config{}), nil), Runtime: Runtime{SlowlogThreshold: time.Second}}, func() uint64 { return 1 })
	m = newMachine(s)
	m.feed(encode("SET", "swap", "state"))
	for i := range 16 {
		batch = append(batch, encode(strings.Fields(calls[i%len(calls)])...)...)
	}
	m.feed(string(batch))
	require.NotContains(t, m.take(), "-NOSCRIPT")
	return m, batch
}

// A known script allocates nothing, from the bytes to the reply.
func TestKnownScriptsInBatchesAllocateNothing(t *testing.T) {
	for name, calls := range knownCalls {
		m, batch := knownBatch(t, calls)
		require.Zero(t, testing.AllocsPerRun(200, func() { m.batch(batch) }), name)
	}
}

// batch runs a batch and drops the replies.
func (m *machine) batch(data []byte) {
	m.lane.begin()
	m.input(data)
	m.lane.takeOutput()
	m.lane.end()
}

// BenchmarkKnown is a known script in a pipeline of 16, from the bytes to the
// replies.
func BenchmarkKnown(b *testing.B) {
	for name, calls := range knownCalls {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			m, batch := knownBatch(b, calls)
			b.ReportAllocs()
			for i := 0; i < b.N; i += 16 {
				m.batch(batch)
			}
		})
	}
}
