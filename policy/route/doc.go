// Package route finds the pattern that a request goes by, of patterns of methods,
// hosts and templates of paths.
//
// A [Pattern] is written `GET|POST api.example.com/v1/users/{id}`, without methods
// for all of them, without a host for all hosts, with `*.` in front of a host for
// those below it, and with `/*` at the end for all paths from there on. A [Table]
// has many, of which no two claim the same request without one of them being more
// specific, and finds the most specific one in a time that does not depend on how
// many there are.
//
// [Clean] brings the many spellings of one path into one.
package route
