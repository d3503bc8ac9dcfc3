// Package stable keeps a few small values in a file, for a node's term, vote and
// identity. When Set returns, its change is durable, together with earlier calls of
// PutUint64.
//
// # File
//
// The file holds two slots of 64 KiB, each with all values:
//
//	slot: "HGST" version:1 zero:3 sequence:8 length:4 crc:4 then, for each key in order, its length, key, length, value
//
// Lengths of keys and values are unsigned varints, other numbers little-endian.
// The checksum covers everything else in the slot, before and after it. A
// change is written to the first slot, synced, written to the second, and
// synced.
//
// # Damage
//
// A crash never damages the slot that is not being written. When the file is opened, the
// good slot with the higher sequence number counts. It holds the last change, or the one
// before if the last was never acknowledged. So damage of one slot costs nothing,
// whatever the cause: it is repaired. Damage of both is an error.
//
// After opening, both slots are written and synced again: after a failed sync, the system
// may show data that the disk does not have.
package stable
