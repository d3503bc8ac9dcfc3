package limits_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// The table of redis-cell's own unit test: 5 at once, 1 per second.
func TestCellVectors(t *testing.T) {
	for _, name := range []string{"CL.THROTTLE", "rl.throttle"} {
		r := rig.New(t, engine.Config{})
		call := func(ms int64, quantity int, want string) {
			t.Helper()
			run(r, []step{{ms, fmt.Sprintf("%s foo 4 1 1 %d", name, quantity), want}})
		}
		call(0, 6, "[1 5 5 -1 0]")
		for i := range 5 {
			call(0, 1, fmt.Sprintf("[0 5 %d -1 %d]", 4-i, i+1))
		}
		call(0, 1, "[1 5 0 1 5]")
		call(3000, 1, "[0 5 2 -1 3]")
		call(3100, 1, "[0 5 1 -1 4]")
		call(4000, 1, "[0 5 1 -1 4]")
		call(8000, 1, "[0 5 4 -1 1]")
		call(9500, 1, "[0 5 4 -1 1]")
		call(9500, 0, "[0 5 4 -1 1]")
		call(9500, 2, "[0 5 2 -1 3]")
		call(9500, 5, "[1 5 2 3 3]")
	}
}

func TestCellReadme(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("CL.THROTTLE user123 15 30 60", "[0 16 15 -1 2]")
	r.Is("CL.THROTTLE user123 15 30 60 1", "[0 16 14 -1 4]")
}

// Times are cut to milliseconds and then rounded up to seconds.
func TestCellRounding(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("CL.THROTTLE k 0 1000 1", "[0 1 0 -1 1]")
	r.Is("CL.THROTTLE k2 0 1001 1", "[0 1 0 -1 0]")
}

// CL.THROTTLE differs where redis-cell is wrong.
func TestCellDifferences(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("CL.THROTTLE exact 6000 6000 1", "[0 6001 6000 -1 0]")

	r.Is("CL.THROTTLE peek 4 1 1 0", "[0 5 5 -1 0]")
	r.Is("EXISTS peek", "0")
	for range 5 {
		r.Words("CL.THROTTLE peek 4 1 1")
	}
	r.Is("CL.THROTTLE peek 4 1 1 0", "[0 5 0 -1 5]")

	r.Is("CL.THROTTLE peek 4 1 1 -2", "[0 5 2 -1 3]")
	r.Is("CL.THROTTLE peek 4 1 1 -100", "[0 5 5 -1 0]")
	r.Is("EXISTS peek", "0")
	r.Is("CL.THROTTLE fresh 4 1 1 -100", "[0 5 5 -1 0]")
	r.Is("EXISTS fresh", "0")

	r.Words("CL.THROTTLE peek 4 1 1")
	r.Is("CL.THROTTLE peek 4 1 1 9223372036854775807", "[1 5 4 -1 1]")
	r.Is("CL.THROTTLE peek 4 1 1 -9223372036854775808", "[0 5 5 -1 0]")

	// Raising the rate of a key in use keeps what was consumed.
	for range 5 {
		r.Words("CL.THROTTLE raise 4 1 60")
	}
	r.Is("CL.THROTTLE raise 9 10 1", "[0 10 4 -1 1]")
}

func TestCellArguments(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("CL.THROTTLE k +4 +1 +1 +1", "[0 5 4 -1 1]")
	r.Is("CL.THROTTLE k2 004 01 1", "[0 5 4 -1 1]")
	r.Is("CL.THROTTLE k3 9223372036854775806 1000000000 1", "-ERR burst must refill within 100 years at this rate")
	for args, want := range map[string]string{
		"k":                         "wrong number of arguments for 'cl.throttle' command",
		"k 1 1":                     "wrong number of arguments for 'cl.throttle' command",
		"k 1 1 1 1 1":               "wrong number of arguments for 'cl.throttle' command",
		"k a 1 1":                   "value is not an integer or out of range",
		"k 1 1.5 1":                 "value is not an integer or out of range",
		"k 1 1 1 ++1":               "value is not an integer or out of range",
		"k 1 1 9223372036854775808": "value is not an integer or out of range",
		"k -1 1 1":                  "max_burst must be between 0 and 9223372036854775806",
		"k 9223372036854775807 1 1": "max_burst must be between 0 and 9223372036854775806",
		"k 1 0 1":                   "count must be at least 1",
		"k 1 -1 1":                  "count must be at least 1",
		"k 1 1 0":                   "period must be a positive number of seconds",
		"k 1 1 9223372036854775807": "period must be a positive number of seconds",
		"k 1 1 3155760001":          "period must be positive and at most 100 years",
		"k 1 1000000001 1":          "rate must be at most 1000000000 per second",
	} {
		r.Is("CL.THROTTLE "+args, "-ERR "+want)
	}
	r.Is("EXISTS k3", "0")
}

// throttlecrab's order and rounding down; its limit is max_burst.
func TestCrabVectors(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("THROTTLE user:123 10 100 60", "[1 10 9 0 0]")
	run(r, []step{
		{0, "THROTTLE k 2 2 3", "[1 2 1 1 0]"},
		{0, "THROTTLE k 2 2 3", "[1 2 0 3 0]"},
		{0, "THROTTLE k 2 2 3", "[0 2 0 3 1]"},
		{0, "THROTTLE k 2 2 3 3", "[0 2 0 3 -1]"},
		{1499, "THROTTLE k 2 2 3", "[0 2 0 1 0]"},
		{1500, "THROTTLE k 2 2 3", "[1 2 0 3 0]"},
		{1500, "THROTTLE k 2 2 3 0", "[1 2 0 3 0]"},
	})
	r.Is("THROTTLE k 0 1 1", "-ERR max_burst must be at least 1")
	r.Is("THROTTLE k 1 1 1 -1", "-ERR quantity must not be negative")
	r.Is("THROTTLE k 1 1 1 1 1", "-ERR wrong number of arguments for 'throttle' command")
}

