// Package clock knows the clock of a cluster: what a node may go on from when
// it comes to lead.
//
// The types:
//   - Bound is a lower bound of the leader's clock, from the entries heard of
//     it.
//   - Arrivals remembers when entries came, and which of them were new.
//   - File keeps the clock over a restart of the node.
//   - Report is what a node knows, and Resume what follows from the voters'.
//
// All times are in ns: of the cluster and of wall clocks since 1970, of a
// node's own since the boot of its machine (internal/boottime).
package clock
