// Package keyspace has Redis's commands on keys, whatever state they hold: DEL,
// EXPIRE, SCAN and their like, OBJECT and MEMORY. Each is a handler of a
// [command.Call] and knows no connection.
package keyspace
