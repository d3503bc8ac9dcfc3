// Package wal keeps a Raft log in append-only files with one disk write and one sync per append.
//
// # Files
//
// The log is a row of segment files, "log-" and a number of 16 hexadecimal digits, numbered without gaps. A segment is a
// header and frames; behind the last frame are zeros, which are written ahead so that an append changes no metadata of the
// file system and its sync is a single write. All numbers are little-endian.
//
//	header: "HGWAL" version:1 zero:2 number:8 nonce:8 previous:8 crc:4 zero:4
//	frame:  crc:4 length:4 kind:4 zero:4 a:8 b:8 payload, padded to a multiple of 8 bytes
//	entry:  crc:4 length:4 term:8 type:1 appended:8 data length:4 data extensions
//
// A frame of kind 1 is one append: b entries from index a on. One of kind 2 is a deletion: the log then holds the entries
// from a up to, and without, b. The frame's checksum covers its header and the segment's random nonce, so that nothing
// that is merely data looks like a frame. Previous is where the frames of the segment before end.
//
// # Damage
//
// Only the last frame can be incomplete after a crash, because the next one is written after its sync (whoever appends
// without a sync leaves one frame unsynced at most): an incomplete frame at the end of the last segment was never
// acknowledged and is cut off. Everything else is an error when the log is
// opened: a bad frame with a good one behind it, or not in the last segment; a file shorter than what was written to it
// (frames are written only into space that was synced before); a missing segment, the last included, whose number is kept
// in the stable store.
package wal
