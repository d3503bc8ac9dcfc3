// Package algo has the algorithms of limits, as pure functions. From a state, a time and
// a call they compute an answer and the next state. The package imports no other package
// of Headgate, takes no lock and reads no clock.
//
//   - Limit says how much a key may take, and by which Algorithm. Compile makes a Rule
//     of a Limit, with all values that can be computed in advance.
//   - State is what a key holds: a deadline and up to two words. Logs and slots also have
//     a list in the key's record.
//   - Rule.Decide decides a call, an Input. It changes nothing, and returns the state to
//     store. Rule.Apply writes a list afterwards.
//   - Rule.Adopt and Rule.Scale convert a state from another limit.
//   - Rule.Count charges a call even if it does not fit. Rule.Refund gives a charge
//     back.
//   - Holders are the calls that hold slots of a concurrency limit.
//
// Each algorithm is one variable: bucketAlgorithm (token and leaky), fixedAlgorithm,
// slidingAlgorithm, calendarAlgorithm, logAlgorithm, slotsAlgorithm. DESIGN.md says how
// to add an algorithm. docs/algorithms.md has the rules as users see them.
package algo
