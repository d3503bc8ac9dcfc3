// Package algo has the algorithms that limits decide by, as pure functions: of a state,
// a time and a call they make an answer and the next state. It imports nothing of
// Headgate, takes no lock and reads no clock.
//
//   - Limit is what a key is checked against, of some Algorithm. Compile makes a Rule of
//     it, which has everything precomputed.
//   - State is what a key holds: a deadline and up to two words. Logs and slots have a
//     list in the key's record besides.
//   - Rule.Decide decides a call, an Input, and changes nothing: it says what to store.
//     A list is written by Rule.Apply afterwards.
//   - Rule.Adopt and Rule.Scale carry a state over from another limit.
//   - Rule.Count charges a call that does not fit; Rule.Refund gives back.
//   - Holders are those of the slots of a concurrency limit.
//
// What one algorithm says is one variable: bucketAlgorithm (token and leaky),
// fixedAlgorithm, slidingAlgorithm, calendarAlgorithm, logAlgorithm, slotsAlgorithm. To
// add one see DESIGN.md; docs/algorithms.md has the rules as users see them.
package algo
