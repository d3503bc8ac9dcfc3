// Package policy has named policies, and finds the limits that apply to a call. It is
// pure: it opens no files and reads no clock. It does not know counters, so it never
// decides whether a call may pass.
//
// It has three layers. The vocabulary is Algorithm, Mode, Rate, Type and similar types.
// Definition is the checked tree of a text. Set is compiled from that. Package grammar
// reads texts into trees, package diff compares trees.
//
// The types:
//
//   - Record is a text that has been read and checked: the tree of a policy, or of a record
//     that policies share. An Errors says what is wrong with a text, and where.
//   - Set has all policies of a revision, compiled. It is immutable; an Editor makes the next
//     one.
//   - Policy and Limit are compiled forms. Numbers are what tiers and overrides may change of
//     a limit: its rate, mode and cost.
//   - Call takes the attributes of a check. Match returns the limits that apply, with the
//     keys of their counters. Explain says for every limit whether it applies, and why.
//   - Override is a record that changes the numbers for some callers.
//
// # Concurrency
//
// A Set and everything below it may be read by any number of goroutines. A Call or an
// Editor is for one goroutine.
//
// # Caveats
//
// A Call returns views of the caller's bytes and of its own buffers, which are
// valid until the next Begin. Times are Unix ns.
package policy
