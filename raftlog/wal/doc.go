// Package wal stores a Raft log in append-only files, with one disk write and one sync per
// append.
//
// # Files
//
// The log is a sequence of segment files. Their names are "log-" and 16 hexadecimal
// digits, numbered without gaps. A segment consists of a header, a mark and frames,
// followed by zeros. Because the zeros are written in advance, an append changes no
// metadata of the file system, and its sync is a single write. All numbers are
// little-endian.
//
//	at 0:    header: "HGWAL" version:1 zero:2 number:8 nonce:8 previous:8 crc:4 zero:4
//	at 512:  mark:   crc:4 zero:4 end:8
//	at 1024: frames: crc:4 length:4 kind:4 zero:4 a:8 b:8 payload, padded to a multiple of 8 bytes
//	entry:           crc:4 length:4 term:8 type:1 appended:8 data length:4 data extensions
//
// A frame of kind 1 is an append: b entries, the first with index a. A frame of kind 2
// is a deletion: afterwards the log holds the entries from a to b-1. The frame's
// checksum covers the frame's header and the segment's nonce, a random number, so data
// in an entry never looks like a frame. Frames are XORed with 512 random bytes made from
// the nonce. So no sector of a frame is all zeros, even if the entries are. The field
// previous of the header says where the frames of the previous segment end.
//
// Three records give a lower bound for the length of the log. Two of them are stored together, as
// one value of the stable store: the number of the last segment, and the end of that
// segment's frames. The log stores this value when the log is opened and when it begins
// a segment. When the log is closed, it stores the exact end. The third record is the
// mark in the segment. After every 64 frames, the log sets the mark to the end of the
// synced frames. The mark needs no sync of its own, because the next append's sync
// includes the mark.
//
// # What a power loss leaves
//
// A frame is written only after the previous frame is synced. So after a power loss at
// most the last frame is not synced. The disk writes each sector of 512 bytes (or a
// multiple) completely or not at all, and writes sectors in any order. So some sectors
// of a torn frame contain the new bytes, and the others still contain the zeros that
// were synced before.
//
// # Damage
//
// When the log is opened, a last frame with a wrong checksum is one of two things:
//
//   - torn, if one of its sectors is all zeros: the frame was never acknowledged, and is
//     cut off;
//   - damaged, if no sector is all zeros: the whole frame was written, and its bytes
//     have changed since.
//
// Damage is an error. So are all other states that a crash cannot leave:
//
//   - a bad frame that is not the last frame of the last segment;
//   - a log that is shorter than the mark or the stable store says;
//   - a log that was closed, and does not end where the close stored its end;
//   - a file that is shorter than its frames: frames are written only over synced zeros,
//     so a crash cannot shorten the file;
//   - a missing segment, including the last.
//
// In a log that was not closed, two kinds of damage look like a crash. If a whole sector
// of the last frame has become zeros, that frame looks torn. If whole frames at the end
// have become zeros, they look unwritten. At most 64 frames since the last mark, or
// since the log was opened, can be lost in this way. A damaged mark is not noticed; the
// next mark overwrites it.
package wal
