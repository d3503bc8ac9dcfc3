package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// Replies are [allowed limit remaining retry_after_ms reset_after_ms delay_ms].

func TestLimitAlgorithms(t *testing.T) {
	r := rig.New(t, engine.Config{})
	run(r, []step{
		{0, "RL.LIMIT token 2 1", "[1 2 1 0 500 0]"},
		{0, "RL.LIMIT token 2 1", "[1 2 0 0 1000 0]"},
		{0, "RL.LIMIT token 2 1", "[0 2 0 500 1000 0]"},
		{0, "RL.LIMIT leaky 2 1 ALGORITHM leaky", "[1 2 1 0 500 0]"},
		{0, "RL.LIMIT leaky 2 1 algorithm LEAKY", "[1 2 0 0 1000 500]"},
		{0, "RL.LIMIT leaky 2 1 ALGORITHM Leaky", "[0 2 0 500 1000 0]"},
		{400, "RL.LIMIT fixed 2 1 ALGORITHM fixed", "[1 2 1 0 600 0]"},
		{400, "RL.LIMIT fixed 2 1 ALGORITHM fixed COST 2", "[0 2 1 600 600 0]"},
		{400, "RL.LIMIT first 2 1 ALGORITHM fixed ALIGN first", "[1 2 1 0 1000 0]"},
		{400, "RL.LIMIT epoch 2 1 ALGORITHM fixed ALIGN epoch", "[1 2 1 0 600 0]"},
		{400, "RL.LIMIT sliding 2 1 ALGORITHM sliding COST 2", "[1 2 0 0 1600 0]"},
		{1500, "RL.LIMIT sliding 2 1 ALGORITHM sliding", "[1 2 0 0 1500 0]"},
		{2000, "RL.LIMIT log 2 1 ALGORITHM log", "[1 2 1 0 1000 0]"},
		{2300, "RL.LIMIT log 2 1 ALGORITHM log", "[1 2 0 0 1000 0]"},
		{2600, "RL.LIMIT log 2 1 ALGORITHM log", "[0 2 0 400 700 0]"},
		{3000, "RL.LIMIT log 2 1 ALGORITHM log", "[1 2 0 0 1000 0]"},
	})
}

