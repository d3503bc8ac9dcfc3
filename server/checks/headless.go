package checks

import (
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// headless returns how an RL.CHECK or RL.RESERVE is answered without a leader: as its
// option FAIL says, else as its policy says. An unknown policy is refused.
func (c *Checker) headless(args [][]byte) command.Headless {
	set, _ := c.book.Current()
	p := set.Policy(args[1])
	if p == nil {
		return command.Headless{Failure: policy.FailClosed}
	}
	h := command.Headless{Failure: p.OnFailure, Backstop: p.Backstop, Prompt: true, NoShare: p.Ceilings && c.homes.Several()}
	var a checkArgs
	if wire.SaysHeadless(args[2:]) && a.parseReserve(args[2:]) == nil {
		a.headless(&h)
	}
	return h
}

// headless copies the options into h.
func (a *checkArgs) headless(h *command.Headless) {
	if a.fail != policy.FailServer {
		h.Failure = a.fail
	}
	h.Prompt = a.sync != command.SyncCommit
}

// descriptorsHeadless is headless for RL.DESCRIPTORS.
func (c *Checker) descriptorsHeadless(args [][]byte) command.Headless {
	set, _ := c.book.Current()
	p := set.Policy(args[1])
	if p == nil {
		return command.Headless{Failure: policy.FailClosed}
	}
	h := command.Headless{Failure: p.OnFailure, Backstop: p.Backstop, Prompt: true}
	var a descriptorArgs
	if wire.SaysHeadless(args[2:]) && a.parse(args[1:]) == nil {
		a.options.headless(&h)
	}
	return h
}
