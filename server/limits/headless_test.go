package limits_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits"
)

// A call that asks for a commit, gives units back or forces a charge waits for the leader. The
// call's own FAIL comes before the node's failure policy.
func TestHeadless(t *testing.T) {
	specs := limits.Commands(nil, nil)
	f := func(want command.Headless, line string) {
		t.Helper()
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		at := slices.IndexFunc(specs, func(s command.Spec) bool { return command.EqualFold(args[0], s.Name) })
		require.Equal(t, want, specs[at].Headless(args), line)
	}
	prompt, waits := command.Headless{Prompt: true}, command.Headless{}
	f(prompt, "CL.THROTTLE sync 15 30 60")
	f(prompt, "CL.THROTTLE -k 15 30 60 2")
	f(waits, "CL.THROTTLE k 15 30 60 -2")
	f(waits, "RL.ACQUIRE k 5 1m")

	f(prompt, "RL.LIMIT k 10 1m")
	f(prompt, "RL.LIMIT sync 10 1m COST 2 ASYNC")
	f(prompt, "RL.LIMIT k 10 1m AND force 10 1m")
	f(waits, "RL.LIMIT k 10 1m sync")
	f(waits, "RL.LIMIT k 10 1m FORCE")
	f(waits, "RL.LIMIT k 10 1m AND l 5 1m COST -1")
	f(command.Headless{Failure: policy.FailOpen, Prompt: true}, "RL.LIMIT k 10 1m fail open")
	f(command.Headless{Failure: policy.FailLocal}, "RL.LIMIT k 10 1m FAIL local SYNC")
	f(prompt, "RL.LIMIT k 10 1m SYNC ASYNC")
}
