// Package algo has the algorithms that limits decide by, as pure functions. From a state,
// a time and a call they compute an answer and the next state. It imports nothing of
// Headgate, takes no lock and reads no clock.
//
//   - Limit is what a key is checked against, with some Algorithm. Compile makes a Rule
//     of it, with everything precomputed.
//   - State is what a key holds: a deadline and up to two words. Logs and slots also have
//     a list in the key's record.
//   - Rule.Decide decides a call, an Input. It changes nothing, and returns the state to
//     store. Rule.Apply writes a list afterwards.
//   - Rule.Adopt and Rule.Scale convert a state from another limit.
//   - Rule.Count charges a call that does not fit; Rule.Refund gives back.
//   - Holders are the calls that hold slots of a concurrency limit.
//
// Each algorithm is one variable: bucketAlgorithm (token and leaky), fixedAlgorithm,
// slidingAlgorithm, calendarAlgorithm, logAlgorithm, slotsAlgorithm. DESIGN.md says how
// to add one; docs/algorithms.md has the rules as users see them.
package algo
