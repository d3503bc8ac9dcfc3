// Package checks has the commands that ask a policy: RL.CHECK, RL.RESERVE with
// RL.COMMIT and RL.CANCEL, and RL.DESCRIPTORS; and what an operator asks about callers:
// RL.EXPLAIN and RL.TOP. A [Book] has the policies. A [Trial] decides on policies
// without a server.
//
// # The walk of RL.CHECK
//
//	check.go    the handler, which takes these steps
//	args.go     the arguments: attributes and options
//	match.go    which limits of the policy apply, by which keys; prepared.go does it
//	            ahead for the checks of a pipeline
//	ask.go      the limits that apply are decided in one step
//	reply.go    the reply, with what forms.go has made once
//	tally.go    the counts; tell.go has who listens of denials
//
// RL.RESERVE, and an RL.CHECK that has a name or takes slots, leaves this walk after
// the arguments for reserve.go, and joins it at ask.go. RL.DESCRIPTORS has a walk of its
// own in files of that name.
package checks
