// Package policycases runs a user's own cases against policies: which calls are
// to be allowed or denied, when, and what the answers are to say. The time is
// that of the cases, so a case about a day takes no time.
//
//   - Parse reads a file of cases.
//   - Run decides the calls of a case, each case with empty counters, and
//     returns what was not as expected.
package policycases
