// Package load generates load for a server that speaks the Redis protocol, and measures
// how it answers. The benchmark's open-loop rows use it, and those that redis-benchmark
// cannot send.
//
// [Config] says what to send, [Run] sends it and returns a [Result].
//
// A closed loop (Rate 0) keeps Clients connections busy: each writes Pipeline
// commands, waits for their replies and goes on. It finds the peak, but says
// little about latency: a slow server slows its own load.
//
// An open loop (Rate > 0) has a fixed arrival schedule that does not wait for the server.
// Latency counts from the moment a command was due, not from when it could be written. So
// a stall shows in every command that it delayed (no coordinated omission). Arrivals are
// evenly spaced and go round the connections.
//
// # Concurrency
//
// A closed loop has one goroutine per connection. An open loop has one
// goroutine that writes to all connections and one reader per connection.
//
// # Caveats
//
// The generator speaks RESP2. A connection that fails counts as an error, and so does
// each vain attempt to connect again. Commands that it owed a reply are unanswered.
// Commands that come due before the next connection are late, and count as late. So do
// those that come due while the one writer of an open loop waits for a full send buffer.
package load
