// Package decisions writes a line of JSON for each of a sample of the calls about limits
// that clients of a node make.
//
// The threads that serve clients hand commands with their replies to a [Log]. It copies
// those in the sample into a queue, and a goroutine of its own writes their lines. So a
// line depends only on the command and its reply, and not on who has decided it: this
// node, the leader, or a failure policy.
//
// # Concurrency
//
// Everything may be called by any goroutine. Nothing waits for the writer: if the queue is
// full, a call is dropped and counted.
//
// # Caveats
//
// Values of attributes and keys of limits may be private. They are hashed unless the
// operator has named them; values of secret attributes are never shown.
package decisions
