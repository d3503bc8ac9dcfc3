// Package hgtest starts real Headgate servers for tests and benchmarks.
//
// A Server is a process of its own on a free loopback port. Tests reach it as an
// application does, and may kill it and start it again. Trio starts the three
// that every suite is run against: plain, with a password, over TLS.
package hgtest
