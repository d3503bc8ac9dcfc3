package wal

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

const (
	magic   = "HGWAL"
	version = 1

	headerSize      = 40
	frameHeaderSize = 32
	entryHeaderSize = 29
	alignment       = 8

	kindEntries = 1
	kindBounds  = 2

	// maxFrame bounds what a damaged length can make a node read.
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
	previous uint64 // where the frames of the segment before end, 0 if there was none
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

// readSegmentHeader decodes a header whose checksum is right; ok is false for any other. A version is not judged.
func readSegmentHeader(b []byte) (h segmentHeader, v byte, ok bool) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic || le.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli) {
		return segmentHeader{}, 0, false
	}
	return segmentHeader{number: le.Uint64(b[8:]), nonce: le.Uint64(b[16:]), previous: le.Uint64(b[24:])}, b[len(magic)], true
}

// frame is the header of a frame.
type frame struct {
	kind   uint32
	length int // of the payload, without padding
	a, b   uint64
}

// size is the length of the frame in the file.
func (f frame) size() int { return frameHeaderSize + (f.length+alignment-1)&^(alignment-1) }

// put encodes the header into b.
func (f frame) put(b []byte, nonce uint64) {
	le.PutUint32(b[4:], uint32(f.length))
	le.PutUint32(b[8:], f.kind)
	le.PutUint32(b[12:], 0)
	le.PutUint64(b[16:], f.a)
	le.PutUint64(b[24:], f.b)
	le.PutUint32(b, frameSum(b, nonce))
}

func frameSum(b []byte, nonce uint64) uint32 {
	var seed [8]byte
	le.PutUint64(seed[:], nonce)
	return crc32.Update(crc32.Checksum(seed[:], castagnoli), castagnoli, b[4:frameHeaderSize])
}

// readFrame decodes a header; ok is false if there is none.
func readFrame(b []byte, nonce uint64) (f frame, ok bool) {
	if len(b) < frameHeaderSize || le.Uint32(b[8:]) == 0 || le.Uint32(b) != frameSum(b, nonce) {
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

// entrySize returns the length of the entry at the start of b, or 0 if there is no whole one.
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

// readEntry decodes an entry that fills b, but for its index. The log refers to b. ok is false if b is damaged.
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
