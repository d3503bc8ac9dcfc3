// Package admin answers the requests of operators under /v1/. They are about policies,
// overrides and their changes, the state of keys, the busiest callers, rates, and trials of
// limits.
//
// It only translates: each request becomes commands, which [Asker] runs on behalf of the
// client. So wording, versions, authors and failures are those of RL.POLICY and its like.
// [API.Routes] lists the paths, the right that each needs and the bound of its body. The
// server checks these, reads the bodies, and converts errors to answers.
//
// # Concurrency
//
// An API may be used by any goroutine.
package admin