func TestLimitOptions(t *testing.T) {
	r := rig.New(t, engine.Config{})
	run(r, []step{
		// BURST is the capacity; the rate stays.
		{0, "RL.LIMIT burst 1 1 BURST 3 COST 3", "[1 3 0 0 3000 0]"},
		{0, "RL.LIMIT burst 1 1 BURST 3", "[0 3 0 1000 3000 0]"},
		// A cost above capacity is never admitted.
		{0, "RL.LIMIT burst 1 1 BURST 3 COST 4", "[0 3 0 -1 3000 0]"},
		// COST 0 looks, even when nothing is left; a refund stops at full.
		{0, "RL.LIMIT burst 1 1 BURST 3 COST 0", "[1 3 0 0 3000 0]"},
		{0, "RL.LIMIT burst 1 1 BURST 3 COST -1", "[1 3 1 0 2000 0]"},
		{0, "RL.LIMIT burst 1 1 BURST 3 COST -9223372036854775808", "[1 3 3 0 0 0]"},
		{0, "EXISTS burst", "0"},
		// PEEK answers what the call would get, and creates nothing.
		{0, "RL.LIMIT peek 2 1 PEEK", "[1 2 1 0 500 0]"},
		{0, "RL.LIMIT peek 2 1 PEEK COST 3", "[0 2 2 -1 0 0]"},
		{0, "EXISTS peek", "0"},
		// FORCE charges into debt.
		{0, "RL.LIMIT force 2 1 FORCE COST 6", "[1 2 0 0 3000 0]"},
		{0, "RL.LIMIT force 2 1", "[0 2 0 2500 3000 0]"},
		// ATMOST takes what is there.
		{0, "RL.LIMIT atmost 5 1 COST 2", "[1 5 3 0 400 0]"},
		{0, "RL.LIMIT atmost 5 1 ATMOST COST 10", "[3 5 0 0 1000 0]"},
		{0, "RL.LIMIT atmost 5 1 ATMOST COST 10", "[0 5 0 200 1000 0]"},
		// WAIT admits what can run in time, charged now.
		{0, "RL.LIMIT wait 2 1 COST 2", "[1 2 0 0 1000 0]"},
		{0, "RL.LIMIT wait 2 1 WAIT 499", "[0 2 0 1 1000 0]"},
		{0, "RL.LIMIT wait 2 1 WAIT 500", "[1 2 0 0 1500 500]"},
		{0, "RL.LIMIT wait 2 1 WAIT 1000", "[1 2 0 0 2000 1000]"},
		// In a queue WAIT denies what would wait longer, 0 what would wait at all.
		{0, "RL.LIMIT queue 2 1 ALGORITHM leaky WAIT 0", "[1 2 1 0 500 0]"},
		{0, "RL.LIMIT queue 2 1 ALGORITHM leaky WAIT 0", "[0 2 1 500 500 0]"},
		{0, "RL.LIMIT queue 2 1 ALGORITHM leaky WAIT 499", "[0 2 1 1 500 0]"},
		{0, "RL.LIMIT queue 2 1 ALGORITHM leaky WAIT 0 WAIT 500", "[1 2 0 0 1000 500]"},
		{0, "RL.LIMIT now 2 1 COST 2 WAIT 0", "[1 2 0 0 1000 0]"},
		{0, "RL.LIMIT now 2 1 WAIT 0", "[0 2 0 500 1000 0]"},
		// DEBT admits down to -n.
		{0, "RL.LIMIT debt 2 1 COST 2", "[1 2 0 0 1000 0]"},
		{0, "RL.LIMIT debt 2 1 DEBT 1", "[1 2 0 0 1500 0]"},
		{0, "RL.LIMIT debt 2 1 DEBT 1", "[0 2 0 500 1500 0]"},
		// SYNC and ASYNC change nothing on one node.
		{0, "RL.LIMIT sync 2 1 SYNC", "[1 2 1 0 500 0]"},
		{0, "RL.LIMIT sync 2 1 ASYNC", "[1 2 0 0 1000 0]"},
	})
	// Rounded up: 333.3 ms.
	r.Is("RL.LIMIT third 3 1", "[1 3 2 0 334 0]")
	// Periods of every form.
	for i, period := range []string{"60", "60.0", "1m", "60s", "60000ms", "0.5m30s"} {
		r.Is(fmt.Sprintf("RL.LIMIT period%d 60 %s", i, period), "[1 60 59 0 1000 0]")
	}
}

// A client that only reads the first six fields waits for every limit.
func TestChainDelaysByItsLongestDelay(t *testing.T) {
	r := rig.New(t, engine.Config{})
	run(r, []step{
		{0, "RL.LIMIT q 10 1 ALGORITHM leaky AND t 3 3", "[1 3 2 0 1000 0 [[1 10 9 0 100 0] [1 3 2 0 1000 0]]]"},
		{0, "RL.LIMIT q 10 1 ALGORITHM leaky AND t 3 3", "[1 3 1 0 2000 100 [[1 10 8 0 200 100] [1 3 1 0 2000 0]]]"},
		{0, "RL.LIMIT t 3 3 PEEK AND q 10 1 ALGORITHM leaky", "[1 3 0 0 3000 200 [[1 3 0 0 3000 0] [1 10 7 0 300 200]]]"},
		{0, "RL.LIMIT q 10 1 ALGORITHM leaky AND t 3 3 COST 2", "[0 3 1 1000 2000 0 [[1 10 8 0 200 200] [0 3 1 1000 2000 0]]]"},
	})
}

