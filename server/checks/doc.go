// Package checks holds the commands that ask a policy: RL.CHECK, RL.RESERVE with RL.COMMIT
// and RL.CANCEL, and RL.DESCRIPTORS. It also holds RL.EXPLAIN and RL.TOP, by which an
// operator looks at callers. A [Book] supplies the policies. A [Trial] decides on policies
// without a server.
//
// # The files of RL.CHECK
//
//	check.go    the handler, which takes these steps
//	args.go     reads the arguments: attributes and options
//	match.go    finds the limits of the policy that apply, and their keys;
//	            prepared.go does it ahead for the checks of a pipeline
//	ask.go      decides the limits that apply, in one step
//	reply.go    writes the reply, from parts that forms.go has made once
//	tally.go    counts; tell.go reports denials as events
//	homes.go    with several groups: which of them decides a call;
//	            two.go runs a call that needs two
//
// RL.RESERVE goes from args.go to reserve.go, and then to ask.go. An RL.CHECK that has
// an ID or takes slots goes the same way. RL.DESCRIPTORS has its own files,
// descriptor*.go.
package checks
