// Package policycases runs a user's test cases against policies. A case says which calls
// must be allowed or denied, when, and what the answers must contain. The times are those
// of the case, so a case about a whole day runs at once.
//
//   - Parse reads a file of cases.
//   - Run decides the calls of a case and returns the differences from its expectations.
//     Each case begins with empty counters.
package policycases
