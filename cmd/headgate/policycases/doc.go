// Package policycases runs a user's own cases against policies: which calls
// must be allowed or denied, when, and what the answers must say. Time is that
// of the cases, so a case about a day takes no time.
//
//   - Parse reads a file of cases.
//   - Run decides the calls of a case, each case with empty counters, and
//     returns the differences from its expectations.
package policycases
