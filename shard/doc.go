// Package shard is an in-memory table of keys, which are bytes. It is divided into
// shards with a lock each. Each key has a deadline and a state of a few 64-bit words.
// The package does not know what the words mean.
//
// The types:
//
//   - Table holds the shards, whose number is a power of two. It does the work that
//     concerns all shards: hashing, counting memory, scans, and the sweep, which removes
//     expired keys.
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
// The caller of a method of Shard or Entry must hold the shard's lock. The methods of
// Table take the locks that they need, one at a time, and hold each for a bounded amount
// of work. A caller that locks several shards must lock them in ascending order of
// index. While a caller holds a lock, it must not call the methods of Table that lock
// shards (Scan, Random, Sweep, Reset, Stats).
//
// # Caveats
//
// An Entry is valid until Unlock, or until the next Insert, Put, Resize, Delete or Sweep
// on its shard, because each of these may move any record of the shard. Find also
// returns expired entries: only its caller knows the time. The package starts no
// goroutine, so the owner of the table must call Sweep.
//
// DESIGN.md in this directory has the layout, the invariants and the reasons.
package shard
