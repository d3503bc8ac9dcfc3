package checks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// slowly is a script's beginning that takes more than a loop has for it: the script
// runs on copies of its keys.
const slowly = "for i = 1, 200000 do end "

// RL.EXPLAIN sees the table as a check does, from any step: a script that has left its loop, a
// transaction, another database.
func TestExplainInsideASteps(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 100/m, algorithm: fixed}, all: {rate: 500/m}}}`)
	h := r.Held("p user eve COST 40")
	remaining := func(x any) int64 {
		t.Helper()
		return rig.Pair(t, rig.Pair(t, x, "limits").([]any)[0], "remaining").(int64)
	}
	for _, database := range []string{"0", "3"} {
		r.Is("SELECT "+database, "OK")
		for _, begin := range []string{"", slowly} {
			eval := func(text string, args ...string) any {
				return r.Parse(r.Raw(append([]string{"EVAL", begin + text}, args...)...))
			}
			require.Equal(t, "reserved", rig.Pair(t, eval("return redis.call('rl.explain', 'hold', ARGV[1])", "0", h), "state"), begin)
			require.EqualValues(t, 59, remaining(eval("return redis.call('rl.explain', 'policy', 'p', 'user', 'eve')", "0")), begin)
			require.EqualValues(t, 60, eval("return redis.call('rl.check', 'p', 'user', 'eve', 'PEEK', 'COST', 0)[3]", "0"), begin)
		}
		for _, line := range []string{"MULTI", "RL.EXPLAIN HOLD " + h, "RL.EXPLAIN POLICY p user eve", "SET k 1"} {
			r.Words(line)
		}
		replies := r.Words("EXEC").([]any)
		require.Equal(t, "reserved", rig.Pair(t, replies[0], "state"))
		require.EqualValues(t, 59, remaining(replies[1]))
	}
}

// A counter that an edit has made void is not there, for a script that has left its
// loop either.
func TestVoidCountersInASlowScript(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {a: {by: user, rate: 100/m}}}`)
	r.Check("p user eve COST 40")
	r.Words("RL.POLICY RESET p")
	const key = "@p:a;user=eve"
	for _, begin := range []string{"", slowly} {
		ask := func(command string) any {
			return r.Parse(r.Raw("EVAL", begin+"return redis.call('"+command+"', KEYS[1])", "1", key))
		}
		require.EqualValues(t, 0, ask("exists"), begin)
		require.EqualValues(t, -2, ask("ttl"), begin)
		require.Nil(t, ask("rl.explain"), begin)
	}
	require.EqualValues(t, 0, r.Parse(r.Raw("EVAL", slowly+"return redis.call('del', KEYS[1])", "1", key)))
}
