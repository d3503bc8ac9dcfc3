// Package diff says what an edit of a record changes.
//
//   - Compare returns the keys in which two records differ, and what each difference does
//     to counters.
//   - Revise returns the epochs of a policy's limits after an edit. Epochs say which
//     counters continue, which keep only the used part of the limit, and which begin at
//     zero. ResetAll makes all begin at zero.
//
// The package only compares two trees. It knows no set, reads no clock and changes no
// counter.
package diff
