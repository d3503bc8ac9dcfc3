// Package admin answers the requests of operators under /v1/: policies, overrides and their
// changes, the state of keys, the busiest callers, rates, and trials of limits.
//
// The package only translates. Each request becomes commands, which [Asker] runs on behalf
// of the client. So versions, authors, error texts and failures are the same as for
// RL.POLICY and the other commands. [API.Routes] lists the paths, the right that each needs
// and the bound of its body. The caller of this package checks rights and bounds, reads the
// bodies, and converts errors to answers.
//
// # Concurrency
//
// Any number of goroutines may use an API at a time.
package admin
