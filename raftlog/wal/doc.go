// Package wal keeps a Raft log in append-only files with one disk write and one
// sync per append.
//
// # Files
//
// The log is a row of segment files, "log-" and a number of 16 hexadecimal
// digits, numbered without gaps. A segment is a header, a mark and frames,
// followed by zeros. The zeros are written ahead: so an append changes no
// metadata of the file system, and its sync is a single write. All numbers are
// little-endian.
//
//	at 0:    header: "HGWAL" version:1 zero:2 number:8 nonce:8 previous:8 crc:4 zero:4
//	at 512:  mark:   crc:4 zero:4 end:8
//	at 1024: frames: crc:4 length:4 kind:4 zero:4 a:8 b:8 payload, padded to a multiple of 8 bytes
//	entry:           crc:4 length:4 term:8 type:1 appended:8 data length:4 data extensions
//
// A frame of kind 1 is one append: b entries from index a on. One of kind 2 is
// a deletion: the log then holds the entries from a up to, and without, b. The
// frame's checksum covers its header and the segment's random nonce, so that
// nothing that is merely data looks like a frame. Frames are XORed with 512
// random bytes made from the nonce, so that no sector of one is all zeros,
// whatever the entries hold. Previous is where the frames of the segment before
// end.
//
// Three records say how far the log went at least. The stable store holds, as
// one value, the number of the last segment and where its frames ended when the
// log was opened or the segment begun. A close replaces that by the exact end.
// Every 64 frames the mark is set to the end of the synced frames, without a
// sync of its own: the next append's sync includes it.
//
// # What a power loss leaves
//
// A frame is written only after the one before is synced. So at most one frame, the last,
// is not synced. The disk writes sectors of 512 bytes (or multiples) whole or not at all,
// in any order. After a torn write some sectors are as written; the others are still the
// zeros that were synced before.
//
// # Damage
//
// So the last frame, if it is bad, is one of two things when the log is opened:
//   - torn, if a sector of it is all zeros: it was never acknowledged, and is
//     cut off;
//   - damaged, if not: something was written there whole, and is not what it
//     was.
//
// Damage is an error. So is everything else that no crash leaves: a bad frame
// with anything after it, or not in the last segment; a log shorter than the
// mark or the stable store says; a closed log that has changed; a file shorter
// than its frames (they are written only into space that was synced before); a
// missing segment, the last included.
//
// Two losses cannot be told from a crash, in a log that was not closed. A last
// frame that has lost a whole sector to zeros looks torn. Frames of which
// nothing is left look unwritten. That can be the frames since the last mark
// and since the opening, 64 at most. A damaged mark is not noticed, and
// replaced by the next.
package wal
