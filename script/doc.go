// Package script runs the Lua scripts of clients: EVAL and similar commands. A [Cache]
// finds scripts by their text and their SHA1. A [Runner] runs one script at a time. The
// caller of this package provides a [Store], which keeps texts that outlive the process,
// and a [Caller], which runs the commands that a script calls. The language itself is in
// script/lua.
//
// # Concurrency
//
// A Cache and its Scripts are safe for concurrent use. Only one goroutine at a time may use
// a Runner.
package script
