package raftlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// A snapshot file is: magic, version, uvarint length of the header, the header,
// the machine's bytes. Raft's own file store adds a checksum over all of it,
// and syncs file and directory.
const (
	snapshotMagic = "HGS"

	snapshotOldest = 2 // oldest version that this build reads
	snapshotNewest = 2 // newest version that it reads; it writes it if the level permits

	// snapshotBuffer is the size of a buffer in bytes. Without it, Raft's file store would
	// make a system call per 4 KiB.
	snapshotBuffer = 256 << 10

	// maxSnapshotHeader bounds, in bytes, what a node allocates because of a damaged
	// length. The header contains the committed parts of a batch whose last part is not
	// committed yet.
	maxSnapshotHeader = 1 << 30
)

// snapshotHeader is the group's own part of a snapshot.
type snapshotHeader struct {
	group  uint32
	cursor cursor
}

// append encodes the header, with magic, version and length, after b.
func (h snapshotHeader) append(b []byte, version byte) []byte {
	var body []byte
	body = binary.AppendUvarint(body, uint64(h.group))
	body = binary.AppendUvarint(body, h.cursor.term)
	body = binary.AppendUvarint(body, h.cursor.batch)
	body = binary.BigEndian.AppendUint64(body, uint64(h.cursor.clock))
	body = binary.AppendUvarint(body, uint64(h.cursor.level))
	body = binary.AppendUvarint(body, uint64(len(h.cursor.parts)))
	for _, p := range h.cursor.parts {
		body = binary.AppendUvarint(body, uint64(len(p)))
		body = append(body, p...)
	}
	b = append(b, snapshotMagic...)
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

// readable returns why this build cannot use a snapshot, whose beginning it reads.
func (c *Config) readable(snapshot io.Reader) error {
	_, _, err := readSnapshotHeader(snapshot, c.GroupID)
	return err
}

// readSnapshotHeader returns the header and a reader of the machine's bytes.
func readSnapshotHeader(rc io.Reader, group uint32) (snapshotHeader, io.Reader, error) {
	br := bufio.NewReaderSize(rc, snapshotBuffer)
	corrupt := func(err error) (snapshotHeader, io.Reader, error) {
		return snapshotHeader{}, nil, fmt.Errorf("%w: snapshot header: %w", ErrCorrupt, err)
	}
	var lead [len(snapshotMagic) + 1]byte
	if _, err := io.ReadFull(br, lead[:]); err != nil {
		return corrupt(err)
	}
	if string(lead[:len(snapshotMagic)]) != snapshotMagic {
		return corrupt(fmt.Errorf("magic %q", lead[:len(snapshotMagic)]))
	}
	if v := lead[len(snapshotMagic)]; v < snapshotOldest || v > snapshotNewest {
		return snapshotHeader{}, nil, formatError("snapshot", v, snapshotOldest, snapshotNewest)
	}
	n, err := binary.ReadUvarint(br)
	if err != nil {
		return corrupt(err)
	}
	if n > maxSnapshotHeader {
		return corrupt(fmt.Errorf("%d bytes long", n))
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, br, int64(n)); err != nil {
		return corrupt(err)
	}
	d := decoder{b: body.Bytes()}
	h := snapshotHeader{group: uint32(d.uvarintMax(1<<32 - 1))}
	h.cursor.term = d.uvarint()
	h.cursor.batch = d.uvarint()
	h.cursor.clock = d.int64()
	h.cursor.level = uint32(d.uvarintMax(1<<32 - 1))
	for range d.uvarintMax(n) {
		h.cursor.parts = append(h.cursor.parts, d.bytes(n))
	}
	if d.err == nil && h.cursor.level < firstLevel {
		d.err = errNoLevel
	}
	if d.err != nil {
		return corrupt(d.err)
	}
	if h.group != group {
		return corrupt(fmt.Errorf("snapshot of group %d", h.group))
	}
	return h, br, nil
}

// snapshot implements raft.FSMSnapshot.
type snapshot struct {
	header []byte
	state  Snapshot
}

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	w := bufio.NewWriterSize(sink, snapshotBuffer)
	_, err := w.Write(s.header)
	if err == nil {
		err = s.state.Persist(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		sink.Cancel()
	}
	return err
}

// Release implements raft.FSMSnapshot.
func (s *snapshot) Release() { s.state.Release() }
