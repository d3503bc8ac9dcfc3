package raftlog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	logFile = "raft.db"

	// logCacheEntries keeps recent entries in memory, so that followers are served without reading the disk.
	logCacheEntries = 512

	// lockTimeout bounds the wait for another process's lock on the file; bolt waits for ever by itself.
	lockTimeout = time.Second

	// logMmap is mapped from the start, because bolt stops all readers whenever it must map more.
	logMmap = 1 << 30
)

// openBolt opens the log file in dir. The freelist is kept in a map and not written with every commit: after a burst it
// would cost more than the entries themselves.
func openBolt(dir string, noSync bool) (s *raftboltdb.BoltStore, err error) {
	path := filepath.Join(dir, logFile)
	opts := *bbolt.DefaultOptions
	opts.Timeout = lockTimeout
	opts.NoFreelistSync = true
	opts.FreelistType = bbolt.FreelistMapType
	if strconv.IntSize == 64 {
		opts.InitialMmapSize = logMmap
	}
	// bolt panics on some kinds of damage; an operator needs the file's name, not a stack trace.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s: %v", ErrCorrupt, path, p)
		}
	}()
	s, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &opts, NoSync: noSync})
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	}
	return nil, fmt.Errorf("open %s: %w", path, err)
}

// dataID returns the random name that the log got when it was created. A node that comes back with another one has lost
// its data.
func dataID(s raft.StableStore) (string, error) {
	key := []byte("headgate-data-id")
	id, err := s.Get(key)
	if err == nil {
		return string(id), nil
	}
	if !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return "", fmt.Errorf("read data id: %w", err)
	}
	id = []byte(rand.Text())
	if err := s.Set(key, id); err != nil {
		return "", fmt.Errorf("%w: data id: %w", ErrDisk, err)
	}
	return string(id), nil
}

// makeDir creates the group's directory and makes its name durable.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// logStore stands between Raft and its log. It
//   - reports the first failed write through fatal. Raft's leader would step down and win again, for as long as the disk
//     fails (hashicorp/raft #614), and a follower whose write fails after a truncation stays stuck;
//   - tells how long the write in progress has taken: a leader whose disk hangs goes on sending heartbeats, so nobody
//     else ever takes over (#503);
//   - counts bytes, for the snapshot trigger and for the trailing logs;
//   - declares itself monotonic, so that an installed snapshot replaces the whole log. Raft would keep the old tail,
//     uncommitted entries included, and a later leader could send those to others (#697).
type logStore struct {
	inner raft.LogStore
	fatal func(error)

	storing atomic.Int64 // start of the write in progress on the monotonic clock of this file, 0 = none
	bytes   atomic.Int64 // payload bytes stored since the last snapshot
	entries atomic.Int64 // entries stored since the last snapshot
	last    atomic.Int64 // duration of the last write, ns
	mean    atomic.Int64 // moving average over about 16 writes, ns

	// mu guards snapIndex and snapTerm, of the last snapshot finished in this process.
	mu                  sync.Mutex
	snapIndex, snapTerm uint64
}

var (
	_ raft.LogStore          = (*logStore)(nil)
	_ raft.MonotonicLogStore = (*logStore)(nil)
)

// started anchors the monotonic times kept in atomics.
var started = time.Now()

// monotonic returns nanoseconds since an arbitrary point in this process; never 0.
func monotonic() int64 { return int64(time.Since(started)) + 1 }

func (s *logStore) IsMonotonic() bool           { return true }
func (s *logStore) FirstIndex() (uint64, error) { return s.inner.FirstIndex() }
func (s *logStore) LastIndex() (uint64, error)  { return s.inner.LastIndex() }
func (s *logStore) StoreLog(l *raft.Log) error  { return s.StoreLogs([]*raft.Log{l}) }
func (s *logStore) stalled() time.Duration      { return since(s.storing.Load()) }
func (s *logStore) GetLog(index uint64, log *raft.Log) error {
	err := s.inner.GetLog(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		s.die(fmt.Errorf("%w: read entry %d: %w", ErrCorrupt, index, err))
	}
	return err
}

// since returns the time since a moment of monotonic, 0 for none.
func since(at int64) time.Duration {
	if at == 0 {
		return 0
	}
	return time.Duration(monotonic() - at)
}

func (s *logStore) StoreLogs(logs []*raft.Log) error {
	begin := monotonic()
	s.storing.Store(begin)
	err := s.inner.StoreLogs(logs)
	s.storing.Store(0)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDisk, err)
		s.fatal(err)
		return err
	}
	took := monotonic() - begin
	s.last.Store(took)
	s.mean.Store(s.mean.Load() + (took-s.mean.Load())/16)
	var n int64
	for _, l := range logs {
		n += int64(len(l.Data))
	}
	s.bytes.Add(n)
	s.entries.Add(int64(len(logs)))
	return nil
}

// DeleteRange removes a prefix (compaction), a suffix (a conflict with the leader's log), or everything (an installed
// snapshot). In the last case entries after the snapshot's are kept if the log agrees with the snapshot (Raft's figure
// 13, rule 6): this node has acknowledged them.
func (s *logStore) DeleteRange(min, max uint64) error {
	s.mu.Lock()
	index, term := s.snapIndex, s.snapTerm
	s.mu.Unlock()
	if min <= index && index < max {
		var l raft.Log
		if err := s.inner.GetLog(index, &l); err == nil && l.Term == term {
			max = index
		}
	}
	if err := s.inner.DeleteRange(min, max); err != nil {
		err = fmt.Errorf("%w: %w", ErrDisk, err)
		s.fatal(err)
		return err
	}
	return nil
}

// snapshotDone records a finished snapshot. It reports whether the log contradicts it: the log then belongs to a
// history that was never committed, and Raft's memory of it must be dropped by a restart.
func (s *logStore) snapshotDone(index, term uint64) (conflict bool, err error) {
	s.mu.Lock()
	s.snapIndex, s.snapTerm = index, term
	s.mu.Unlock()
	s.bytes.Store(0)
	s.entries.Store(0)
	return contradicts(s.inner, index, term)
}

// contradicts reports whether the log reaches index with an entry there that is not of the given term.
func contradicts(logs raft.LogStore, index, term uint64) (bool, error) {
	first, err := logs.FirstIndex()
	if err != nil {
		return false, err
	}
	last, err := logs.LastIndex()
	if err != nil || last < index || first > index {
		return false, err
	}
	var l raft.Log
	if err := logs.GetLog(index, &l); err != nil {
		if errors.Is(err, raft.ErrLogNotFound) {
			return true, nil
		}
		return false, err
	}
	return l.Term != term, nil
}

// die reports an error that Raft would panic on, and keeps Raft from going on.
func (s *logStore) die(err error) {
	s.fatal(err)
	select {}
}

// stableStore holds term and vote. Raft panics when they cannot be written; here the node stops with a message.
type stableStore struct {
	raft.StableStore
	fatal func(error)
}

func (s stableStore) Set(key, val []byte) error {
	return s.check(s.StableStore.Set(key, val))
}

func (s stableStore) SetUint64(key []byte, val uint64) error {
	return s.check(s.StableStore.SetUint64(key, val))
}

func (s stableStore) check(err error) error {
	if err != nil {
		s.fatal(fmt.Errorf("%w: term and vote: %w", ErrDisk, err))
		select {} // neither may Raft go on with a vote that is not on disk, nor is a panic of use
	}
	return nil
}
