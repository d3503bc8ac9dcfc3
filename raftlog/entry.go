package raftlog

import (
	"encoding/binary"
	"fmt"

	"github.com/headgate-io/headgate/raftlog/member"
)

// The first byte of every log entry is a version: see Formats. A node stops at a version
// that it does not know. If it skipped the entry, its state would differ from the state of
// its peers, and nobody would notice.
const (
	entryOldest = 2 // oldest version that this build reads
	entryNewest = 2 // newest version that it reads; it writes it if the level permits
)

// maxHeader bounds the encoded header: version, six uvarints, a node id with
// its length, the clock.
const maxHeader = 1 + 6*binary.MaxVarintLen64 + binary.MaxVarintLen64 + member.MaxNodeID + 8

// header precedes the payload of an entry.
type header struct {
	group uint32
	node  string // the leader that cut the batch
	term  uint64 // the term it served when it did
	batch uint64 // number of the batch within the term, from 1
	part  uint64 // 0-based
	parts uint64 // at least 1
	clock int64  // cluster clock, unix ns
	level uint32 // the cluster's feature level from this batch on, if it is above the level before
}

// last reports whether the entry completes its batch.
func (h header) last() bool { return h.part+1 == h.parts }

// append encodes h after b.
func (h header) append(b []byte, version byte) []byte {
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(h.group))
	b = binary.AppendUvarint(b, uint64(len(h.node)))
	b = append(b, h.node...)
	b = binary.AppendUvarint(b, h.term)
	b = binary.AppendUvarint(b, h.batch)
	b = binary.AppendUvarint(b, h.part)
	b = binary.AppendUvarint(b, h.parts)
	b = binary.AppendUvarint(b, uint64(h.level))
	return binary.BigEndian.AppendUint64(b, uint64(h.clock))
}

// encodeEntry returns header and payload as one entry of a version.
func encodeEntry(version byte, h header, payload []byte) []byte {
	return append(h.append(make([]byte, 0, maxHeader+len(payload)), version), payload...)
}

// decodeEntry splits an entry. The payload aliases b. Errors wrap ErrVersion or
// ErrCorrupt.
func decodeEntry(b []byte) (header, []byte, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && (v < entryOldest || v > entryNewest) {
		return header{}, nil, formatError("log entry", v, entryOldest, entryNewest)
	}
	var h header
	h.group = uint32(d.uvarintMax(1<<32 - 1))
	h.node = string(d.bytes(member.MaxNodeID))
	h.term = d.uvarint()
	h.batch = d.uvarint()
	h.part = d.uvarint()
	h.parts = d.uvarint()
	h.level = uint32(d.uvarintMax(1<<32 - 1))
	h.clock = d.int64()
	if d.err == nil && (h.batch == 0 || h.part >= h.parts) {
		d.err = fmt.Errorf("batch %d part %d of %d", h.batch, h.part, h.parts)
	}
	if d.err != nil {
		return header{}, nil, fmt.Errorf("%w: log entry: %w", ErrCorrupt, d.err)
	}
	return h, d.b, nil
}

// decoder reads the primitive values of entries and snapshot headers. It keeps the first
// error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("bad or missing %s", what)
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("byte")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("integer")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uvarintMax(max uint64) uint64 {
	v := d.uvarint()
	if v > max {
		d.fail("integer")
		return 0
	}
	return v
}

func (d *decoder) int64() int64 {
	if len(d.b) < 8 {
		d.fail("clock")
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return int64(v)
}

// bytes reads a length-prefixed string of at most max bytes, aliasing the
// input.
func (d *decoder) bytes(max uint64) []byte {
	n := d.uvarintMax(max)
	if uint64(len(d.b)) < n {
		d.fail("string")
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}