func TestLimitInRESP3(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Raw("HELLO", "3")
	one := func(remaining, reset int) string {
		return fmt.Sprintf("$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:%d\r\n$14\r\nretry_after_ms\r\n:0\r\n"+
			"$14\r\nreset_after_ms\r\n:%d\r\n$8\r\ndelay_ms\r\n:0\r\n", remaining, reset)
	}
	require.Equal(t, "%6\r\n"+one(1, 500), r.Raw("RL.LIMIT", "k", "2", "1"))
	require.Equal(t, "%7\r\n"+one(0, 1000)+"$6\r\nlimits\r\n*2\r\n%6\r\n"+one(0, 1000)+"%6\r\n"+one(1, 500),
		r.Raw("RL.LIMIT", "k", "2", "1", "AND", "k2", "2", "1"))
	require.Equal(t, "%6\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:1\r\n$9\r\nremaining\r\n:0\r\n$14\r\nretry_after_ms\r\n:0\r\n"+
		"$2\r\nid\r\n$1\r\na\r\n$6\r\nttl_ms\r\n:5000\r\n", r.Raw("RL.ACQUIRE", "s", "1", "5", "ID", "a"))
	require.Equal(t, "%6\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n:1\r\n$9\r\nremaining\r\n:0\r\n$14\r\nretry_after_ms\r\n:5000\r\n"+
		"$2\r\nid\r\n_\r\n$6\r\nttl_ms\r\n:0\r\n", r.Raw("RL.ACQUIRE", "s", "1", "5", "ID", "b"))
}

func TestLimitErrors(t *testing.T) {
	r := rig.New(t, engine.Config{LogMaxEntries: 100})
	for args, want := range map[string]string{
		"k 1":                              "wrong number of arguments for 'rl.limit' command",
		"k x 1":                            "value is not an integer or out of range",
		"k -1 1":                           "limit must be 0 or more",
		"k 1 0":                            "period '0' is not a positive number of seconds or a duration such as 500ms, 1m or 1d",
		"k 1 1y":                           "period '1y' is not a positive number of seconds or a duration such as 500ms, 1m or 1d",
		"k 1 36526d":                       "period must be positive and at most 100 years",
		"k 2 1ns":                          "rate must be at most 1000000000 per second",
		"k 1 1 COST":                       "syntax error",
		"k 1 1 COST x":                     "value is not an integer or out of range",
		"k 1 1 BURST 0":                    "BURST must be at least 1",
		"k 1 1 BURST -1":                   "BURST must be at least 1",
		"k 1 1 BURST 9223372036854775807":  "burst must refill within 100 years at this rate",
		"k 1 1 ALGORITHM foo":              "unknown algorithm 'foo', use token, leaky, fixed, sliding or log",
		"k 1 1 ALGORITHM slots":            "unknown algorithm 'slots', use token, leaky, fixed, sliding or log",
		"k 1 1 ALIGN middle":               "unknown alignment 'middle', use epoch or first",
		"k 1 1 ALIGN first":                "align applies to fixed and sliding only",
		"k 1 1 ALGORITHM fixed BURST 2":    "burst applies to token and leaky only",
		"k 101 1 ALGORITHM log":            "limit 101 is above log-max-entries 100",
		"k 1 1 WAIT -1":                    "WAIT must be a number of milliseconds, 0 or more",
		"k 1 1 WAIT 9223372036855":         "WAIT must be a number of milliseconds, 0 or more",
		"k 1 1 WAIT x":                     "value is not an integer or out of range",
		"k 1 1 DEBT -1":                    "DEBT must be 0 or more",
		"k 1 1 PEEK FORCE":                 "PEEK, FORCE and ATMOST exclude each other",
		"k 1 1 PEEK ATMOST":                "PEEK, FORCE and ATMOST exclude each other",
		"k 1 1 ATMOST AND l 1 1 FORCE":     "PEEK, FORCE and ATMOST exclude each other",
		"k 1 1 SYNC ASYNC":                 "SYNC and ASYNC exclude each other",
		"k 1 1 FOO 1":                      "syntax error, unknown option 'FOO'",
		"k 1 1 AND":                        "syntax error",
		"k 1 1 AND l":                      "syntax error",
		"k 1 1 AND l 1":                    "syntax error",
		"k 1 1 AND k 2 1":                  "duplicate key, each limit of a chain needs a key of its own such as user:1:s AND user:1:d",
		"k 1 1 ATMOST COST 2 AND l 1 1":    "ATMOST needs the same COST in every limit of the chain",
		"k 1 1 AND l -1 1":                 "limit must be 0 or more",
		"k 1 1 ATMOST COST 0":              "ATMOST needs a COST of at least 1",
		"k 1 1 ATMOST COST -1":             "ATMOST needs a COST of at least 1",
		"k 1 1 AND l 1 1 ALGORITHM nobody": "unknown algorithm 'nobody', use token, leaky, fixed, sliding or log",
	} {
		got := rig.Format(r.Words("RL.LIMIT " + args))
		require.True(t, strings.HasPrefix(got, "-ERR ") && strings.HasSuffix(got, want), "RL.LIMIT %s: %s", args, got)
	}
	r.Is("RL.LIMIT k 1 1 FORCE COST 9223372036854775807", "-ERR cost would overflow the state of the key")
	r.Is("DBSIZE", "0")
}

