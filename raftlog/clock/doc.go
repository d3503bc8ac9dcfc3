// Package clock finds the time from which a new leader continues the cluster's clock.
//
// The types:
//
//   - Bound is a lower bound of the leader's clock, from the entries that the node has
//     received.
//   - Arrivals remembers when entries arrived, and which of them were new.
//   - File keeps the clock across a restart of the node.
//   - Report is what one node knows. Resume finds the clock from the reports of the
//     voters.
//
// All times are in ns. Times of the cluster and of wall clocks count since 1970. A node's
// own times count since the boot of its machine (internal/boottime).
package clock
