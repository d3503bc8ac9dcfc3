// Package keyspace holds Redis's commands on keys of any type: DEL, EXPIRE, SCAN and their
// like, OBJECT and MEMORY. Each is a handler of a [command.Call] and knows no connection.
package keyspace
