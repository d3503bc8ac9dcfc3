package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/stable"
	"github.com/headgate-io/headgate/raftlog/wal"
)

const (
	// stableFile holds term, vote and other values that are rewritten in place.
	stableFile = "stable"

	// lockFile is locked by the process that has a store open. It is empty.
	lockFile = "lock"

	// voteTermKey is Raft's key for the term of the last vote. Raft always writes the
	// vote's candidate next.
	voteTermKey = "LastVoteTerm"

	// oldFile held term and vote in older formats, and at first also the log.
	oldFile = "raft.db"

	// lockTimeout bounds the wait for the lock of another process, which may be about to
	// end.
	lockTimeout = time.Second

	// Wipe says what to do with a store that cannot be repaired.
	Wipe = "wipe this node's data and join again"
)

// Used reports whether a group's directory has been opened before.
func Used(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, stableFile))
	return err == nil
}

// Groups returns the number of groups of the cluster to which a group's directory belongs,
// 0 if it belongs to none. It only reads, so another process may use the directory.
func Groups(dir string) (int, error) {
	values, err := stable.Read(filepath.Join(dir, stableFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return member.Groups(values)
}

// Store is what a node's Raft keeps on disk besides snapshots.
type Store struct {
	Log    raft.LogStore
	Stable *stable.Store

	close func() error
	// Fresh is set if Open has created the store.
	Fresh bool
}

// Close closes the store's files and releases its lock.
func (s *Store) Close() error { return s.close() }

// Open opens or creates the store in dir, which must exist, and locks it.
// The error is ErrLocked if another process has it open, and ErrCorrupt if it
// is damaged, incomplete, or of an older format.
func Open(dir string, noSync bool) (*Store, error) {
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := openFiles(dir, noSync)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	files := s.close
	s.close = func() error { return errors.Join(files(), lock.Close()) }
	return s, nil
}

// openFiles opens the log, and the file with term and vote.
func openFiles(dir string, noSync bool) (*Store, error) {
	if _, err := os.Stat(filepath.Join(dir, oldFile)); err == nil {
		return nil, fmt.Errorf("%w: %s is of an older format; "+Wipe, ErrCorrupt, filepath.Join(dir, oldFile))
	}
	values, _, err := stable.Open(filepath.Join(dir, stableFile), noSync)
	if errors.Is(err, stable.ErrCorrupt) || errors.Is(err, stable.ErrVersion) {
		return nil, fmt.Errorf("%w: term and vote: %w; "+Wipe, ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open term and vote: %w", err)
	}
	fresh := !member.HasIdentity(values)
	log, err := wal.Open(wal.Options{Dir: dir, Stable: values, NoSync: noSync})
	if errors.Is(err, wal.ErrCorrupt) || errors.Is(err, wal.ErrVersion) {
		err = fmt.Errorf("%w: %w; "+Wipe, ErrCorrupt, err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), values.Close())
	}
	closeAll := func() error { return errors.Join(log.Close(), values.Close()) } // the log stores where it ends in values
	return &Store{Log: log, Stable: values, close: closeAll, Fresh: fresh}, nil
}

// lockDir locks a store's directory. The system releases the lock when the
// process ends.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 20) {
		switch err := tryLock(f); {
		case err == nil:
			return f, nil
		case !errors.Is(err, errHeld):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		case time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("%w: %s", ErrLocked, path), f.Close())
		}
	}
}

// errHeld is returned by tryLock when another process holds the lock.
var errHeld = errors.New("lock is held")

// MakeDir creates the group's directory. If the directory has never been used, MakeDir
// makes its name durable, and also the names of all directories above it.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if Used(dir) {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		err := syncDir(up)
		if errors.Is(err, os.ErrPermission) {
			return nil // another program has made it
		}
		if err != nil || up == filepath.Dir(up) {
			return err
		}
	}
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Votes stores Raft's term and vote. If term or vote cannot be written, Raft would
// panic; Votes instead stops the node with a message. Also, Votes writes a new term or
// vote only after the log is synced: see ownSync.
//
// Raft first writes the term of a vote, and then the candidate. Votes writes both as one
// change, when Raft writes the candidate. So it needs half as many syncs, and a crash
// never leaves the new term with the old candidate (hashicorp/raft #661). This is safe,
// because Raft promises nothing before the second write.
type Votes struct {
	*stable.Store
	log   *Log
	fatal func(error)
}

// NewVotes returns the Votes of a store and its log. fatal gets the reason why the node
// cannot continue.
func NewVotes(store *stable.Store, log *Log, fatal func(error)) Votes {
	return Votes{store, log, fatal}
}

func (s Votes) Set(key, val []byte) error {
	return s.check(s.Store.Set(key, val))
}

func (s Votes) SetUint64(key []byte, val uint64) error {
	if s.log.Await(math.MaxUint64) != nil {
		select {} // the log has reported it
	}
	if string(key) == voteTermKey {
		return s.check(s.PutUint64(key, val))
	}
	return s.check(s.Store.SetUint64(key, val))
}

func (s Votes) check(err error) error {
	if err != nil {
		s.fatal(fmt.Errorf("%w: term and vote: %w", ErrDisk, err))
		select {} // Raft must not continue without the vote on disk, and a panic would not help
	}
	return nil
}
