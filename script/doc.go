// Package script runs the Lua scripts of clients: EVAL and similar commands. A [Cache]
// knows scripts by their text and their SHA1. A [Runner] runs one script at a time. Their
// owner provides a [Store], which keeps texts that outlive the process, and a [Caller],
// which runs the commands that a script calls. The language itself is in script/lua.
//
// # Concurrency
//
// A Cache and its Scripts may be used by any goroutine. A Runner may be used by one
// goroutine at a time.
package script
