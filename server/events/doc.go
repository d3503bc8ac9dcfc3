// Package events holds the events of a node for its operator: denials, penalties, changes
// of policies, and changes of the leader.
//
// A [Log] keeps the newest events, each as a line of JSON with an id. Ids grow, even
// over restarts. A reader continues after the last id that it has read, and learns how
// many events it has lost. [Denials] makes events of denials. It posts the first denial
// at once. All denials of the following second become one event, which shows their
// number.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. Nothing waits for a reader: all
// readers read the same ring of lines.
//
// # Caveats
//
// Denials become events only while a reader is connected; otherwise the events would
// cost time for nothing. An event is only on the node that decided the call.
package events
