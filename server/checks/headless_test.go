package checks

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// A call that asks for a commit waits for the leader. The call's own FAIL comes before its
// policy's on_failure.
func TestHeadless(t *testing.T) {
	e := engine.New(engine.Config{Shards: 8})
	specs := newTestChecker(e, setOf(t, e, map[string]string{"p": "{limits: {l: {by: user, rate: 11/s}}}"})).Commands()
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
	f(prompt, "RL.CHECK p user -x")
	f(prompt, "RL.CHECK p user sync")
	f(waits, "RL.CHECK p user x SYNC")
	f(command.Headless{Failure: policy.FailClosed, Prompt: true}, "RL.CHECK p user x FAIL closed")
	f(prompt, "RL.RESERVE p user fail TTL 1m")
	f(command.Headless{Failure: policy.FailClosed}, "RL.CHECK unknown")
	f(prompt, "RL.DESCRIPTORS p 1 1 1 user sync - -")
	f(waits, "RL.DESCRIPTORS p 1 1 1 user x - - SYNC")
	f(command.Headless{Failure: policy.FailClosed}, "RL.DESCRIPTORS unknown 1 1 1 a b - -")
}
