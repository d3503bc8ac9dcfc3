// Package diff says what an edit of a record changes.
//
//   - Compare returns the keys in which two records differ, with what each difference
//     does to counters.
//   - Revise returns the epochs of a policy's limits after an edit: which counters go on,
//     which keep their share, and which begin anew. ResetAll has all of them begin anew.
//
// It is pure: it reads two trees and knows no set, no counter and no clock.
package diff
