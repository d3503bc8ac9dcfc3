// Package verdict represents calls of policies and their replies as values, for fronts
// whose clients do not speak the Redis protocol.
//
// A front makes a [Call] or a [Settlement] from its client's request, and appends it to
// a pipeline of commands. server.Caller runs the pipeline, and [Verdict.Read] reads each
// reply. All numbers come from the replies: this package decides nothing and rounds
// nothing.
//
// # Concurrency
//
// The types are values. A Verdict refers to memory of the reply that it was read from.
package verdict
