// Package lua evaluates Lua 5.1 scripts in the same way as Redis 7.
//
// A script's text is parsed once and compiled to Go closures. The result is a Proto, which
// is immutable and shared. A Thread runs a Proto: it has the stack, the budget and the
// memory bound of one run, and is used again for the next run. An Environment holds the
// globals and libraries. It is frozen, and all threads share it. Nothing that a script does
// outlives its run.
//
// # Concurrency
//
// Environments (once frozen) and Protos are safe for concurrent use. Only one goroutine at
// a time may use a Thread, and the tables and functions that its script makes. Only
// Thread.Kill may be called from other goroutines.
//
// # Bounds
//
// Every loop, call and library function charges instructions, and everything that grows
// charges memory. A script that exceeds a bound, or is killed, ends with an *Abort, which
// the script cannot catch.
package lua
