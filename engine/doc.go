// Package engine decides whether a key may take some units of a limit now, and what is
// left. It knows no connections and no protocol. Decisions read no clock: each gets the
// time as an argument, now, in Unix ns.
//
// The types:
//
//   - Engine holds the state of every limit, in a table of package shard, and maintains it:
//     see Run.
//   - Session decides, for one event loop or one goroutine: Decide on a key, DecideAll on
//     several in one step, Check on the limits of policies, Acquire, IncrEx and the
//     commands on keys. Isolate joins several calls into one atomic step.
//   - Package algo has the algorithms. Limit is what a key is checked against; Options
//     are the parts of a call that are not its limit; Decision is the answer.
//   - Replica replicates an Engine: it cuts, applies and undoes effects, and writes and
//     restores snapshots. Of replicated engines only the leader's decides; the others are
//     sealed.
//   - Local decides on a node's share of each limit while there is no leader. Empty
//     answers as if every limit were full, and Backstop bounds what it admits.
//   - Clock is monotonic time that follows the wall clock.
//
// A limit's state is a deadline and a few 64-bit words under its key. The differences
// between kinds of state are in the rows of package algo and of kind.go.
//
// # Concurrency
//
// Engine, Local, Empty, Backstop and Clock are safe for concurrent use. A Session is not,
// but any number of sessions work on one Engine. The log calls a Replica, one call at a
// time, while sessions work. A decision on a known key locks the key's shard. If the
// session has used the limit lately, the decision takes no other contended lock. Several
// shards are locked in ascending order.
//
// # Caveats
//
// New starts no goroutine. Without Run, decisions are right, but expired keys are not
// reaped and the clock does not follow wall time. On a sealed engine a session's calls
// return ErrSealed. A key holds one kind of state: a call of another kind gets
// ErrWrongType until the state has expired or is deleted. A Session caches limits and
// must be closed.
//
// DESIGN.md beside this file has the data flow, the invariants, replication and the
// reasons; docs/algorithms.md has the rules as users see them.
package engine
