// Package load generates load for a server that speaks the Redis protocol and
// measures how it answers: the open-loop rows of the side-by-side benchmark, and what
// redis-benchmark cannot send.
//
// [Config] says what to send, [Run] sends it and returns a [Result].
//
// A closed loop (Rate 0) keeps Clients connections busy: each writes Pipeline
// commands, waits for their replies and goes on. It finds the peak, but says
// little about latency: a slow server slows its own load.
//
// An open loop (Rate > 0) has a fixed arrival schedule that does not wait for
// the server. Latency counts from the moment a command was due, not from the
// moment it could be written, so a stall shows in every command that it
// delayed (no coordinated omission). Arrivals are evenly spaced and go round
// the connections.
//
// # Concurrency
//
// A closed loop has one goroutine per connection. An open loop has one
// goroutine that writes to all connections and one reader per connection.
//
// # Caveats
//
// The generator speaks RESP2. A connection that fails counts as an error, and so
// does each vain attempt to connect again; the commands that it owed a reply are
// unanswered, and those that come due until there is another are late, and count
// as late. So they do while the one writer of an open loop waits because a
// connection's send buffer is full.
package load
