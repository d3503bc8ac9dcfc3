// Package diff says what an edit of a record changes.
//
//   - Compare returns the keys in which two records differ, and what each difference does
//     to counters.
//   - Revise returns the epochs of a policy's limits after an edit. Epochs say which
//     counters continue, which counters keep only their used share of the limit, and
//     which counters begin at zero. ResetAll makes all counters begin at zero.
//
// The package only compares two trees. It does not know sets, clocks or counters.
package diff
