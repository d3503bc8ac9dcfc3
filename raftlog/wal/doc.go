// Package wal stores a Raft log in append-only files, with one disk write and one sync per
// append.
//
// # Files
//
// The log is a sequence of segment files. Their names are "log-" and 16 hexadecimal digits,
// numbered without gaps. A segment consists of a header, a mark and frames, followed by
// zeros. The zeros are written in advance. So an append changes no metadata of the file
// system, and its sync is a single write. All numbers are little-endian.
//
//	at 0:    header: "HGWAL" version:1 zero:2 number:8 nonce:8 previous:8 crc:4 zero:4
//	at 512:  mark:   crc:4 zero:4 end:8
//	at 1024: frames: crc:4 length:4 kind:4 zero:4 a:8 b:8 payload, padded to a multiple of 8 bytes
//	entry:           crc:4 length:4 term:8 type:1 appended:8 data length:4 data extensions
//
// A frame of kind 1 is an append: b entries from index a on. A frame of kind 2 is a
// deletion: after it the log holds the entries from a up to, but not including, b. The
// frame's checksum covers the frame's header and the segment's random nonce, so that data
// in an entry never looks like a frame. Frames are XORed with 512 random bytes made from
// the nonce, so that no sector of a frame is all zeros, whatever the entries contain. The
// header's field previous is where the frames of the previous segment end.
//
// Three records give a lower bound of the log's length. The first two are one value in the
// stable store: the number of the last segment, and the end of the segment's frames. The
// log stores them when it is opened and when it begins a segment. When it is closed, it
// stores the exact end. The third record is the mark. After every 64 frames, the log sets
// the mark to the end of the synced frames. The mark needs no sync of its own, because the
// next append's sync includes it.
//
// # What a power loss leaves
//
// A frame is written only after the previous frame is synced. So at most the last frame is
// not synced. The disk writes each sector of 512 bytes (or a multiple) completely or not at
// all, and sectors in any order. After a torn write, some sectors contain the new bytes.
// The other sectors still contain the zeros that were synced before.
//
// # Damage
//
// So when the log is opened, a bad last frame is one of two things:
//
//   - torn, if one of its sectors is all zeros: the frame was never acknowledged, and is
//     cut off;
//   - damaged, if no sector is all zeros: all of the frame was written, and has changed
//     since.
//
// Damage is an error. So are all other states that a crash cannot leave:
//
//   - a bad frame that is followed by anything, or that is not in the last segment;
//   - a log that is shorter than the mark or the stable store says;
//   - a log that was closed, and has another end than the close stored;
//   - a file that is shorter than its frames, which are only written over synced zeros;
//   - a missing segment, including the last.
//
// In a log that was not closed, two kinds of loss look like a crash. A last frame of which
// a whole sector has become zeros looks torn. Frames that have become zeros look unwritten.
// At most 64 frames since the last mark, or since the opening, can be lost in this way. A
// damaged mark is not noticed. The next mark replaces it.
package wal
