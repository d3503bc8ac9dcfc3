package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

func TestKeysComeAndGo(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.run([]step{
		{0, "RL.LIMIT a 1 10", "[1 1 0 0 10000 0]"},
		{0, "INCREX n", "[1 1]"},
		{0, "EXISTS a n a missing", "3"},
		{0, "TOUCH a n missing", "2"},
		{0, "TYPE missing", "none"},
		{0, "TYPE n", "string"},
		{0, "DBSIZE", "2"},
		{0, "TTL missing", "-2"},
		{0, "PTTL missing", "-2"},
		{0, "EXPIRETIME missing", "-2"},
		{0, "TTL n", "-1"},
		{0, "EXPIRETIME n", "-1"},
		{0, "PEXPIRETIME n", "-1"},
		{0, "TTL a", "10"},
		{0, "PTTL a", "10000"},
		{0, "PEXPIRETIME a", fmt.Sprint(rigStart/1e6 + 10_000)},
		{0, "EXPIRETIME a", fmt.Sprint(rigStart/1e9 + 10)},
		{501, "TTL a", "9"}, // to the nearest second, as Redis
		{500, "TTL a", "10"},
		{0, "DEL a missing a", "1"},
		{0, "RL.LIMIT a 1 10", "[1 1 0 0 10000 0]"},
		{0, "UNLINK a n", "2"},
		{0, "RL.LIMIT a 1 10", "[1 1 0 0 10000 0]"},
		{0, "RL.RESET a b", "1"},
		{0, "RL.LIMIT a 1 10", "[1 1 0 0 10000 0]"},
		{10001, "EXISTS a", "0"},
		{10001, "DEL a", "0"},
		{10001, "RANDOMKEY", "nil"},
	})
}

// Many keys at once take a worker, and within EXEC the transaction's locks.
func TestManyKeysInOneCommand(t *testing.T) {
	r := newRig(t, engine.Config{})
	var keys []string
	for i := range 1200 { // more than a loop handles itself
		keys = append(keys, fmt.Sprintf("k%d", i))
		if i%3 == 0 {
			r.words("INCREX " + keys[i])
		}
	}
	all := strings.Join(keys, " ")
	r.s.Configure(Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 128})
	r.is("EXISTS "+all, "400")
	require.Contains(t, format(r.words("SLOWLOG GET 1")), "[EXISTS k0 k1 ")
	r.is("DEL "+strings.Join(keys[:600], " "), "200")
	r.is("MULTI", "OK")
	r.is("TOUCH "+all, "QUEUED")
	r.is("UNLINK "+all, "QUEUED")
	r.is("EXISTS "+all, "QUEUED")
	r.is("EXEC", "[200 200 0]")
	r.is("RL.RESET "+all, "0")
}

// A limit's state expires by itself; only counters have a TTL of their own.
func TestExpireOnLimits(t *testing.T) {
	r := newRig(t, engine.Config{})
	for kind, create := range map[string]string{
		"token": "RL.LIMIT token 2 10", "leaky": "RL.LIMIT leaky 2 10 ALGORITHM leaky", "fixed": "RL.LIMIT fixed 2 10 ALGORITHM fixed",
		"sliding": "RL.LIMIT sliding 2 10 ALGORITHM sliding", "log": "RL.LIMIT log 2 10 ALGORITHM log", "slots": "RL.ACQUIRE slots 2 10",
	} {
		r.words(create)
		before := format(r.words("PTTL " + kind))
		for _, line := range []string{"EXPIRE %s 1", "PEXPIRE %s 1", "EXPIREAT %s 1", "PEXPIREAT %s 1", "PERSIST %s"} {
			r.is(fmt.Sprintf(line, kind), "0")
		}
		r.is("PTTL "+kind, before)
	}
}

