// Package script runs the Lua scripts of clients: EVAL and its like. A [Cache]
// knows scripts by their text and their SHA1, a [Runner] runs one at a time,
// and both ask their owner for what they cannot know: a [Store] keeps texts
// where they outlive the process, a [Caller] runs the commands that a script
// calls. The language itself is in script/lua.
//
// # Concurrency
//
// A Cache and its Scripts may be used by any goroutine, a Runner by one at a
// time.
package script
