// Package route finds the pattern of a request, among patterns of methods, hosts
// and templates of paths.
//
// A [Pattern] is written `GET|POST api.example.com/v1/users/{id}`. Without methods it
// matches all methods, and without a host all hosts. `*.` before a host means all hosts
// below it, and `/*` at the end means all paths from there on. A [Table] has many
// patterns. It finds the most specific pattern of a request, in a time that does not
// depend on its size. Of two patterns in a table that match the same request, one is
// always more specific.
//
// [Clean] brings the many spellings of one path into one.
package route
