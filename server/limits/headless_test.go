package limits

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// What asks for a commit, gives units back or forces a charge waits for the leader; what
// the call says of its answer goes before what its policy says.
func TestHeadless(t *testing.T) {
	b := newTestBook()
	b.hear([]engine.PolicyRecord{ofPolicy("p", 1, 11)}, false)
	b.Set()
	f := func(want command.Headless, says func(args [][]byte) command.Headless, line string) {
		t.Helper()
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		require.Equal(t, want, says(args), line)
	}
	prompt, waits := command.Headless{Prompt: true}, command.Headless{}
	f(prompt, bucketHeadless, "CL.THROTTLE sync 15 30 60")
	f(prompt, bucketHeadless, "CL.THROTTLE -k 15 30 60 2")
	f(waits, bucketHeadless, "CL.THROTTLE k 15 30 60 -2")
	f(waits, acquireHeadless, "RL.ACQUIRE k 5 1m")

	f(prompt, limitHeadless, "RL.LIMIT k 10 1m")
	f(prompt, limitHeadless, "RL.LIMIT sync 10 1m COST 2 ASYNC")
	f(prompt, limitHeadless, "RL.LIMIT k 10 1m AND force 10 1m")
	f(waits, limitHeadless, "RL.LIMIT k 10 1m sync")
	f(waits, limitHeadless, "RL.LIMIT k 10 1m FORCE")
	f(waits, limitHeadless, "RL.LIMIT k 10 1m AND l 5 1m COST -1")
	f(command.Headless{Failure: policy.FailOpen, Prompt: true}, limitHeadless, "RL.LIMIT k 10 1m fail open")
	f(command.Headless{Failure: policy.FailLocal}, limitHeadless, "RL.LIMIT k 10 1m FAIL local SYNC")
	f(prompt, limitHeadless, "RL.LIMIT k 10 1m SYNC ASYNC")

	f(prompt, b.headless, "RL.CHECK p user -x")
	f(prompt, b.headless, "RL.CHECK p user sync")
	f(waits, b.headless, "RL.CHECK p user x SYNC")
	f(command.Headless{Failure: policy.FailClosed, Prompt: true}, b.headless, "RL.CHECK p user x FAIL closed")
	f(prompt, b.headless, "RL.RESERVE p user fail TTL 1m")
	f(command.Headless{Failure: policy.FailClosed}, b.headless, "RL.CHECK unknown")
	f(prompt, b.descriptorsHeadless, "RL.DESCRIPTORS p 1 1 1 user sync - -")
	f(waits, b.descriptorsHeadless, "RL.DESCRIPTORS p 1 1 1 user x - - SYNC")
	f(command.Headless{Failure: policy.FailClosed}, b.descriptorsHeadless, "RL.DESCRIPTORS unknown 1 1 1 a b - -")
}
