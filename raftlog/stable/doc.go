// Package stable stores a few small values in a file: a node's term, vote and identity.
// When Set returns, its change is durable, and so are the changes of earlier calls of
// PutUint64.
//
// # File
//
// The file has two slots of 64 KiB, each with all values:
//
//	slot: "HGST" version:1 zero:3 sequence:8 length:4 crc:4 then, for each key in order, its length, key, length, value
//
// Lengths of keys and values are unsigned varints, other numbers are little-endian. The
// checksum covers all other bytes of the slot, before and after it. A change is written to
// the first slot, synced, written to the second slot, and synced.
//
// # Damage
//
// A crash can damage only the slot that is being written. When the file is opened, the
// undamaged slot with the higher sequence number counts. It has the last change. If the
// last change was not acknowledged, the slot may have the change before it. So if one
// slot is damaged, for whatever reason, nothing is lost, and the slot is repaired. If
// both slots are damaged, opening the file is an error.
//
// After the file is opened, both slots are written and synced again, because after a failed
// sync the system may show data that the disk does not have.
package stable
