package cluster

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/disk"
)

// Formats are the versions in which a node's newest files are written.
type Formats struct{ Entry, Snapshot, Effects byte }

// Newer reports whether all of them are newer than before.
func (f Formats) Newer(before Formats) bool {
	return f.Entry > before.Entry && f.Snapshot > before.Snapshot && f.Effects > before.Effects
}

// Formats reads the versions of the last batch in the log of a stopped node, and of its newest snapshot.
func (n *Node) Formats() (f Formats, err error) {
	dir := filepath.Join(n.Data, "group-0")
	store, err := disk.Open(dir, false)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	last, err := store.Log.LastIndex()
	if err != nil {
		return f, err
	}
	for ; f.Entry == 0; last-- {
		var l raft.Log
		if err := store.Log.GetLog(last, &l); err != nil {
			return f, fmt.Errorf("log of %s holds no batch: %w", n.Name, err)
		}
		if l.Type == raft.LogCommand {
			f.Entry = l.Data[0]
		}
	}
	states, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	if err != nil || len(states) == 0 {
		return f, errors.Join(fmt.Errorf("%s has no snapshot", n.Name), err)
	}
	var newest time.Time
	for _, path := range states {
		info, err := os.Stat(path)
		if err != nil {
			return f, err
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
			if f.Snapshot, f.Effects, err = snapshotFormats(path); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// snapshotFormats reads the version of a snapshot and that of its first chunk: magic, version, header, chunks, the last two
// after their lengths.
func snapshotFormats(path string) (snapshot, effects byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	var lead [4]byte
	if _, err := io.ReadFull(r, lead[:]); err != nil {
		return 0, 0, err
	}
	header, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, 0, err
	}
	if _, err := io.CopyN(io.Discard, r, int64(header)); err != nil {
		return 0, 0, err
	}
	if _, err := binary.ReadUvarint(r); err != nil {
		return 0, 0, err
	}
	effects, err = r.ReadByte()
	return lead[3], effects, err
}
