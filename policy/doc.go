// Package policy represents named policies, and finds the limits that apply to a call.
// It opens no files and reads no clock. It does not know counters, so it cannot decide
// whether a call may pass.
//
// The package has three layers of types. The first has small types, such as Algorithm,
// Mode, Rate and Type. The second is Definition: the content of a policy's text as a
// tree, after it was checked. The third is Set, which is compiled from Definitions and
// finds limits. Package grammar reads texts into trees, and package diff compares trees.
//
// The types:
//
//   - Record is a text that has been read and checked. It is a policy, routes, or
//     something that policies share, such as a list. An Errors says what is wrong with a
//     text, and where.
//   - Set holds all policies of a revision, compiled. It is immutable; an Editor makes
//     the next Set.
//   - Policy and Limit are the compiled forms of a policy and its limits. Numbers are
//     the parts of a limit that tiers and overrides may change: rate, mode and cost.
//   - Call holds the attributes of a check. Match returns the limits that apply, with the
//     keys of their counters. Explain says for every limit whether it applies, and why.
//   - Override is a record that changes the numbers for some callers.
//
// # Concurrency
//
// Any number of goroutines may read a Set and everything in it. Only one goroutine may use
// a Call or an Editor.
//
// # Caveats
//
// A Call returns references to the caller's bytes and to its own buffers. They are valid
// until Call.Begin starts the next check. Times are Unix ns.
package policy
