// Package lua evaluates Lua 5.1 scripts as Redis 7 runs them.
//
// A script's text is parsed once and compiled to Go closures: a Proto, which
// is immutable and shared. A Thread runs it: it has the stack, the budget and
// the memory bound of one run and is used again for the next. An Environment
// holds the globals and libraries, frozen, shared by all threads; nothing that
// a script does outlives its run.
//
// # Concurrency
//
// Environments (once frozen) and Protos may be used by any goroutine. A Thread
// belongs to one goroutine at a time, as do the tables and functions that its
// script makes. Only Thread.Kill may be called from elsewhere.
//
// # Bounds
//
// Every loop, call and library function charges instructions, and everything that grows
// charges memory. A script that exceeds a bound, or is killed, ends with an *Abort, which
// it cannot catch.
package lua
