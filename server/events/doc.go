// Package events has what happens on a node that an operator would look at: denials,
// counted together by the second, penalties, changes of policies, and who leads.
//
// A [Log] keeps the newest events, each as a line of JSON, and tells who listens. Who
// reads goes by ids, which grow, over restarts too, and is told how many were lost.
// [Denials] makes events of denials: the first at once, and those of the same limit
// and caller in the second behind it as one event with their number.
//
// # Concurrency
//
// Everything may be called by any goroutine. Nothing waits for a reader: there is one
// ring for all of them.
//
// # Caveats
//
// Denials are noted only while somebody listens, so that they cost nothing otherwise.
// What a node has decided is known on that node alone.
package events
