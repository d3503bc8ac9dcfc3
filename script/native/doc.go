// Package native runs scripts of well-known rate-limiting libraries as Go, on
// the same keys and stored values as their Lua, so that old and new clients may
// share a key.
//
//   - Script is a known script: its names (SHA1s and fingerprints) and what runs
//     in its place. BySHA and Find find it.
//   - Call is one call of it: keys, arguments, time, session and reply.
//
// A script that does not do exactly what its Lua does for the call at hand says
// so before it changes or replies anything, and the Lua runs.
//
// No text of a script is here: see fingerprint.go of script/lua.
//
// # How to add a script
//
// Write a function func(c *Call) bool in the file of its library, and an entry of
// that library's list, which families names. The function
//
//   - returns false for whatever it does not do exactly: another number of keys
//     or arguments, a number that is not written plainly, a value of another type
//     or form, an error of the engine. Nothing has been changed or written then;
//   - writes the reply that the Lua would give and returns true;
//   - allocates nothing in the common case.
//
// It begins by reading its arguments, with the methods in arguments.go, each of
// which makes the call odd if it is not as it should be. Then a script about one
// key uses Call.open, one visit under one lock, or what does it all in one, such
// as Call.count. One about several uses Call.isolate and Call.finish around its
// visits, and what it has changed is taken back if it gives up. All refuse an odd
// call.
package native