// Waiting for retry_after_ms is enough, and a millisecond less is not.
func TestRetryAfterIsHonest(t *testing.T) {
	r := rig.New(t, engine.Config{})
	rapid.Check(t, func(t *rapid.T) {
		r.Words("FLUSHALL")
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		line := fmt.Sprintf("RL.LIMIT k %d %dms ALGORITHM %s", limit, rapid.IntRange(1, 100_000).Draw(t, "period"),
			rapid.SampledFrom([]string{"token", "leaky", "fixed", "sliding", "log"}).Draw(t, "algorithm"))
		ms := 0
		at := func(ms int) {
			r.At(-time.Hour) // a call that is less than a second before another counts as late, not as earlier
			r.Words(line + " PEEK")
			r.At(time.Duration(ms) * time.Millisecond)
		}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			ms += rapid.IntRange(0, 20_000).Draw(t, "pause")
			cost := rapid.IntRange(1, limit+1).Draw(t, "cost")
			call := fmt.Sprintf("%s COST %d", line, cost)
			at(ms)
			d := r.Words(call).([]any)
			if d[0] == int64(1) {
				require.Equal(t, int64(0), d[3], call)
				continue
			}
			retry := int(d[3].(int64))
			if cost > limit {
				require.Equal(t, -1, retry, call)
				continue
			}
			require.Positive(t, retry, call)
			at(ms + retry - 1)
			require.Equal(t, int64(0), r.Words(call + " PEEK").([]any)[0], "%s at %d, told %d", call, ms, retry)
			at(ms + retry)
			require.Equal(t, int64(1), r.Words(call + " PEEK").([]any)[0], "%s at %d, told %d", call, ms, retry)
		}
	})
}

// All limits of a chain are taken, or none.
func TestChains(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const (
		second = "s 2 1"
		minute = "m 3 60"
	)
	chain := "RL.LIMIT " + second + " AND " + minute
	run(r, []step{
		{0, chain, "[1 2 1 0 500 0 [[1 2 1 0 500 0] [1 3 2 0 20000 0]]]"},
		{0, chain, "[1 2 0 0 1000 0 [[1 2 0 0 1000 0] [1 3 1 0 40000 0]]]"},
		// The second limit denies. The minute is not charged, and shows what it has.
		{0, chain, "[0 2 0 500 1000 0 [[0 2 0 500 1000 0] [1 3 1 0 40000 0]]]"},
		{0, "RL.LIMIT " + minute + " COST 0", "[1 3 1 0 40000 0]"},
		// Ties in remaining go to the first.
		{1000, chain, "[1 3 0 0 59000 0 [[1 2 1 0 500 0] [1 3 0 0 59000 0]]]"},
		{1000, "RL.LIMIT a 1 1 AND b 1 2 AND c 1 3", "[1 1 0 0 1000 0 [[1 1 0 0 1000 0] [1 1 0 0 2000 0] [1 1 0 0 3000 0]]]"},
		// Of several that deny, the one with the longest wait binds; never is the longest.
		{1000, "RL.LIMIT a 1 1 AND b 1 2 AND c 1 3", "[0 1 0 3000 3000 0 [[0 1 0 1000 1000 0] [0 1 0 2000 2000 0] [0 1 0 3000 3000 0]]]"},
		{1000, "RL.LIMIT a 1 1 COST 2 AND c 1 3", "[0 1 0 -1 1000 0 [[0 1 0 -1 1000 0] [0 1 0 3000 3000 0]]]"},
	})
}

