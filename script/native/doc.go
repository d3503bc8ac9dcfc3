// Package native runs scripts of well-known rate-limiting libraries as Go. It uses the
// same keys and stored values as their Lua, so that old and new clients may share a key.
//
//   - Script is a known script: its names (SHA1s and fingerprints) and the Go that runs in its
//     place. BySHA and Find find it.
//   - Call is one call of a script: keys, arguments, time, session and reply.
//
// If a script cannot do exactly what its Lua does for a call, it says so before it
// changes or replies anything. Then the Lua runs.
//
// This package has no texts of scripts: see fingerprint.go of script/lua.
//
// # How to add a script
//
// Write a function func(c *Call) bool in the file of its library, and an entry of that
// library's list of scripts (see families). The function
//
//   - returns false for every call that it cannot do exactly: other numbers of
//     keys or arguments, odd spellings of numbers, other types or forms of
//     values, errors of the engine. Nothing has been changed or written then;
//   - writes the reply that the Lua would give and returns true;
//   - allocates nothing in the common case.
//
// It begins by reading its arguments, with the methods in arguments.go: each
// makes the call odd if the argument is not as expected. Then a script about one
// key uses Call.open, one visit under one lock, or a method for all of it, such
// as Call.count. A script about several keys uses Call.isolate and Call.finish
// around its visits; if it gives up, its changes are taken back. All refuse an
// odd call.
package native
