package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// coldRig is a rig with a table that is too large for the caches, so that
// pipelines are looked at ahead.
func coldRig(t testing.TB) *rig {
	r := newRig(t, engine.Config{})
	for i := 0; !r.lane.sess.Cold(); i++ {
		require.Equal(t, "+OK\r\n", r.raw("SET", fmt.Sprint("room:", i), strings.Repeat("x", 60_000)))
	}
	return r
}

// aheadCommand is a command of a pipeline of checks and what may come between. In
// a transaction no policy changes: whether its checks see that is a matter of time.
func aheadCommand(rnd *rand.Rand, multi bool) []string {
	const changes = 4 // kinds of commands that change policies
	user, tenant := fmt.Sprint("u", rnd.IntN(30)), fmt.Sprint("t", rnd.IntN(3))
	policy := []string{"p", "q"}[rnd.IntN(2)]
	check := []string{"RL.CHECK", policy, "user", user, "tenant", tenant}
	kind := rnd.IntN(40)
	if multi && kind < changes {
		kind = 4
	}
	switch kind {
	case 0:
		return []string{"RL.POLICY", "SET", policy, fmt.Sprintf("{limits: {n: {by: user, rate: %d/d}, all: {rate: 9_000/d}}}", 3+rnd.IntN(9))}
	case 1:
		return []string{"RL.POLICY", "SET", policy, "{require: [tenant], deny: [{user: u3}], allow: [{user: u4}], limits: {a: {by: user, rate: 8/d}, " +
			"b: {by: [tenant, user], rate: 9/d}, c: {by: tenant, rate: 400/d}, d: {by: kind, rate: 7/d, missing: deny, mode: shadow}, e: {rate: 900/d}}}"}
	case 2:
		return []string{"RL.OVERRIDE", "SET", policy, "SCALE", fmt.Sprintf("%d%%", 50+rnd.IntN(100))}
	case 3:
		return []string{"RL.POLICY", "DEL", policy}
	case 17:
		return []string{"MULTI"}
	case 4, 5:
		return []string{"EXEC"}
	case 6:
		return []string{"RL.CHECK", "nosuch", "user", user}
	case 7:
		return check[:2+rnd.IntN(4)] // some without a value
	case 8:
		return append(check, "User", "x")
	case 9:
		return []string{"RL.CHECK"}
	case 10:
		return append(check, "kind", "k")
	case 11:
		return []string{"RL.RESET", "k" + user}
	case 12, 13:
		return append(check, "COST", fmt.Sprint(rnd.IntN(4)))
	case 14:
		return append(check, "PEEK")
	case 15, 16:
		return []string{"CL.THROTTLE", "k" + user, "3", "4", "60"}
	}
	return check
}

// A check that was prepared with its pipeline is the same as one that comes alone,
// whatever else the pipeline does.
func TestPreparedChecks(t *testing.T) {
	together, alone := coldRig(t), newRig(t, engine.Config{})
	rnd := rand.New(rand.NewPCG(11, 12))
	multi, rounds := false, 1500
	if testing.Short() {
		rounds = 100
	}
	for round := range rounds {
		together.at(time.Duration(round) * time.Second)
		alone.at(time.Duration(round) * time.Second)
		var commands [][]string
		input, want := "", ""
		for range 1 + rnd.IntN(40) {
			args := aheadCommand(rnd, multi)
			multi = args[0] == "MULTI" || multi && args[0] != "EXEC"
			commands = append(commands, args)
			input += encode(args...)
			want += alone.raw(args...)
		}
		together.feed(input)
		for together.stall&stallWorker != 0 {
			together.lane.runPosts()
			time.Sleep(10 * time.Microsecond)
		}
		require.Equal(t, want, together.take(), "round %d: %q", round, commands)
		require.Equal(t, alone.s.PolicyCounts(), together.s.PolicyCounts(), "round %d: %q", round, commands)
	}
}
