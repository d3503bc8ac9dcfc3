// Package events holds the events of a node for its operator: denials, penalties, changes
// of policies, and changes of the leader.
//
// A [Log] keeps the newest events, each as a line of JSON. Readers go by ids, which grow
// even over restarts, and learn how many events they have lost. [Denials] makes events of
// denials: the first at once, and those of the following second together, with their
// number.
//
// # Concurrency
//
// Everything may be called by any goroutine. Nothing waits for a reader: all readers read
// one ring.
//
// # Caveats
//
// Denials are noted only while somebody listens, so that they cost nothing otherwise. Only
// the node that has decided a call has its event.
package events