func TestExpireOnCounters(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.words("INCREX n")
	r.run([]step{
		{0, "EXPIRE n 10 XX", "0"},
		{0, "EXPIRE n 10 GT", "0"},
		{0, "EXPIRE n 10 LT", "1"},
		{0, "EXPIRE n 20 NX", "0"},
		{0, "EXPIRE n 5 GT", "0"},
		{0, "EXPIRE n 15 XX GT", "1"},
		{0, "TTL n", "15"},
		{0, "PEXPIRE n 1500", "1"},
		{0, "PTTL n", "1500"},
		{0, "EXPIREAT n " + fmt.Sprint(rigStart/1e9+7), "1"},
		{0, "PTTL n", "7000"},
		{0, "PEXPIREAT n " + fmt.Sprint(rigStart/1e6+8), "1"},
		{0, "PTTL n", "8"},
		{0, "PERSIST n", "1"},
		{0, "PERSIST n", "0"},
		{0, "EXPIRE missing 10", "0"},
		{0, "EXPIRE n 0", "1"},
		{0, "EXISTS n", "0"},
		{0, "INCREX n", "[1 1]"},
		{0, "EXPIREAT n -5", "1"},
		{0, "EXISTS n", "0"},
	})
	for line, want := range map[string]string{
		"EXPIRE n x":                     "value is not an integer or out of range",
		"EXPIRE n x FOO":                 "Unsupported option FOO",
		"EXPIRE n x FOO\x00BAR":          "Unsupported option FOO",
		"EXPIRE n 1 NX XX":               "NX and XX, GT or LT options at the same time are not compatible",
		"EXPIRE n 1 GT LT":               "GT and LT options at the same time are not compatible",
		"EXPIRE n 9223372036854775807":   "invalid expire time in 'expire' command",
		"PEXPIRE n 9223372036854775807":  "invalid expire time in 'pexpire' command",
		"EXPIREAT n 9223372036854775807": "invalid expire time in 'expireat' command",
	} {
		r.is(line, "-ERR "+want)
	}
	// The name is that of the command, in a transaction too.
	r.is("MULTI", "OK")
	r.is("EXPIRE n 9223372036854775807", "QUEUED")
	r.is("EXEC", "[-ERR invalid expire time in 'expire' command]")
}

// scan runs a whole iteration and returns the keys, sorted.
func (r *rig) scan(options string) []string {
	r.t.Helper()
	var keys []string
	cursor := "0"
	for range 10_000 {
		reply := r.words("SCAN " + cursor + options).([]any)
		for _, k := range reply[1].([]any) {
			keys = append(keys, k.(string))
		}
		cursor = reply[0].(string)
		n, err := strconv.ParseUint(cursor, 10, 64)
		require.NoError(r.t, err)
		require.Less(r.t, n, uint64(1)<<53)
		if cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys)
		}
	}
	r.t.Fatal("SCAN does not end")
	return nil
}

func TestScan(t *testing.T) {
	r := newRig(t, engine.Config{})
	require.Empty(t, r.scan(""))
	var all, users []string
	for i := range 500 {
		user, n := fmt.Sprintf("user:%03d", i), fmt.Sprintf("n%03d", i)
		r.words("RL.LIMIT " + user + " 10 60")
		r.words("INCREX " + n)
		users = append(users, user)
		all = append(all, n, user)
	}
	slices.Sort(all)
	for _, count := range []string{"", " COUNT 1", " COUNT 17", " COUNT 256", " COUNT 257", " COUNT 9223372036854775807"} {
		require.Equal(t, all, r.scan(count), count)
	}
	require.Equal(t, users, r.scan(" MATCH user:*"))
	require.Equal(t, users, r.scan(" TYPE token COUNT 100"))
	require.Equal(t, users, r.scan(" type TOKEN"))
	require.Equal(t, []string{"n007"}, r.scan(" MATCH *007 TYPE string"))
	require.Empty(t, r.scan(" TYPE list"))
	require.Empty(t, r.scan(" MATCH nothing"))

	for line, want := range map[string]string{
		"SCAN x":                      "invalid cursor",
		"SCAN -1":                     "invalid cursor",
		"SCAN 1.5":                    "invalid cursor",
		"SCAN 99999999999999999999":   "invalid cursor",
		"SCAN 0 COUNT":                "syntax error",
		"SCAN 0 COUNT 0":              "syntax error",
		"SCAN 0 COUNT -1":             "syntax error",
		"SCAN 0 COUNT x":              "value is not an integer or out of range",
		"SCAN 0 FOO 1":                "syntax error",
		"SCAN 0 MATCH a b":            "syntax error",
		"SCAN":                        "wrong number of arguments for 'scan' command",
		"KEYS":                        "wrong number of arguments for 'keys' command",
		"KEYS a b":                    "wrong number of arguments for 'keys' command",
		"FLUSHALL NOW":                "syntax error",
		"FLUSHALL ASYNC SYNC":         "syntax error",
		"FLUSHDB x":                   "syntax error",
		"OBJECT ENCODING":             "wrong number of arguments for 'object|encoding' command",
		"MEMORY USAGE n001 SAMPLES":   "syntax error",
		"MEMORY USAGE n001 FOO 1":     "syntax error",
		"MEMORY USAGE n001 SAMPLES x": "value is not an integer or out of range",
	} {
		r.is(line, "-ERR "+want)
	}
	// Any cursor is safe, even an invented one.
	for _, cursor := range []string{"1", "9007199254740991", "9007199254740992", "9223372036854775807"} {
		require.Len(t, r.words("SCAN "+cursor), 2)
	}
	// Keys that have expired are not there, reaped or not.
	r.at(time.Hour)
	require.Len(t, r.scan(""), 500)
}

