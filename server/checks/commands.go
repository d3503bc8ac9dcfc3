package checks

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands returns the commands of the room.
func (c *Checker) Commands() []command.Spec {
	return slices.Concat(checkCommands(c), descriptorCommands(c), holdCommands(c), inspectCommands(c))
}

// checkCommands returns the commands that check calls.
func checkCommands(c *Checker) []command.Spec {
	return []command.Spec{{
		Name: "rl.check", Arity: -2, Flags: command.Write | command.DenyOOM | command.Fast | command.Limit | command.Databases,
		Home: homesOf(c).checkHome, Derived: c.keys, Ahead: c.ahead, Secrets: c.checkSecrets, Headless: c.headless, Categories: command.CatLimiter, Group: "limiter", Complexity: "O(N), N the number of limits of the policy",
		Summary: "Checks a call against all limits of a policy that apply, as one atomic step, and charges them if it passes.",
		Syntax:  "policy [attribute value ...] [COST units] [ID id] [PEEK | FORCE] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>]",
		Handler: c.check,
	}, {
		Name: "rl.ceiling", Arity: -ceilingPairs, Flags: command.Write | command.DenyOOM | command.Limit | command.Databases | command.NoMulti | command.NoScript | command.Guarded,
		Home: homesOf(c).ceilingHome, Secrets: func(args [][]byte, at []int) []int { return c.hideInCheck(args[1], args, ceilingPairs, at) },
		Headless: c.ceilingHeadless, Categories: command.CatLimiter, Group: "limiter", Complexity: "O(N), N the number of limits of the policy",
		Summary: "Between nodes: checks a call against the limits of a policy that do not count by its home. The leader of the home's group sends this command.",
		Syntax:  "policy version printed until [attribute value ...] [COST units] [ID id] [PEEK | FORCE] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>]",
		Handler: c.ceiling,
	}}
}

// holdCommands returns the commands that make holds and settle them.
func holdCommands(c *Checker) []command.Spec {
	const flags = command.Write | command.DenyOOM | command.Fast | command.Databases
	return []command.Spec{{
		Name: "rl.reserve", Arity: -2, Flags: flags | command.Limit,
		Home: homesOf(c).reserveHome, Derived: c.keys, Ahead: c.aheadReserve, Secrets: c.checkSecrets, Headless: c.headless, Categories: command.CatLimiter, Group: "limiter", Complexity: "O(N), N the number of limits of the policy",
		Summary: "Checks a call as RL.CHECK does, and holds its charges until the real cost is known.",
		Syntax:  "policy [attribute value ...] [COST units] [ID id] [PEEK] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>] [TTL duration]",
		Handler: c.reserve,
	}, {
		Name: "rl.commit", Arity: -2, Flags: flags,
		Home: holdHome, Derived: c.heldKeys, Ahead: c.aheadSettle, Secrets: c.commitSecrets, Categories: command.CatLimiter, Group: "limiter", Complexity: "O(N), N the number of limits that are held",
		Summary: "Settles a hold with the real cost of the call: gives back the rest, or charges the difference.",
		Syntax:  "hold [attribute value ...] [COST units]",
		Handler: c.commitHold,
	}, {
		Name: "rl.cancel", Arity: 2, Flags: flags &^ command.DenyOOM,
		Home: holdHome, Derived: c.heldKeys, Ahead: c.aheadSettle, Categories: command.CatLimiter, Group: "limiter", Complexity: "O(N), N the number of limits that are held",
		Summary: "Ends a hold and gives back its charges.",
		Syntax:  "hold",
		Handler: c.cancelHold,
	}}
}

// descriptorCommands returns the commands that check descriptors.
func descriptorCommands(c *Checker) []command.Spec {
	return []command.Spec{{
		Name: "rl.descriptors", Arity: -9, Flags: command.Write | command.DenyOOM | command.Fast | command.Limit | command.Databases,
		Home: homesOf(c).descriptorsHome, Derived: c.descriptorKeys, Secrets: c.descriptorSecrets, Headless: c.descriptorsHeadless, Categories: command.CatLimiter, Group: "limiter", Complexity: "O(N), N the number of entries and limits",
		Summary: "Asks a policy by descriptors, as Envoy asks its rate limit service, as one atomic step.",
		Syntax:  "domain hits numdescriptors <numentries key value [key value ...] hits limit> [<numentries key value [key value ...] hits limit> ...] [PEEK] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>]",
		Handler: c.descriptors,
	}}
}

// inspectCommands returns the commands that show an operator the state of limits and their
// busiest callers.
func inspectCommands(c *Checker) []command.Spec {
	return []command.Spec{{
		Name: "rl.explain", Arity: -2, Flags: command.Readonly | command.Fast | command.Databases,
		Keys: command.Keys{First: 1, Last: 1, Step: 1, Find: explainKeys}, Home: homesOf(c).explainHome, Derived: c.explainedKeys, Categories: command.CatLimiter, Secrets: c.explainSecrets,
		Group: "limiter", Complexity: "O(1); O(N) for the N entries of a log, holders of a key or limits of a policy",
		Summary: "Returns a key's state, the limit of its last charge, and when quota returns; or what a policy says of a caller, and why; or the charges of a hold.",
		Syntax:  "<key | POLICY name [attribute value ...] | HOLD hold>",
		Handler: c.explainAny,
	}, {
		Name: "rl.top", Arity: -1, Flags: command.Readonly | command.Local, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(K log K), K the number of keys followed",
		Summary: "Ranks keys by recent calls that passed, were denied, or both; or the holders of leases.",
		Syntax:  "[POLICY name] [ALLOWED | DENIED | HOT | HOLDERS] [COUNT count] [RESET]",
		Handler: c.top,
		// RESET clears what operators look at, so it is guarded.
		Guards: func(args [][]byte) bool { t, _ := parseTop(args[1:]); return t.reset },
	}}
}
