package checks

import (
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// headless is how RL.CHECK and RL.RESERVE are answered while no leader does: as they say
// themselves, or as their policy does. A policy that this node does not know refuses.
func (c *Checker) headless(args [][]byte) command.Headless {
	set, _ := c.book.Current()
	p := set.Policy(args[1])
	if p == nil {
		return command.Headless{Failure: policy.FailClosed}
	}
	h := command.Headless{Failure: p.OnFailure, Backstop: p.Backstop, Prompt: true}
	var a checkArgs
	if wire.SaysHeadless(args[2:]) && a.parseReserve(args[2:]) == nil {
		a.headless(&h)
	}
	return h
}

// headless puts what options say into h.
func (a *checkArgs) headless(h *command.Headless) {
	if a.fail != policy.FailServer {
		h.Failure = a.fail
	}
	h.Prompt = a.sync != command.SyncCommit
}

// descriptorsHeadless is how an RL.DESCRIPTORS is answered while no leader does: as it
// says itself, or as its policy does. A policy that this node does not know refuses.
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
