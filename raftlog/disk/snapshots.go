package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	snapshotsDir  = "snapshots" // Raft's name
	unfinishedEnd = ".tmp"      // Raft's too

	// snapshotsKept: the newest, and one for the case that its checksum is wrong.
	snapshotsKept = 2

	// sealFile is a file in a snapshot's directory. It has the checksum of Raft's
	// description of the snapshot, because Raft stores none. An index with one wrong digit
	// would skip entries of the log.
	sealFile = "seal"
)

// Snapshots is a layer between Raft and its snapshots:
//
//   - It tells the log about every finished snapshot, whether this node has written or
//     installed it.
//   - It adds a checksum to Raft's description of each snapshot. It leaves out snapshots
//     whose description has changed since.
//   - It syncs what Raft does not sync: the names of a snapshot's files, and the names in
//     the directory of all snapshots.
type Snapshots struct {
	raft.SnapshotStore
	dir      string // directory of all snapshots
	log      *Log
	logger   *slog.Logger
	conflict func() // called when the log contradicts a snapshot; does not block
	syncDir  func(dir string) error

	membership atomic.Uint64 // index of the membership in the newest snapshot
}

// OpenSnapshots opens or creates the snapshots in a group's directory. Nobody else may have
// the directory open. It removes unfinished snapshots that a crash has left. It calls
// conflict if the log contradicts a snapshot; conflict must not block.
func OpenSnapshots(dir string, log *Log, logger *slog.Logger, raftLogger hclog.Logger, conflict func()) (*Snapshots, error) {
	group := dir
	dir = filepath.Join(group, snapshotsDir)
	unfinished, err := filepath.Glob(filepath.Join(dir, "*"+unfinishedEnd))
	for _, path := range unfinished {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return nil, err
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(group, snapshotsKept, raftLogger)
	if err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	// The names may not be on the disk yet, and the log is about to depend on them.
	if err := errors.Join(syncDir(dir), syncDir(group)); err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	s := &Snapshots{SnapshotStore: files, dir: dir, log: log, logger: logger, conflict: conflict, syncDir: syncDir}
	metas, err := s.List()
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	if len(metas) > 0 {
		s.membership.Store(metas[0].ConfigurationIndex)
	}
	return s, nil
}

// Membership returns the index of the membership in the newest snapshot.
func (s *Snapshots) Membership() uint64 { return s.membership.Load() }

// List implements raft.SnapshotStore.
func (s *Snapshots) List() ([]*raft.SnapshotMeta, error) {
	metas, err := s.SnapshotStore.List()
	if err != nil {
		return nil, err
	}
	var good []*raft.SnapshotMeta
	for _, m := range metas {
		seal, err := os.ReadFile(filepath.Join(s.dir, m.ID, sealFile))
		if err == nil && string(seal) != sealOf(m) {
			err = errors.New("it has changed since it was written")
		}
		if err != nil {
			s.logger.Error("snapshot is left out", "snapshot", m.ID, "error", err)
			continue
		}
		good = append(good, m)
	}
	return good, nil
}

// Damaged returns the highest index of a snapshot that is not in good; 0 if there is none.
func (s *Snapshots) Damaged(good []*raft.SnapshotMeta) (index uint64, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	known := make(map[string]bool, len(good))
	for _, m := range good {
		known[m.ID] = true
	}
	for _, e := range entries {
		var term, at, msec uint64
		if n, _ := fmt.Sscanf(e.Name(), "%d-%d-%d", &term, &at, &msec); n < 3 || known[e.Name()] || strings.HasSuffix(e.Name(), unfinishedEnd) {
			continue
		}
		index = max(index, at)
	}
	return index, nil
}

// sealOf returns the content of a snapshot's seal.
func sealOf(m *raft.SnapshotMeta) string {
	membership, err := json.Marshal(m.Configuration)
	if err != nil {
		return ""
	}
	text := fmt.Sprintln(m.ID, m.Version, m.Term, m.Index, m.ConfigurationIndex, m.Size, string(membership))
	return fmt.Sprintf("1 %08x\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}

// Create implements raft.SnapshotStore.
func (s *Snapshots) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	meta := raft.SnapshotMeta{ID: sink.ID(), Version: v, Index: index, Term: term, Configuration: conf, ConfigurationIndex: confIndex}
	return &snapshotSink{SnapshotSink: sink, store: s, meta: meta}, nil
}

type snapshotSink struct {
	raft.SnapshotSink
	store  *Snapshots
	meta   raft.SnapshotMeta
	closed bool
}

// Write implements io.Writer.
func (s *snapshotSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	s.meta.Size += int64(n)
	return n, err
}

// Close implements raft.SnapshotSink. Raft closes a sink more than once, also after
// Cancel.
func (s *snapshotSink) Close() error {
	if s.closed {
		return s.SnapshotSink.Close()
	}
	s.closed = true
	if err := s.seal(); err != nil {
		return errors.Join(fmt.Errorf("seal snapshot: %w", err), s.SnapshotSink.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	if s.meta.ConfigurationIndex > s.store.membership.Load() {
		s.store.membership.Store(s.meta.ConfigurationIndex)
	}
	conflict, err := s.store.log.snapshotDone(s.meta.Index, s.meta.Term)
	if conflict {
		s.store.conflict()
	}
	return err
}

// Cancel implements raft.SnapshotSink.
func (s *snapshotSink) Cancel() error {
	s.closed = true
	return s.SnapshotSink.Cancel()
}

// seal writes the seal into the unfinished snapshot, and makes the names of its files
// durable. Raft's files are already there.
func (s *snapshotSink) seal() error {
	dir := filepath.Join(s.store.dir, s.meta.ID+unfinishedEnd)
	f, err := os.OpenFile(filepath.Join(dir, sealFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(sealOf(&s.meta))
	return errors.Join(err, f.Sync(), f.Close(), s.store.syncDir(dir))
}
