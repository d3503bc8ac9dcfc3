// Package policy reads named policies and tells which limits apply to a call:
// text -> checked tree -> compiled set. It is pure: it opens nothing, knows no
// clock and no counter, and decides nothing about what was consumed.
//
// The types:
//
//   - Record is a text that has been read and checked. ParseFile and
//     ParseRecord make them; an Errors says what is wrong with a text, and
//     where.
//   - Set has all policies of a revision, compiled. It is immutable; an Editor
//     makes the next one.
//   - Policy and Limit are the compiled forms, Numbers what tiers and overrides
//     may change of a limit: its rate, mode and cost.
//   - Call takes the attributes of a check, and Match tells the limits that
//     apply, with the keys of their counters. Explain tells the same, and why.
//   - Override is a record that changes the numbers for some callers.
//
// # Concurrency
//
// A Set and everything below it may be read by any number of goroutines. A Call
// and an Editor belong to one.
//
// # Caveats
//
// What a Call returns are views of the caller's bytes and of the call's own
// buffers: they are good until the next Begin. Times are Unix ns.
package policy
