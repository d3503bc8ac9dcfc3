// Package config is the configuration of the headgate server: one table of
// parameters ([Params]), each of which is a flag, a key of the YAML file, an
// environment variable and a name of CONFIG GET.
//
// [Load] resolves them into a [Config] in the order flag, environment, file,
// default, and reports every unknown key, bad value and conflict it finds, not
// only the first. A [Config] is plain data and is copied by value; a [Store]
// holds the current one of a running server and changes it for CONFIG SET.
//
// # Concurrency
//
// A Store is safe for concurrent use. Everything else belongs to one goroutine.
package config
