package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/internal/boottime"
	"github.com/headgate-io/headgate/raftlog/clock"
	"github.com/headgate-io/headgate/raftlog/wal"
)

// Log stands between Raft and the log on disk. It adds the following:
//
//   - It reports the first failed write through fatal. Without this report, a leader
//     with a failing disk would step down and then win the next election (hashicorp/raft
//     #614). A follower whose write fails after a truncation would be stuck.
//   - It reports how long the write in progress has taken. A leader whose disk hangs
//     still sends heartbeats, so no other node would take over (#503).
//   - It lets the disk write a leader's batches while they are on their way to the
//     followers (ownSync).
//   - It counts bytes. They decide when a snapshot is due, and how much of the log stays
//     after it.
//   - It notes when entries arrive, for the cluster clock.
//   - If this is the only node and the disk is full, Log keeps further entries in memory
//     (tail).
//   - It declares itself monotonic, so that an installed snapshot replaces the whole
//     log. Otherwise Raft would keep the entries at the end of the old log, which are
//     not committed. If this node later became leader, it could send these entries to
//     other nodes (#697).
type Log struct {
	inner  raft.LogStore
	self   raft.ServerID
	fatal  func(error)
	logger *slog.Logger
	raft   atomic.Pointer[raft.Raft] // nil before it runs
	ownSync
	tail tail
	// Arrivals remembers when entries came.
	Arrivals clock.Arrivals

	storing atomic.Int64 // start of the write in progress (monotonic), 0 = none
	bytes   atomic.Int64 // payload bytes stored since the last snapshot
	entries atomic.Int64 // entries stored since the last snapshot
	last    atomic.Int64 // duration of the last write, ns
	mean    atomic.Int64 // moving average over about 16 writes, ns

	// mu guards snapIndex and snapTerm: index and term of the newest snapshot that was
	// finished in this process.
	mu                  sync.Mutex
	snapIndex, snapTerm uint64
}

// NewLog returns a Log that stores its entries in inner. It calls fatal with the reason if
// the node cannot continue. fatal must not block.
func NewLog(inner raft.LogStore, fatal func(error), logger *slog.Logger) *Log {
	return &Log{inner: inner, fatal: fatal, logger: logger}
}

// Run sets the Raft that uses the log from now on, and that Raft's server id.
func (s *Log) Run(r *raft.Raft, self raft.ServerID) {
	s.self = self
	s.raft.Store(r)
}

// SinceSnapshot returns how many entries, and how many bytes, have been stored since the
// last snapshot.
func (s *Log) SinceSnapshot() (entries, bytes int64) { return s.entries.Load(), s.bytes.Load() }

// Writes returns how long the last write took, and a moving average over about 16 writes.
func (s *Log) Writes() (last, mean time.Duration) {
	return time.Duration(s.last.Load()), time.Duration(s.mean.Load())
}

// InMemory reports whether the end of the log is only in memory, because the disk is full.
// since is when this state began.
func (s *Log) InMemory() (since time.Time, ok bool) { return s.tail.exists() }

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// started is the time from which monotonic counts.
var started = time.Now()

// monotonic returns nanoseconds since an arbitrary point in this process; never
// 0.
func monotonic() int64 { return int64(time.Since(started)) + 1 }

func (s *Log) IsMonotonic() bool          { return true }
func (s *Log) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }
func (s *Log) Stalled() time.Duration     { return since(s.storing.Load()) }

// FirstIndex implements raft.LogStore.
func (s *Log) FirstIndex() (uint64, error) {
	first, err := s.inner.FirstIndex()
	if first == 0 && err == nil {
		first, _ = s.tail.bounds()
	}
	return first, err
}

// LastIndex implements raft.LogStore.
func (s *Log) LastIndex() (uint64, error) {
	if _, last := s.tail.bounds(); last > 0 {
		return last, nil
	}
	return s.inner.LastIndex()
}

// Find does the same as GetLog, but does not stop the node on an error.
func (s *Log) Find(index uint64, log *raft.Log) error {
	if s.tail.get(index, log) {
		return nil
	}
	return s.inner.GetLog(index, log)
}