// ALGORITHM, BURST, ALIGN and COST belong to their segment, the rest to the
// call.
func TestChainOptions(t *testing.T) {
	r := rig.New(t, engine.Config{})
	run(r, []step{
		{400, "RL.LIMIT a 1 1 BURST 5 COST 2 AND b 10 1 ALGORITHM fixed COST 3 AND c 1 1", "[1 1 0 0 1000 0 [[1 5 3 0 2000 0] [1 10 7 0 600 0] [1 1 0 0 1000 0]]]"},
		{400, "RL.LIMIT d 1 1 PEEK AND e 1 1", "[1 1 0 0 1000 0 [[1 1 0 0 1000 0] [1 1 0 0 1000 0]]]"},
		{400, "EXISTS d e", "0"},
		{400, "RL.LIMIT d 1 1 AND e 1 1 FORCE", "[1 1 0 0 1000 0 [[1 1 0 0 1000 0] [1 1 0 0 1000 0]]]"},
		{400, "RL.LIMIT d 1 1 AND e 1 1 FORCE", "[1 1 0 0 2000 0 [[1 1 0 0 2000 0] [1 1 0 0 2000 0]]]"},
		// ATMOST grants what the scarcest has.
		{400, "RL.LIMIT f 5 1 COST 9 AND g 3 1 COST 9 ATMOST", "[3 3 0 0 1000 0 [[3 5 2 0 600 0] [3 3 0 0 1000 0]]]"},
		// AND is a key where a key stands.
		{400, "RL.LIMIT AND 1 1 AND and 1 1", "[1 1 0 0 1000 0 [[1 1 0 0 1000 0] [1 1 0 0 1000 0]]]"},
	})
	require.Equal(t, "[AND and x]", rig.Format(r.Words("COMMAND GETKEYS RL.LIMIT AND 1 1 COST 5 AND and 1 1 PEEK AND x 1 1")))
}

func TestChainLength(t *testing.T) {
	r := rig.New(t, engine.Config{})
	chain := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf("key%d 10 1", i)
		}
		return "RL.LIMIT " + strings.Join(parts, " AND ")
	}
	reply := r.Words(chain(32)).([]any)
	require.Len(t, reply, 7)
	require.Len(t, reply[6], 32)
	r.Is(chain(33), "-ERR at most 32 limits in one call")
	r.Is("DBSIZE", "32")
	r.Is("RL.RESET "+strings.ReplaceAll(strings.TrimPrefix(chain(32), "RL.LIMIT "), " 10 1 AND", ""), "32")
}

// A key holds one kind of state.
func TestWrongType(t *testing.T) {
	kinds := map[string]string{
		"token":   "RL.LIMIT %s 10 60",
		"leaky":   "RL.LIMIT %s 10 60 ALGORITHM leaky",
		"fixed":   "RL.LIMIT %s 10 60 ALGORITHM fixed",
		"sliding": "RL.LIMIT %s 10 60 ALGORITHM sliding",
		"log":     "RL.LIMIT %s 10 60 ALGORITHM log",
		"slots":   "RL.ACQUIRE %s 10 60 ID a",
		"string":  "INCREX %s",
	}
	bucket := []string{"CL.THROTTLE %s 9 10 60", "RL.THROTTLE %s 9 10 60", "THROTTLE %s 10 10 60", "GCRA %s 9 10 60"}
	const wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	r := rig.New(t, engine.Config{})
	for kind, create := range kinds {
		r.Words(fmt.Sprintf(create, kind))
		r.Is("TYPE "+kind, kind)
		for other, line := range kinds {
			if other != kind {
				r.Is(fmt.Sprintf(line, kind), wrong)
			}
		}
		for _, line := range bucket {
			got := rig.Format(r.Words(fmt.Sprintf(line, kind)))
			require.Equal(t, kind != "token", got == wrong, "%s on %s: %s", line, kind, got)
		}
		if kind != "slots" {
			r.Is("RL.RELEASE "+kind+" a", wrong)
			r.Is("RL.EXTEND "+kind+" a 1", wrong)
			r.Is("RL.LIMIT fresh:"+kind+" 10 60 AND "+kind+" 1 60 ALGORITHM "+map[bool]string{true: "log", false: "fixed"}[kind == "fixed"], wrong)
			r.Is("EXISTS fresh:"+kind, "0")
		}
	}
}
