// Package clock knows the clock of a cluster: the time from which a new leader may
// continue.
//
// The types:
//
//   - Bound is a lower bound of the leader's clock, from the entries heard from it.
//   - Arrivals remembers when entries came, and which of them were new.
//   - File keeps the clock across a restart of the node.
//   - Report is what one node knows. Resume finds the clock from the reports of the voters.
//
// All times are in ns. Those of the cluster and of wall clocks count since 1970, a node's
// own since the boot of its machine (internal/boottime).
package clock
