// Package stable keeps a few small values in a file, for a node's term, vote
// and identity. Every change is durable when Set returns, with those that were
// Put before it.
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
// Whatever a crash leaves, the slot that is not being written is whole. When
// the file is opened, the good slot with the higher sequence number counts. It
// holds the last change, or the one before, if the last was never acknowledged.
// So damage of one slot is repaired and costs nothing, whether it is a write
// that broke off or not. Damage of both is an error. Both slots are written and
// synced again then: after a failed sync the system may show what the disk does
// not have.
package stable