// throttlecrab never limits a burst of 1, and admits 17 of a burst of 10 after
// a partial idle.
func TestCrabBugsAreNotKept(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("THROTTLE one 1 1 60", "[1 1 0 60 0]")
	r.Is("THROTTLE one 1 1 60", "[0 1 0 60 60]")

	admitted := func() (n int) {
		for range 30 {
			if strings.HasPrefix(rig.Format(r.Words("THROTTLE ten 10 1 1")), "[1") {
				n++
			}
		}
		return n
	}
	r.At(0)
	require.Equal(t, 10, admitted())
	r.At(7e9)
	require.Equal(t, 7, admitted())
	r.At(1000e9)
	require.Equal(t, 10, admitted())
}

func TestGCRA(t *testing.T) {
	r := rig.New(t, engine.Config{})
	run(r, []step{
		{0, "GCRA k 5 1 60", "[0 6 5 -1 60]"},
		{0, "GCRA k 5 1 60 TOKENS 4", "[0 6 1 -1 300]"},
		{0, "GCRA k 5 1 60 num_requests 2", "[1 6 1 60 300]"},
		{0, "GCRA k 5 1 60 TOKENS 7", "[1 6 1 -1 300]"},
		{1, "GCRA k 5 1 60 TOKENS 2", "[1 6 1 60 300]"},
		{60000, "GCRA k 5 1 60 TOKENS 2", "[0 6 0 -1 360]"},
		{0, "GCRA zero 0 1 1", "[0 1 0 -1 1]"},
		{0, "GCRA zero 0 1 1", "[1 1 0 1 1]"},
		{0, "GCRA half 10 5 0.5", "[0 11 10 -1 1]"},
	})
	r.Raw("HELLO", "3")
	require.Equal(t, "*5\r\n:0\r\n:6\r\n:5\r\n:-1\r\n:60\r\n", r.Raw("gcra", "resp3", "5", "1", "60"))
}

// The time of a token is rounded half up to µs, at least 1.
func TestGCRARounding(t *testing.T) {
	r := rig.New(t, engine.Config{})
	for i, c := range []struct {
		rate, period string
		reset        int // seconds for a million tokens: µs of one
	}{
		{"1", "0.0000015", 2}, {"2", "0.000003", 2}, {"1", "0.00000149", 1}, {"3", "0.00001", 3},
		{"1000000000", "1", 1}, {"1000000000000", "1", 1}, {"400000", "1", 3}, {"400001", "1", 2}, {"1", "1e-9", 1},
	} {
		r.Is(fmt.Sprintf("GCRA k%d 999999 %s %s TOKENS 1000000", i, c.rate, c.period), fmt.Sprintf("[0 1000000 0 -1 %d]", c.reset))
	}
}

func TestGCRAErrors(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const (
		arity    = "wrong number of arguments for 'gcra' command"
		positive = "value is out of range, must be positive"
		atLeast  = "value is out of range, value must between 1 and 9223372036854775807"
		integer  = "value is not an integer or out of range"
		period   = "period must be > 0 and < 1e12"
		overflow = "GCRA limiting uses microsecond accuracy. Combination of period, tokens_per_period and %s would cause an overflow"
	)
	for args, want := range map[string]string{
		"k 10 5":                                arity,
		"k 10 5 10 TOKENS 1 1":                  arity,
		"k -1 5 10":                             positive,
		"k x 5 10":                              positive,
		"k 10 0 10":                             atLeast,
		"k 10 x 10":                             integer,
		"k 10 5 0":                              period,
		"k 10 5 -1":                             period,
		"k 10 5 1e12":                           period,
		"k 10 5 inf":                            period,
		"k 10 5 nan":                            "value is not a valid float",
		"k 10 5 x":                              "value is not a valid float",
		"k 10 5 10 FOO":                         "syntax error",
		"k 10 5 10 FOO 1":                       "syntax error",
		"k 10 5 10 TOKENS":                      "Missing TOKENS value",
		"k 10 5 10 TOKENS 0":                    atLeast,
		"k 10 5 10 TOKENS x":                    integer,
		"k 1 1 86400 TOKENS 200000000":          fmt.Sprintf(overflow, "TOKENS"),
		"k 200000000 1 86400":                   fmt.Sprintf(overflow, "max_burst"),
		"k 9223372036854775807 1 1":             fmt.Sprintf(overflow, "max_burst"),
		"k 1 1 2147483647 TOKENS 2147483647000": fmt.Sprintf(overflow, "TOKENS"),
	} {
		r.Is("GCRA "+args, "-ERR "+want)
	}
	r.Is("DBSIZE", "0")
}

// The time of one unit is the server's own; the other commands on the key
// bring their own limit and keep what was used.
func TestBucketCommandsShareAKey(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("CL.THROTTLE k 9 1 1 4", "[0 10 6 -1 4]")
	r.Is("GCRA k 9 1 1 TOKENS 2", "[0 10 4 -1 6]")
	r.Is("THROTTLE k 10 1 1 1", "[1 10 3 7 0]")
	r.Is("RL.LIMIT k 1 1 BURST 10 COST 3", "[1 10 0 0 10000 0]")
	r.Is("TYPE k", "token")
}
