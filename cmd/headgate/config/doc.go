// Package config has the configuration of the headgate server, as one table of
// parameters ([Params]). Each parameter is a flag, a key of the YAML file, an
// environment variable and a name of CONFIG GET.
//
// [Load] makes a [Config] from these sources. A flag has precedence over the
// environment, the environment over the file, and the file over the default. Load
// reports all unknown keys, invalid values and conflicts, not only the first. A [Config]
// is plain data and is copied by value. A [Store] holds the Config in force, and CONFIG
// SET changes it there.
//
// # Concurrency
//
// A Store is safe for concurrent use. Other values must be used by one goroutine at a time.
package config
