// Package admin answers under /v1/ those who look after limits rather than ask them:
// policies and overrides and their changes, what a key holds and why, which callers
// are the busiest, what goes on, and trials of what would be.
//
// It only translates: each request becomes commands, which [Asker] runs on behalf of
// who sends it, so that wording, versions, authors and failures are those of
// RL.POLICY and its kin. [API.Routes] tells which paths there are, what they need of
// their caller and how long their bodies may be; whoever serves them asks for that,
// reads the bodies, and makes answers of the errors.
//
// # Concurrency
//
// An API may be used by any goroutine.
package admin
