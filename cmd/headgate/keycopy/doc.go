// Package keycopy copies keys between two running servers that speak the Redis protocol:
// strings, hashes, sorted sets, sets and lists, with their times to live. [Copy] does it.
package keycopy
