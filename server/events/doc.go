// Package events holds the events of a node for its operator: denials, penalties, changes
// of policies, and changes of the leader.
//
// A [Log] keeps the newest events, each as a line of JSON. Each event has an id. Ids grow,
// even over restarts. A reader continues after the last id that it has read, and learns how
// many events it has lost. [Denials] makes events of denials. It posts the first denial at
// once. The denials of the following second are one event, which shows their number.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. Nothing waits for a reader: all
// readers read the same ring of lines.
//
// # Caveats
//
// Denials are noted only while somebody listens; otherwise they would cost time for
// nothing. Only the node that decided a call has its event.
package events
