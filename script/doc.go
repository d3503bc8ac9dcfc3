// Package script runs the Lua scripts of clients: EVAL and its like. A [Cache]
// knows scripts by their text and their SHA1, and a [Runner] runs one at a
// time. Both ask their owner: a [Store] keeps texts that outlive the process,
// and a [Caller] runs the commands that a script calls. The language itself is
// in script/lua.
//
// # Concurrency
//
// A Cache and its Scripts may be used by any goroutine, a Runner by one at a
// time.
package script
