// Package keyspace has Redis's commands on keys of any type: DEL, EXPIRE, SCAN and
// similar ones, OBJECT and MEMORY. Each is a handler of a [command.Call] and knows no
// connection.
package keyspace
