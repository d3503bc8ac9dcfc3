package wal

import (
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

const (
	magic   = "HGWAL"
	version = 2

	// sector is the largest unit that a disk writes whole or not at all.
	sector = 512

	headerSize      = 40
	markAt          = sector // in a sector of its own
	markSize        = 16
	framesAt        = 2 * sector
	frameHeaderSize = 32
	entryHeaderSize = 29
	alignment       = 8

	kindEntries = 1
	kindBounds  = 2

	// maxFrame bounds what a node reads because of a damaged length.
	maxFrame = 1 << 30
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// segmentHeader begins a file.
type segmentHeader struct {
	number   uint64
	nonce    uint64
	previous uint64 // end of the frames of the segment before; 0 if there is none
}

func (h segmentHeader) append(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = append(b, version, 0, 0)
	b = le.AppendUint64(b, h.number)
	b = le.AppendUint64(b, h.nonce)
	b = le.AppendUint64(b, h.previous)
	b = le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, 0, 0, 0, 0)
}

// readSegmentHeader decodes a header. ok is false unless the checksum is right. It does
// not check the version.
func readSegmentHeader(b []byte) (h segmentHeader, v byte, ok bool) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic || le.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli) {
		return segmentHeader{}, 0, false
	}
	return segmentHeader{number: le.Uint64(b[8:]), nonce: le.Uint64(b[16:]), previous: le.Uint64(b[24:])}, b[len(magic)], true
}

// pad is XORed with a segment's frames. It consists of random bytes, made from the
// segment's nonce, and repeats with every sector. So no sector of a frame is all zeros,
// whatever an entry contains.
type pad [sector]byte

func newPad(nonce uint64) *pad {
	var p pad
	var seed [16]byte
	le.PutUint64(seed[:], nonce)
	for at := 0; at < len(p); at += sha512.Size {
		le.PutUint64(seed[8:], uint64(at))
		sum := sha512.Sum512(seed[:])
		copy(p[at:], sum[:])
	}
	return &p
}

// mask applies the pad to b, which begins at a position of the file, or removes it.
func (p *pad) mask(b []byte, at int64) {
	for len(b) > 0 {
		n := subtle.XORBytes(b, b, p[at%sector:])
		b, at = b[n:], at+int64(n)
	}
}

// putMark encodes the mark of a segment whose frames up to end are synced.
func putMark(b *[markSize]byte, end int64, nonce uint64) {
	le.PutUint64(b[8:], uint64(end))
	le.PutUint32(b[:], seededSum(b[4:], nonce))
}

// readMark returns the end in a mark, or framesAt if the mark cannot be read.
func readMark(b []byte, nonce uint64) int64 {
	if end := int64(le.Uint64(b[8:])); end > framesAt && le.Uint32(b) == seededSum(b[4:markSize], nonce) {
		return end
	}
	return framesAt
}

// frame is the header of a frame.
type frame struct {
	kind   uint32
	length int // of the payload, without padding
	a, b   uint64
}

// size returns the length of the frame in the file.
func (f frame) size() int { return frameHeaderSize + (f.length+alignment-1)&^(alignment-1) }

// put encodes the header into b.
func (f frame) put(b []byte, nonce uint64) {
	le.PutUint32(b[4:], uint32(f.length))
	le.PutUint32(b[8:], f.kind)
	le.PutUint32(b[12:], 0)
	le.PutUint64(b[16:], f.a)
	le.PutUint64(b[24:], f.b)
	le.PutUint32(b, seededSum(b[4:frameHeaderSize], nonce))
}

func seededSum(b []byte, nonce uint64) uint32 {
	var seed [8]byte
	le.PutUint64(seed[:], nonce)
	return crc32.Update(crc32.Checksum(seed[:], castagnoli), castagnoli, b)
}

// readFrame decodes a header. ok is false if b does not begin with one.
func readFrame(b []byte, nonce uint64) (f frame, ok bool) {
	if len(b) < frameHeaderSize || le.Uint32(b[8:]) == 0 || le.Uint32(b) != seededSum(b[4:frameHeaderSize], nonce) {
		return frame{}, false
	}
	f = frame{kind: le.Uint32(b[8:]), length: int(le.Uint32(b[4:])), a: le.Uint64(b[16:]), b: le.Uint64(b[24:])}
	return f, f.length <= maxFrame
}

// appendEntry encodes an entry.
func appendEntry(b []byte, l *raft.Log) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = le.AppendUint32(b, uint32(entryHeaderSize+len(l.Data)+len(l.Extensions)))
	b = le.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	appended := int64(0)
	if !l.AppendedAt.IsZero() {
		appended = l.AppendedAt.UnixNano()
	}
	b = le.AppendUint64(b, uint64(appended))
	b = le.AppendUint32(b, uint32(len(l.Data)))
	b = append(b, l.Data...)
	b = append(b, l.Extensions...)
	le.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

// entrySize returns the length of the entry at the start of b, 0 if the entry is
// incomplete.
func entrySize(b []byte) int {
	if len(b) < entryHeaderSize {
		return 0
	}
	n := int(le.Uint32(b[4:]))
	if n < entryHeaderSize || n > len(b) || int(le.Uint32(b[25:])) > n-entryHeaderSize || le.Uint32(b) != crc32.Checksum(b[4:n], castagnoli) {
		return 0
	}
	return n
}

// readEntry decodes the entry that b contains, without its index. l refers to memory of b.
// ok is false if b is damaged.
func readEntry(b []byte, l *raft.Log) (ok bool) {
	if len(b) == 0 || entrySize(b) != len(b) {
		return false
	}
	*l = raft.Log{Term: le.Uint64(b[8:]), Type: raft.LogType(b[16])}
	if at := int64(le.Uint64(b[17:])); at != 0 {
		l.AppendedAt = time.Unix(0, at)
	}
	end := entryHeaderSize + int(le.Uint32(b[25:]))
	l.Data = b[entryHeaderSize:end:end]
	if end < len(b) {
		l.Extensions = b[end:]
	}
	return true
}
