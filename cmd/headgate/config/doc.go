// Package config is the configuration of the headgate server, as one table of
// parameters ([Params]). Each is a flag, a key of the YAML file, an environment
// variable and a name of CONFIG GET.
//
// [Load] resolves them into a [Config] in the order flag, environment, file,
// default. It reports every unknown key, bad value and conflict, not only the
// first. A [Config] is plain data and is copied by value. A [Store] holds the
// one in force and changes it for CONFIG SET.
//
// # Concurrency
//
// A Store is safe for concurrent use. Everything else belongs to one goroutine.
package config
