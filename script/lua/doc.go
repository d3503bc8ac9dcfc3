// Package lua evaluates Lua 5.1 scripts in the same way as Redis 7.
//
// A script's text is parsed once and compiled to Go closures. The result is a Proto,
// which is immutable and shared. A Thread runs a Proto. The Thread has the stack, the
// budget of instructions and the memory bound of one run, and is reused for later runs.
// An Environment holds the globals and libraries; all threads share it, and it is frozen
// (cannot change). So nothing that a script does outlives its run.
//
// # Concurrency
//
// Frozen Environments and Protos are safe for concurrent use. A Thread, and the tables
// and functions that its script makes, must be used by one goroutine at a time.
// Exception: any goroutine may call Thread.Kill.
//
// # Bounds
//
// Every loop, call and library function charges instructions, and everything that grows
// charges memory. A script that exceeds a bound, or is killed, ends with an *Abort, which
// the script cannot catch.
package lua
