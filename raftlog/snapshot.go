package raftlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// A snapshot file is: magic, version, uvarint length of the header, the header, the machine's bytes. Raft's own file
// store adds a checksum over all of it, and syncs file and directory.
const (
	snapshotMagic = "HGS"

	snapshotOldest = 2 // version that this build reads
	snapshotNewest = 2 // that it reads, and writes where the level permits it

	// snapshotBuffer: Raft's file store writes through 4 KiB, which is a system call per 4 KiB.
	snapshotBuffer = 256 << 10

	// maxSnapshotHeader bounds what a damaged length can make a node allocate: the header carries the committed parts of
	// one batch whose last part is not committed yet.
	maxSnapshotHeader = 1 << 30

	// snapshotsKept: the newest, and one to fall back on if its checksum is wrong.
	snapshotsKept = 2
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
	body = binary.AppendUvarint(body, h.cursor.seq)
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
	h.cursor.seq = d.uvarint()
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

// removeUnfinished removes what a crash in the middle of a snapshot has left. Nobody else may have the directory open.
func removeUnfinished(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp"))
	for _, p := range paths {
		err = errors.Join(err, os.RemoveAll(p))
	}
	return err
}

// snapshotStore tells the log about every snapshot that is finished, own and installed ones alike.
type snapshotStore struct {
	raft.SnapshotStore
	log      *logStore
	conflict func() // called when the log contradicts a snapshot; does not block

	membership atomic.Uint64 // index of the membership in the newest snapshot
}

// newest notes the membership of the newest snapshot.
func (s *snapshotStore) newest() error {
	metas, err := s.List()
	if err == nil && len(metas) > 0 {
		s.membership.Store(metas[0].ConfigurationIndex)
	}
	return err
}

// Create implements raft.SnapshotStore.
func (s *snapshotStore) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, store: s, index: index, term: term, membership: confIndex}, nil
}

type snapshotSink struct {
	raft.SnapshotSink
	store       *snapshotStore
	index, term uint64
	membership  uint64
	closed      bool
}

// Close implements raft.SnapshotSink. Raft closes a sink more than once.
func (s *snapshotSink) Close() error {
	err := s.SnapshotSink.Close()
	if err != nil || s.closed {
		return err
	}
	s.closed = true
	if s.membership > s.store.membership.Load() {
		s.store.membership.Store(s.membership)
	}
	conflict, err := s.store.log.snapshotDone(s.index, s.term)
	if conflict {
		s.store.conflict()
	}
	return err
}
