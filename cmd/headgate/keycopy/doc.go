// Package keycopy carries live keys of one server that speaks the Redis protocol
// over to another: strings, hashes, sorted sets, sets and lists, with what is
// left of their time to live. [Copy] is all of it.
package keycopy
