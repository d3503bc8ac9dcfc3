package policies

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands returns the commands of this package.
func (e *Editor) Commands() []command.Spec {
	return slices.Concat(policyCommands(e), overrideCommands(e))
}

// writes returns the flags of commands that change records. With several groups, the other
// groups must confirm the change, so a transaction cannot have it.
func (e *Editor) writes() command.Flag {
	flags := command.Write | command.Guarded
	if e.book != nil && e.book.homes.Several() {
		flags |= command.NoMulti
	}
	return flags
}

// policyCommands returns the commands that change and show policies.
func policyCommands(e *Editor) []command.Spec {
	sub := func(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags | command.NoScript, Categories: command.CatLimiter,
			Group: "limiter", Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	const perText = "O(N), N the length of the text"
	const read = command.Readonly | command.NoTable
	write := command.NoTable | e.writes()
	reset := sub("reset", -3, command.Write|command.NoMulti|command.Guarded|command.Long, "O(N), N the number of limits of the policy, or of all keys if calls are held", "name [attribute value ...]",
		"Resets the counters of one caller or of all callers, and ends their holds.", e.reset)
	reset.Secrets, reset.Home = e.resetSecrets, e.resetHome
	return []command.Spec{{
		Name: "rl.policy", Arity: -2, Flags: command.NoScript | command.Leader, Categories: command.CatLimiter, Group: "limiter",
		Complexity: "Depends on subcommand.", Summary: "A container for commands about policies.",
		Subs: []command.Spec{
			sub("check", 3, command.Local|command.NoTable|command.Long, perText, "text",
				"Tells what is wrong with a file of policies.", e.checkText),
			sub("set", -4, write, perText, "name [IF version] [CHANGE <KEEP | PROPORTIONAL | RESET>] [DRYRUN] text",
				"Sets the text of a policy. Limits that the new text does not change keep their counters.", e.setPolicy),
			sub("load", -3, write|command.Long, perText, "[CHANGE <KEEP | PROPORTIONAL | RESET>] [DRYRUN] text",
				"Puts a whole file of policies, attributes and lists into force, as one change.", e.load),
			sub("file", 5, write|command.Long, perText, "node path text",
				"Offers a node's policy file. A node sends this command when it starts, and when its file has changed.", e.loadFile),
			sub("get", -3, read, perText, "name [VERSION version]",
				"Returns a policy's text, its version, and who made it when.", e.getPolicy),
			sub("del", -3, write, "O(1)", "name [IF version] [RESET]",
				"Deletes a policy. Its counters stay until they expire, unless they are reset.", e.delPolicy),
			sub("list", 2, read, "O(N), N the number of policies", "",
				"Lists the policies with their versions.", e.listPolicies),
			sub("history", 3, read, "O(N), N the number of versions that are kept", "name",
				"Lists the versions of a policy, with who made them and when, the latest first.", e.history),
			sub("diff", -4, read, perText, "name version [version]",
				"Shows how two versions of a policy differ, or how a version differs from the present one.", e.diff),
			sub("rollback", -4, write, perText, "name version [IF version] [CHANGE <KEEP | PROPORTIONAL | RESET>] [DRYRUN]",
				"Makes the text of an earlier version the policy's next one.", e.rollback),
			reset,
			sub("confirm", -3, command.Write|command.NoMulti|command.NoTable|command.Guarded, "O(1), or O(N) with the number N of holds of a policy", "number [name version]",
				"Between nodes: waits until a change of policies is known in a group. A node sends this command when it has made the change.", e.confirmHere),
		},
	}}
}

// overrideCommands returns the commands that change policies for single callers.
func overrideCommands(e *Editor) []command.Spec {
	sub := func(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags | command.NoScript | command.NoTable, Categories: command.CatLimiter,
			Group: "limiter", Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	const whose = "name <LIMIT limit | TIER | SCALE> [attribute value ...]"
	set := sub("set", -5, e.writes(), "O(1)", "name <LIMIT limit RATE rate | TIER tier | SCALE percent> [UNTIL time] [attribute value ...]",
		"Gives a caller another rate or a tier, or scales a whole policy, for some time or permanently.", e.setOverride)
	get := sub("get", -4, command.Readonly, "O(1)", whose, "Returns an override.", e.getOverride)
	del := sub("del", -4, e.writes(), "O(1)", whose, "Ends an override.", e.delOverride)
	set.Secrets, get.Secrets, del.Secrets = e.overrideSecrets(true), e.overrideSecrets(false), e.overrideSecrets(false)
	return []command.Spec{{
		Name: "rl.override", Arity: -2, Flags: command.NoScript | command.Leader, Categories: command.CatLimiter, Group: "limiter",
		Complexity: "Depends on subcommand.", Summary: "A container for commands about overrides of policies for single callers.",
		Subs: []command.Spec{
			set, get, del,
			sub("list", -3, command.Readonly, "O(N), N the number of overrides of the policy", "name [AFTER id] [COUNT count]",
				"Lists the overrides of a policy.", e.listOverrides),
		},
	}}
}
