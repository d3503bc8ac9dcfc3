// Package keyspace has Redis's commands on keys of any type: DEL, EXPIRE, SCAN and similar
// ones, OBJECT and MEMORY. Each command is a handler of a [command.Call]; the package knows
// no connections.
package keyspace
