// Package native runs scripts of well-known rate-limiting libraries as Go code. It uses the
// same keys and stored values as their Lua code, so that old and new clients can share a
// key.
//
//   - Script is a known script: its names (SHA1s and fingerprints) and the Go code that
//     runs in its place. BySHA and Find return it.
//   - Call is one call of a script: keys, arguments, time, session and reply.
//
// If a script cannot do exactly what its Lua code does for a call, it returns false before
// it changes or replies anything. Then the Lua code runs.
//
// This package has no texts of scripts: see fingerprint.go of script/lua.
//
// # How to add a script
//
// Write a function func(c *Call) bool in the file of the script's library, and an entry in
// that library's list of scripts (see families). The function does the following:
//
//   - It returns false for every call that it cannot handle exactly: other numbers of
//     keys or arguments, odd spellings of numbers, other types or forms of values, errors
//     of the engine. It must not have changed or written anything by then.
//   - It writes the reply that the Lua code would give, and returns true.
//   - It allocates nothing in the common case.
//
// The function first reads its arguments with the methods in arguments.go. If an argument
// is not as expected, the method marks the call as odd: the Go code cannot handle it. A
// script about one key then uses Call.open, which is one visit under one lock, or a method
// that does the whole work of a script, such as Call.count. A script about several keys
// uses Call.isolate and Call.finish around its visits; if the script gives up, its changes
// are undone. All these methods refuse an odd call.
package native
