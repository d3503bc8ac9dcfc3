// Package route finds the pattern that matches a request, among patterns of methods, hosts
// and templates of paths.
//
// A [Pattern] is written `GET|POST api.example.com/v1/users/{id}`. Without methods it
// matches all methods, and without a host all hosts. `*.` before a host means all hosts
// below it, and `/*` at the end means all paths from there on. A [Table] has many patterns.
// It finds the most specific pattern that matches a request. The time does not depend on
// the number of patterns. If two patterns in a table match the same request, one is always
// more specific.
//
// [Clean] converts the many spellings of a path into one.
package route
