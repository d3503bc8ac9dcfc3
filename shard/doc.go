// Package shard is a lock-sharded in-memory table of byte keys, each with a few 64-bit
// words of state and a deadline. It knows bytes, not algorithms.
//
// The types:
//
//   - Table holds a power of two of shards, and what spans them: hashing, the memory
//     account, scans, the sweep.
//   - Shard is one lock and the keys under it. A caller hashes its key, locks the shard
//     of that hash, works on entries and unlocks.
//   - Entry is a handle, by value, to one key's record: its meta word, deadline and
//     state.
//   - Image is one entry's full state outside the table, with an encoding.
//   - Undo holds the states that a shard's dirty keys had before they became dirty.
//
// # Concurrency
//
// Every method of Shard and Entry must be called with the shard's lock held. The methods
// of Table take the locks that they need, one at a time, for a bounded amount of work.
// Several shards must be locked in ascending order of index. While they are locked, the
// caller must not call methods of Table that lock (Scan, Random, Sweep, Reset, Stats).
//
// # Caveats
//
// An Entry is valid until the next Insert, Put, Resize, Delete or Sweep on its shard, or
// Unlock. Each of these may move any record of the shard. Find returns expired entries
// too, since only its caller knows the time. Nothing here starts a goroutine: the owner
// of the table calls Sweep.
//
// DESIGN.md beside this file has the layout, the invariants and the reasons.
package shard
