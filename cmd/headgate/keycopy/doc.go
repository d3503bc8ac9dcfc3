// Package keycopy copies live keys between two servers that speak the Redis
// protocol: strings, hashes, sorted sets, sets and lists, with their times to
// live. [Copy] is all of it.
package keycopy