// GetLog implements raft.LogStore.
func (s *Log) GetLog(index uint64, log *raft.Log) error {
	err := s.Find(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		s.die(fmt.Errorf("%w: read entry %d: %w", ErrCorrupt, index, err))
	}
	return err
}

// since returns the time since a moment of monotonic; 0 if there is none.
func since(at int64) time.Duration {
	if at == 0 {
		return 0
	}
	return time.Duration(monotonic() - at)
}

// StoreLogs implements raft.LogStore. It returns when the entries are synced. For a
// leader's own batches, it returns when they are written.
func (s *Log) StoreLogs(logs []*raft.Log) error {
	if err := s.Await(math.MaxUint64); err != nil {
		return err
	}
	begin := monotonic()
	if r := s.raft.Load(); r != nil {
		s.Arrivals.Note(logs, r.CurrentTerm(), boottime.Now())
	}
	var n int64
	for _, l := range logs {
		n += int64(len(l.Data))
	}
	if kept, err := s.keep(logs); kept {
		return s.stored(err, begin, len(logs), n)
	}
	s.storing.Store(begin)
	w, ok := s.inner.(unsyncedWriter)
	later := ok && s.maySyncLater(logs)
	var err error
	if later {
		err = w.Write(logs)
	} else {
		err = s.inner.StoreLogs(logs)
	}
	if err != nil && s.begin(logs, err) {
		err, later = nil, false
	}
	if err != nil || !later {
		return s.stored(err, begin, len(logs), n)
	}
	s.ownSync.begin(logs[0].Index, func() error { return s.stored(w.Sync(), begin, len(logs), n) })
	return nil
}

// maySyncLater reports whether all these entries are batches that this node proposes as
// the leader.
func (s *Log) maySyncLater(logs []*raft.Log) bool {
	for _, l := range logs {
		if l.Type != raft.LogCommand {
			return false
		}
	}
	r := s.raft.Load()
	return r != nil && r.State() == raft.Leader
}

// stored accounts for a finished write of entries with n bytes.
func (s *Log) stored(err error, begin int64, entries int, n int64) error {
	s.storing.Store(0)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDisk, err)
		s.fatal(err)
		return err
	}
	took := monotonic() - begin
	s.last.Store(took)
	s.mean.Store(s.mean.Load() + (took-s.mean.Load())/16)
	s.bytes.Add(n)
	s.entries.Add(int64(entries))
	return nil
}

// DeleteRange removes a prefix (compaction), a suffix (a conflict with the leader's log),
// or all entries (an installed snapshot). When it removes all, and the log agrees with the
// snapshot, it keeps the entries after the snapshot's last entry, because this node has
// acknowledged them (Raft's figure 13, rule 6).
func (s *Log) DeleteRange(min, max uint64) error {
	s.mu.Lock()
	index, term := s.snapIndex, s.snapTerm
	s.mu.Unlock()
	if min <= index && index < max {
		var l raft.Log
		if err := s.inner.GetLog(index, &l); err == nil && l.Term == term {
			max = index
		}
	}
	err := s.inner.DeleteRange(min, max)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDisk, err)
		if !errors.Is(err, wal.ErrNoRoom) || !s.alone() {
			s.fatal(err)
		}
	}
	return err
}

// snapshotDone records a finished snapshot. conflict reports that the log contradicts the
// snapshot. The contradicting entries were never committed. A restart of Raft must then
// remove them from Raft's memory.
func (s *Log) snapshotDone(index, term uint64) (conflict bool, err error) {
	s.mu.Lock()
	// A snapshot that this node has written may be finished after a newer one was
	// installed.
	if index > s.snapIndex {
		s.snapIndex, s.snapTerm = index, term
	}
	s.mu.Unlock()
	s.bytes.Store(0)
	s.entries.Store(0)
	if err := s.end(index); err != nil {
		return false, err
	}
	return contradicts(s.inner, index, term)
}

// NewestSnapshot returns the index of the newest snapshot finished in this
// process; 0 if there is none.
func (s *Log) NewestSnapshot() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapIndex
}

// contradicts reports whether the log reaches index and has an entry of another term
// there.
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

// die reports an error on which Raft would panic, and blocks Raft for ever.
func (s *Log) die(err error) {
	s.fatal(err)
	select {}
}