func TestKeysPatterns(t *testing.T) {
	r := newRig(t, engine.Config{})
	for _, k := range []string{"hello", "hallo", "hxllo", "hllo", "heeeello", "h*llo", "[x]"} {
		r.raw("INCREX", k)
	}
	for pattern, want := range map[string]string{
		"*":          "[x] h*llo hallo heeeello hello hllo hxllo",
		"h?llo":      "h*llo hallo hello hxllo",
		"h*llo":      "h*llo hallo heeeello hello hllo hxllo",
		"h[ae]llo":   "hallo hello",
		"h[^e]llo":   "h*llo hallo hxllo",
		"h[a-f]llo":  "hallo hello",
		`h\*llo`:     "h*llo",
		`\[x\]`:      "[x]",
		"":           "",
		"h":          "",
		"[a-":        "",
		"**********": "[x] h*llo hallo heeeello hello hllo hxllo",
	} {
		var keys []string
		for _, k := range r.parse(r.raw("KEYS", pattern)).([]any) {
			keys = append(keys, k.(string))
		}
		require.ElementsMatch(t, strings.Fields(want), keys, "KEYS %s", pattern)
	}
}

// The keys of a reply are bounded as the reply is: an error says what to do.
func TestKeysIsBounded(t *testing.T) {
	const limit = 1 << 20
	s := newTestServer(t, Config{OutputBufferLimit: limit}, nil)
	r := &rig{t: t, s: s, machine: newMachine(s)}
	long := strings.Repeat("x", 10_000)
	n := 0
	for ; n < limit/len(long); n++ {
		r.raw("INCREX", fmt.Sprintf("%04d", n)+long[4:])
	}
	require.Len(t, r.words("KEYS *"), n)
	r.raw("INCREX", fmt.Sprintf("%04d", n)+long[4:])
	r.is("KEYS *", "-ERR the matching keys exceed client-output-buffer-limit, use SCAN")
	require.Len(t, r.words("KEYS 00*"), 100)
}

func TestRandomKey(t *testing.T) {
	r := newRig(t, engine.Config{})
	for i := range 5 {
		r.words(fmt.Sprintf("INCREX k%d", i))
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[r.words("RANDOMKEY").(string)] = true
	}
	require.Len(t, seen, 5)
}

func TestFlush(t *testing.T) {
	r := newRig(t, engine.Config{})
	for _, line := range []string{"FLUSHALL", "FLUSHDB", "flushall async", "FLUSHDB SYNC"} {
		r.words("RL.LIMIT a 1 60")
		r.words("INCREX n")
		r.is(line, "OK")
		r.is("DBSIZE", "0")
		r.is("RL.LIMIT a 1 60", "[1 1 0 0 60000 0]")
	}
}

func TestObject(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.words("INCREX i")
	r.words("INCREX f BYFLOAT 0.5")
	r.words("RL.LIMIT l 1 60")
	r.is("OBJECT ENCODING i", "int")
	r.is("OBJECT ENCODING f", "embstr")
	r.is("OBJECT encoding l", "raw")
	r.is("OBJECT REFCOUNT l", "1")
	r.is("OBJECT IDLETIME l", "-ERR idle time is not tracked, see TTL for when a key expires")
	r.is("OBJECT FREQ l", "-ERR access frequency is not tracked, see RL.TOP for the busiest keys")
	for _, sub := range []string{"ENCODING", "REFCOUNT", "IDLETIME", "FREQ"} {
		r.is("OBJECT "+sub+" missing", "nil")
	}
	require.Contains(t, format(r.words("OBJECT HELP")), "ENCODING key")
	r.is("OBJECT FOO", "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.")
	r.is("COMMAND GETKEYS OBJECT ENCODING l", "[l]")
}

