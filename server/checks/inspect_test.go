package checks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

func TestExplain(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("RL.EXPLAIN missing", "nil")
	explain := func(line, want string) {
		t.Helper()
		r.Words(line)
		x := r.Words("RL.EXPLAIN k").([]any)
		require.Equal(t, "bytes", x[len(x)-2])
		require.Positive(t, x[len(x)-1])
		require.Equal(t, want, rig.Format(x[:len(x)-2]))
		r.Words("DEL k")
	}
	const start = "1772323200000"
	require.Equal(t, start, fmt.Sprint(rig.Start/1e6))
	explain("RL.LIMIT k 10 60 COST 4", "[type token limit 10 period 1m tat_ns 1772323224000000000 tat_fraction 0 "+
		"capacity 10 used 4 remaining 6 next_unit_ms 6000 full_ms 24000 expires_ms 24000]")
	explain("RL.LIMIT k 1 1500ms BURST 3 ALGORITHM leaky", "[type leaky limit 1 period 1500ms burst 3 tat_ns 1772323201500000000 tat_fraction 0 "+
		"capacity 3 used 1 remaining 2 next_unit_ms 1500 full_ms 1500 expires_ms 1500]")
	explain("CL.THROTTLE k 4 1 1", "[type token limit 1 period 1s burst 5 rounding ns tat_ns 1772323201000000000 tat_fraction 0 "+
		"capacity 5 used 1 remaining 4 next_unit_ms 1000 full_ms 1000 expires_ms 1000]")
	explain("RL.LIMIT k 10 60 ALGORITHM fixed COST 10", "[type fixed limit 10 period 1m align epoch window_start_ms "+start+" current 10 "+
		"capacity 10 used 10 remaining 0 next_unit_ms 60000 full_ms 60000 expires_ms 60000]")
	explain("RL.LIMIT k 10 60 ALGORITHM sliding ALIGN first", "[type sliding limit 10 period 1m align first window_start_ms "+start+" current 1 previous 0 "+
		"capacity 10 used 1 remaining 9 next_unit_ms 120000 full_ms 120000 expires_ms 120000]")
	explain("RL.LIMIT k 10 1d ALGORITHM log", "[type log limit 10 period 1d entries 1 "+
		"capacity 10 used 1 remaining 9 next_unit_ms 86400000 full_ms 86400000 expires_ms 86400000]")
	explain("RL.ACQUIRE k 5 10 COST 2", "[type slots limit 5 holders 1 capacity 5 used 2 remaining 3 next_unit_ms 10000 full_ms 10000 expires_ms 10000]")
	explain("INCREX k BYFLOAT 1.5", "[type string value 1.5 expires_ms -1]")
	explain("INCREX k EX 5", "[type string value 1 expires_ms 5000]")
	r.Raw("HELLO", "3")
	r.Words("INCREX k")
	require.Regexp(t, `^%4\r\n\$4\r\ntype\r\n\$6\r\nstring\r\n\$5\r\nvalue\r\n\$1\r\n1\r\n\$10\r\nexpires_ms\r\n:-1\r\n\$5\r\nbytes\r\n:\d+\r\n$`, r.Raw("RL.EXPLAIN", "k"))
}

func TestTop(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Is("RL.TOP", "[]")
	for i := range 5 {
		for range i + 1 {
			r.Words(fmt.Sprintf("RL.LIMIT k%d 1 60", i))
		}
	}
	r.Words("RL.ACQUIRE slots 1 60")
	r.Is("RL.TOP", "[[k4 4 0] [k3 3 0] [k2 2 0] [k1 1 0]]")
	r.Is("RL.TOP DENIED COUNT 2", "[[k4 4 0] [k3 3 0]]")
	r.Is("rl.top allowed", "[[k0 1 0] [k1 1 0] [k2 1 0] [k3 1 0] [k4 1 0] [slots 1 0]]")
	r.Is("RL.TOP COUNT 1 HOT", "[[k4 5 0]]")
	r.Is("RL.TOP COUNT 1 RESET", "[[k4 4 0]]")
	r.Is("RL.TOP HOT", "[]")
	for args, want := range map[string]string{
		"FOO": "syntax error", "COUNT": "syntax error", "COUNT 0": "COUNT must be at least 1", "COUNT x": "COUNT must be at least 1", "HOT DENIED": "syntax error",
	} {
		r.Is("RL.TOP "+args, "-ERR "+want)
	}
}

func TestStats(t *testing.T) {
	r := rig.New(t, engine.Config{MaxBytes: 1 << 30})
	for range 3 {
		r.Words("RL.LIMIT k 2 60")
	}
	r.Words("CL.THROTTLE c 1 1 1")
	r.Words("RL.ACQUIRE s 1 60")
	stats := r.Words("RL.STATS")
	for name, want := range map[string]int64{"allowed": 4, "denied": 1, "keys": 3, "limits": 3, "memory_max_bytes": 1 << 30, "expired": 0, "evicted": 0} {
		require.Equal(t, want, rig.Pair(t, stats, name), name)
	}
	require.Positive(t, rig.Pair(t, stats, "memory_bytes"))
	r.Raw("HELLO", "3")
	require.Equal(t, "%9", r.Raw("RL.STATS")[:2])
}

// RL.EXPLAIN and the decisions show states as of the clock, not of the last call.
func TestExplainFollowsTheClock(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.Words("RL.LIMIT k 10 10 COST 10")
	r.At(2500 * time.Millisecond)
	x := r.Words("RL.EXPLAIN k")
	for name, want := range map[string]int64{"used": 8, "remaining": 2, "next_unit_ms": 500, "full_ms": 7500} {
		require.Equal(t, want, rig.Pair(t, x, name), name)
	}
}
