// Package decisions writes a decision log: one line of JSON for each call of a sample.
// The calls are those that clients of this node make about limits.
//
// The threads that serve clients pass each command with its reply to a [Log]. The Log
// copies the calls of the sample into a queue, and a goroutine writes their lines. A
// line depends only on the command and its reply. So the line is the same whether this
// node, the leader or a failure policy has decided the call.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. No caller waits for the writing
// goroutine: if the queue is full, a call is dropped and counted.
//
// # Caveats
//
// Values of attributes and keys of limits may be private. They are hashed, unless the
// operator has named the attributes to show. Values of secret attributes are never shown.
package decisions