func TestMemory(t *testing.T) {
	r := newRig(t, engine.Config{MaxBytes: 1 << 30})
	r.words("RL.LIMIT l 1 60")
	r.is("MEMORY USAGE missing", "nil")
	one := r.words("MEMORY USAGE l").(int64)
	require.Positive(t, one)
	require.Equal(t, one, r.words("MEMORY USAGE l SAMPLES 0"))
	r.raw("RL.LIMIT", strings.Repeat("l", 1000), "1", "60")
	require.GreaterOrEqual(t, r.parse(r.raw("MEMORY", "USAGE", strings.Repeat("l", 1000))).(int64), one+900)

	stats := r.words("MEMORY STATS")
	require.Equal(t, int64(2), pair(t, stats, "keys.count"))
	require.Equal(t, int64(1001), pair(t, stats, "dataset.keys.bytes"))
	require.Equal(t, int64(1<<30), pair(t, stats, "maxmemory"))
	require.GreaterOrEqual(t, pair(t, stats, "total.allocated").(int64), pair(t, stats, "dataset.bytes").(int64))
	r.is("MEMORY DOCTOR", "No problem found: keys take 0% of maxmemory and none was evicted.")
	r.is("MEMORY PURGE", "OK")
	require.Contains(t, format(r.words("MEMORY HELP")), "USAGE key [SAMPLES count]")
	r.raw("HELLO", "3")
	require.Equal(t, byte('%'), r.raw("MEMORY", "STATS")[0])
	require.Equal(t, byte('='), r.raw("MEMORY", "DOCTOR")[0])
}

// Keys are binary, and up to 64 KiB long.
func TestBinaryAndLongKeys(t *testing.T) {
	r := newRig(t, engine.Config{})
	for _, key := range []string{"", "\x00", "\r\n", "a\r\nb", "\xff\xfe", "key with spaces", "ключ", strings.Repeat("\x00k", 32<<10)} {
		const passed, denied = "[1 1 0 0 60000 0]", "[0 1 0 60000 60000 0]"
		require.Equal(t, passed, format(r.parse(r.raw("RL.LIMIT", key, "1", "60"))), "%.10q", key)
		require.Equal(t, denied, format(r.parse(r.raw("RL.LIMIT", key, "1", "60"))), "%.10q", key)
		require.Equal(t, []any{key}, r.parse(r.raw("KEYS", "*")))
		require.Equal(t, key, r.parse(r.raw("RANDOMKEY")))
		require.Equal(t, int64(1), r.parse(r.raw("DEL", key)))
	}
	long := strings.Repeat("k", 64<<10+1)
	for _, args := range [][]string{
		{"CL.THROTTLE", long, "1", "1", "1"}, {"THROTTLE", long, "1", "1", "1"}, {"GCRA", long, "1", "1", "1"},
		{"RL.LIMIT", long, "1", "1"}, {"RL.LIMIT", "short", "1", "1", "AND", long, "1", "1"},
		{"RL.LIMIT", long, "1", "1", "ALGORITHM", "log"}, {"RL.ACQUIRE", long, "1", "1"}, {"INCREX", long},
	} {
		require.Equal(t, "-ERR key is longer than 64 KiB\r\n", r.raw(args...))
	}
	require.Equal(t, int64(0), r.parse(r.raw("DEL", long, "short")))
	require.Equal(t, int64(-2), r.parse(r.raw("TTL", long)))
}

// At maxmemory without eviction what is there goes on, and what is new is
// refused as a whole.
func TestOutOfMemory(t *testing.T) {
	const oom = "-OOM command not allowed when used memory > 'maxmemory'."
	r := newRig(t, engine.Config{Shards: 1, MaxBytes: 128 << 10})
	r.is("RL.LIMIT first 100 60", "[1 100 99 0 600 0]")
	// One key may still find room where another does not: refused stays so.
	n, refused := 0, ""
	for ; refused == ""; n++ {
		require.Less(t, n, 10_000)
		key := fmt.Sprintf("key%d", n)
		if format(r.words("RL.LIMIT "+key+" 100 60")) == oom {
			refused = key
		}
	}
	require.Greater(t, n, 500)
	r.is("RL.LIMIT first 100 60", "[1 100 98 0 1200 0]")
	r.is("RL.LIMIT first 100 60 AND "+refused+" 100 60", oom)
	r.is("RL.LIMIT first 100 60 COST 0", "[1 100 98 0 1200 0]")
	for _, line := range []string{"CL.THROTTLE %s 1 1 1", "GCRA %s 1 1 1", "THROTTLE %s 1 1 1", "INCREX %s"} {
		r.is(fmt.Sprintf(line, refused), oom)
	}
	r.is("EXISTS "+refused, "0")
	// A look at a new key needs no memory.
	r.is("RL.LIMIT "+refused+" 100 60 PEEK", "[1 100 99 0 600 0]")
	for i := range n {
		r.words(fmt.Sprintf("DEL key%d", i))
	}
	r.is("RL.LIMIT "+refused+" 100 60", "[1 100 99 0 600 0]")
}
