// Package shard is an in-memory table of byte keys, divided into shards with a lock each.
// Each key has a few 64-bit words of state and a deadline. The package knows bytes, not
// algorithms.
//
// The types:
//
//   - Table holds a number of shards that is a power of two. It does the work that concerns
//     all shards: hashing, the memory account, scans, the sweep.
//   - Shard is one lock and the keys under that lock. A caller hashes its key, locks the
//     shard of that hash, works on entries and unlocks.
//   - Entry is a handle, by value, to one key's record: its meta word, deadline and
//     state.
//   - Image is one entry's full state outside the table, with an encoding.
//   - Undo holds the earlier states of a shard's dirty keys, which are keys that changed
//     since the last Cut.
//
// # Concurrency
//
// The caller of a method of Shard or Entry must hold the shard's lock. The methods of Table
// take the locks that they need, one at a time, for a bounded amount of work. A caller that
// locks several shards must lock them in ascending order of index. While it holds them, it
// must not call methods of Table that lock (Scan, Random, Sweep, Reset, Stats).
//
// # Caveats
//
// An Entry is valid until the next Insert, Put, Resize, Delete or Sweep on its shard, or
// Unlock. Each of these may move any record of the shard. Find also returns expired
// entries, because only its caller knows the time. The package starts no goroutine: the
// owner of the table must call Sweep.
//
// DESIGN.md in this directory has the layout, the invariants and the reasons.
package shard
