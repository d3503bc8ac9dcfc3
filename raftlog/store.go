package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
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

// stableStore holds term and vote. Raft panics when they cannot be written; here the node stops with a message. Nor is a new
// term or a vote written before the log is synced: see ownSync.
type stableStore struct {
	raft.StableStore
	log   *logStore
	fatal func(error)
}

func (s stableStore) Set(key, val []byte) error {
	return s.check(s.StableStore.Set(key, val))
}

func (s stableStore) SetUint64(key []byte, val uint64) error {
	if s.log.own.await(math.MaxUint64) != nil {
		select {} // the log has said so
	}
	return s.check(s.StableStore.SetUint64(key, val))
}

func (s stableStore) check(err error) error {
	if err != nil {
		s.fatal(fmt.Errorf("%w: term and vote: %w", ErrDisk, err))
		select {} // neither may Raft go on with a vote that is not on disk, nor is a panic of use
	}
	return nil
}
