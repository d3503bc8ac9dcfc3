// Package decisions writes what clients of a node are answered about limits, a line
// of JSON for each of a sample of the calls.
//
// A [Log] is handed commands with their replies, by the threads that serve clients. It
// copies those that are in the sample into a queue, and a goroutine of its own makes
// lines of them and writes these. So what is told follows from the command and its
// reply alone, whoever has decided it: this node, the leader, or a failure policy.
//
// # Concurrency
//
// Everything may be called by any goroutine. Nothing waits for the writer: what finds
// the queue full is dropped, and counted.
//
// # Caveats
//
// Values of attributes and keys of limits may be private. They are shown by a hash,
// unless they are asked for by name; those of secret attributes are never shown.
package decisions
