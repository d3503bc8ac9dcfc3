// Package diff says what an edit of a record changes.
//
//   - Compare returns the keys in which two records differ, and what each difference does to
//     counters.
//   - Revise returns the epochs of a policy's limits after an edit: which counters continue,
//     which keep their share, and which begin anew. ResetAll makes all of them begin anew.
//
// It is pure: it reads two trees. It knows no set, reads no clock and touches no counter.
package diff
