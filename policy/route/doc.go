// Package route finds the pattern of a request, among patterns of methods, hosts
// and templates of paths.
//
// A [Pattern] is written `GET|POST api.example.com/v1/users/{id}`. Without methods
// it is for all methods, and without a host for all hosts. `*.` in front of a host
// stands for all hosts below it, and `/*` at the end for all paths from there on.
// A [Table] has many patterns. If two of them claim the same request, one is more
// specific. The table finds the most specific one in a time that does not depend
// on its size.
//
// [Clean] brings the many spellings of one path into one.
package route
