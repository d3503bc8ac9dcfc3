// Package config is the configuration of the headgate server. It is one table of parameters
// ([Params]). Each parameter is a flag, a key of the YAML file, an environment variable and
// a name of CONFIG GET.
//
// [Load] makes a [Config] from these sources. A flag goes before the environment, the
// environment before the file, and the file before the default. Load reports all unknown
// keys, invalid values and conflicts, not only the first. A [Config] is plain data and is
// copied by value. A [Store] holds the Config in force and changes it for CONFIG SET.
//
// # Concurrency
//
// A Store is safe for concurrent use. Other values must be used by one goroutine at a time.
package config
