// Package verdict has calls of policies, and what is answered to them, as values:
// for fronts whose clients do not speak the Redis protocol.
//
// A front makes a [Call] or a [Settlement] of what its client asks, appends it to a
// pipeline of commands, has that run by server.Caller, and takes each reply off
// with [Verdict.Read]. The commands are those that clients of the Redis protocol
// send, and the replies those that they get, so that nothing is decided, worded or
// rounded here.
//
// # Concurrency
//
// The types are values. A Verdict keeps views of the reply that it was read from.
package verdict
