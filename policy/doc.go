// Package policy has named policies, and finds the limits that apply to a call. It
// is pure: it opens nothing, knows no clock and no counter, and decides nothing
// about consumed units.
//
// It has three floors. The vocabulary is Algorithm, Mode, Rate, Type and their kin.
// The checked tree of a text is Definition. Set is compiled from it. Package grammar
// reads texts into trees, package diff compares trees.
//
// The types:
//
//   - Record is a text that has been read and checked: the tree of a policy, or of a
//     record that policies share. An Errors says what is wrong with a text, and where.
//   - Set has all policies of a revision, compiled. It is immutable; an Editor
//     makes the next one.
//   - Policy and Limit are the compiled forms, Numbers what tiers and overrides
//     may change of a limit: its rate, mode and cost.
//   - Call takes the attributes of a check. Match returns the limits that
//     apply, with the keys of their counters. Explain returns the same, and
//     why.
//   - Override is a record that changes the numbers for some callers.
//
// # Concurrency
//
// A Set and everything below it may be read by any number of goroutines. A Call
// and an Editor belong to one.
//
// # Caveats
//
// A Call returns views of the caller's bytes and of its own buffers, which are
// valid until the next Begin. Times are Unix ns.
package policy
