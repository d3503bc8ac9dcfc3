package raftlog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/headgate-io/headgate/raftlog/wal"
)

const (
	// stableFile holds term, vote and what else must be rewritten in place.
	stableFile = "raft.db"

	// logCacheEntries keeps recent entries in memory, so that followers are served without reading the disk.
	logCacheEntries = 512

	// lockTimeout bounds the wait for another process's lock on the file; bolt waits for ever by itself.
	lockTimeout = time.Second

	// wipe is what to do with a store that cannot be repaired.
	wipe = "wipe this node's data and join again"
)

// Store is what a node's Raft keeps on disk besides snapshots.
type Store struct {
	Log    raft.LogStore
	Stable raft.StableStore

	close func() error
	fresh bool // it was created by this open
}

// Close closes the store's files and releases its lock.
func (s *Store) Close() error { return s.close() }

// OpenStore opens or creates the store in dir, which must exist, and locks it. The error is ErrLocked if another process
// has it open, and ErrCorrupt if it is damaged, incomplete, or of an older format.
func OpenStore(dir string, noSync bool) (*Store, error) {
	bolt, err := openBolt(filepath.Join(dir, stableFile), noSync)
	if err != nil {
		return nil, err
	}
	s := &Store{Stable: bolt, close: bolt.Close}
	if err := s.openLog(dir, bolt, noSync); err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return s, nil
}

// openLog opens the log beside term and vote.
func (s *Store) openLog(dir string, bolt *raftboltdb.BoltStore, noSync bool) (err error) {
	path := filepath.Join(dir, stableFile)
	defer damaged(path, &err)
	old, err := bolt.LastIndex()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if old != 0 {
		return fmt.Errorf("%w: %s is of an older format and holds the log itself; "+wipe, ErrCorrupt, path)
	}
	_, err = bolt.Get(dataKey)
	if s.fresh = errors.Is(err, raftboltdb.ErrKeyNotFound); !s.fresh && err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	log, err := wal.Open(wal.Options{Dir: dir, Stable: bolt, NoSync: noSync})
	if errors.Is(err, wal.ErrCorrupt) || errors.Is(err, wal.ErrVersion) {
		return fmt.Errorf("%w: %w; "+wipe, ErrCorrupt, err)
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	s.Log, s.close = log, func() error { return errors.Join(log.Close(), bolt.Close()) }
	return nil
}

// damaged turns a panic into an error: bolt panics on some kinds of damage, and Raft on what it cannot read. An operator
// needs the file's name, not a stack trace.
func damaged(path string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %s: %v", ErrCorrupt, path, p)
	}
}

// openBolt opens the file of term and vote.
func openBolt(path string, noSync bool) (s *raftboltdb.BoltStore, err error) {
	defer damaged(path, &err)
	if err := checkLength(path); err != nil {
		return nil, err
	}
	opts := *bbolt.DefaultOptions
	opts.Timeout = lockTimeout
	// The list of free pages is kept in the file: without it bolt looks at every page when it opens the file, and panics
	// on a goroutine of its own if one is damaged.
	opts.NoFreelistSync = false
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

// checkLength returns ErrCorrupt if a bolt file is shorter than it says: bolt maps it and would be killed by the first
// access to what is missing.
func checkLength(path string) error {
	const metaMagic, magicAt, pageSizeAt, pagesAt, metaSize = 0xED0CDAED, 16, 24, 56, 80 // bbolt's format 2
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	var b [metaSize]byte
	for page, at := range []int64{0, int64(os.Getpagesize())} {
		if _, err := f.ReadAt(b[:], at); err != nil || binary.NativeEndian.Uint32(b[magicAt:]) != metaMagic {
			continue // bolt needs one good page of the two, and says so
		}
		pageSize, pages := uint64(binary.NativeEndian.Uint32(b[pageSizeAt:])), binary.NativeEndian.Uint64(b[pagesAt:])
		if size := uint64(info.Size()); pageSize > 0 && pages > size/pageSize {
			return fmt.Errorf("%w: %s has %d bytes, its page %d tells of %d pages of %d; "+wipe, ErrCorrupt, path, size, page, pages, pageSize)
		}
	}
	return nil
}

// dataKey is where the name of a data directory's content is kept.
var dataKey = []byte("headgate-data-id")

// dataID returns the random name that the log got when it was created. A node that comes back with another one has lost
// its data.
func dataID(s raft.StableStore) (string, error) {
	id, err := s.Get(dataKey)
	if err == nil {
		return string(id), nil
	}
	if !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return "", fmt.Errorf("read data id: %w", err)
	}
	id = []byte(rand.Text())
	if err := s.Set(dataKey, id); err != nil {
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
