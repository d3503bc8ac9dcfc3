// Package engine decides whether a call may take some units of a key's limit now, and
// how many units are left. It does not know connections or protocols. A decision does
// not read a clock: the caller passes the time, in Unix ns, as the argument now.
//
// The types:
//
//   - Engine holds the state of every limit, in a table of package shard, and maintains it:
//     see Run.
//   - Session decides, for one event loop or one goroutine: Decide on a key, DecideAll on
//     several in one step, Check on the limits of policies, Acquire, IncrEx and the
//     commands on keys. Isolate joins several calls into one atomic step.
//   - Package algo has the algorithms. A Limit says how much a key may take; Options are
//     the other inputs of a call; a Decision is the answer.
//   - Replica replicates an Engine. It collects, applies and undoes changes, and writes
//     and restores snapshots. In a cluster only the leader's engine decides; the other
//     engines are sealed: they refuse calls.
//   - While there is no leader, Local decides on a node's share of each limit. Empty
//     decides as if each limit were unused, and Backstop bounds how much is then
//     admitted.
//   - Clock is monotonic time that follows the wall clock.
//
// The state of a limit is a deadline and a few 64-bit words under a key. Kinds of state
// differ only in the rows of two tables: one in package algo, one in kind.go.
//
// # Concurrency
//
// Engine, Local, Empty, Backstop and Clock are safe for concurrent use. A Session is
// not, but any number of sessions can use one Engine at the same time. The log calls the
// methods of a Replica one at a time, while sessions decide. A decision on a known key
// locks the key's shard. If the session has used the limit lately, the decision takes no
// other contended lock. Code that locks several shards locks them in ascending order.
//
// # Caveats
//
// New starts no goroutine. If nobody calls Run, decisions are still right, but expired
// keys are not removed and the clock does not follow wall time. If the engine is sealed,
// a session's calls return ErrSealed. A key holds one kind of state. A call of another
// kind gets ErrWrongType until that state has expired or is deleted. A Session caches
// limits and must be closed.
//
// DESIGN.md beside this file has the data flow, the invariants, replication and the
// reasons; docs/algorithms.md has the rules as users see them.
package engine
