// Package native runs scripts of well-known rate-limiting libraries as Go code. The Go
// code uses the same keys and stores the same values as the Lua code, so a key can be
// shared by old and new clients.
//
//   - Script is a known script: its names (SHA-1 sums and fingerprints of its text), and
//     the Go code that runs instead of the Lua code. BySHA and Find return a Script.
//   - Call is one call of a script: keys, arguments, time, session and reply.
//
// If the Go code cannot do exactly what the Lua code does for a call, it returns false
// before it changes or replies anything. Then the Lua code runs.
//
// This package does not contain the texts of scripts. It recognizes a text by its
// fingerprint: see fingerprint.go of script/lua.
//
// # How to add a script
//
// Write a function func(c *Call) bool in the file of the script's library, and add an
// entry to that library's list of scripts (see families). The function must do the
// following:
//
//   - It returns false for every call that it cannot handle exactly, before it has
//     changed or written anything. Examples: another number of keys or arguments, an
//     unusual spelling of a number, a value of another type or form, an error of the
//     engine.
//   - It writes the reply that the Lua code would give, and returns true.
//   - It allocates nothing in the common case.
//
// The function first reads its arguments with the methods in arguments.go. If an
// argument is not as expected, the method marks the call as odd: the Go code cannot
// handle it. If the script is about one key, the function then calls Call.open, which
// reads and changes the value under one lock. Or it calls a method such as Call.count,
// which does the whole work of a script. If the script is about several keys, the
// function calls Call.isolate first, opens each key, and calls Call.finish last. If the
// function gives up in between, its changes are undone. All these methods refuse an odd
// call.
package native
