package disk

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/wal"
)

// tailBytes bounds the entries of the tail that are applied but not yet in a snapshot, in
// bytes. It is more than the log grows while a snapshot is written.
const tailBytes = 64 << 20

// tail keeps the end of the log in memory while the disk has no room for it. Only the
// member of a single-node cluster has a tail: it continues to decide. In a larger
// cluster, the node stops instead, and other nodes that can write take over.
//
// The tail begins with the entries of the first write that finds no room. It ends when a
// snapshot includes at least its first entries. The log on disk is then emptied, and the
// rest of the tail is written after the snapshot. So on disk, each entry follows the
// entry before it, or follows a snapshot that includes that earlier entry. If the
// process is killed, it restarts from the log as it was before the tail, or from the
// snapshot. Reconcile drops a log that ends before its snapshot.
//
// Applied entries may be dropped from the beginning of the tail. If a snapshot ends
// before the entries that remain, the tail does not end then; a later snapshot can end
// it.
type tail struct {
	since atomic.Int64 // unix ns, 0: no tail

	// mu guards the fields below. It is held while the tail is written.
	mu    sync.RWMutex
	logs  []*raft.Log // without gaps; never empty while there is a tail
	bytes int64
}

// exists reports whether there is a tail, and since when.
func (t *tail) exists() (since time.Time, ok bool) {
	ns := t.since.Load()
	return time.Unix(0, ns), ns != 0
}

// get returns an entry of the tail.
func (t *tail) get(index uint64, out *raft.Log) bool {
	if t.since.Load() == 0 {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.logs) == 0 || index < t.logs[0].Index || index-t.logs[0].Index >= uint64(len(t.logs)) {
		return false
	}
	*out = *t.logs[index-t.logs[0].Index]
	return true
}

// bounds returns the tail's first and last index; 0 if there is none.
func (t *tail) bounds() (first, last uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.logs) == 0 {
		return 0, 0
	}
	return t.logs[0].Index, t.logs[len(t.logs)-1].Index
}

// add appends entries. If there are too many, it drops the oldest of the entries up to
// applied. The caller holds mu.
func (t *tail) add(logs []*raft.Log, applied uint64) {
	for _, l := range logs {
		t.logs = append(t.logs, l)
		t.bytes += int64(len(l.Data))
	}
	for t.bytes > tailBytes && len(t.logs) > 1 && t.logs[0].Index <= applied {
		t.bytes -= int64(len(t.logs[0].Data))
		t.logs[0] = nil
		t.logs = t.logs[1:]
	}
}

// alone reports whether this node is the only member of its cluster.
func (s *Log) alone() bool {
	r := s.raft.Load()
	if r == nil {
		return false
	}
	return s.solely(r.GetConfiguration().Configuration())
}

// solely reports whether this node is the only member of a configuration.
func (s *Log) solely(c raft.Configuration) bool {
	return len(c.Servers) == 1 && c.Servers[0].ID == s.self
}

// errMembership refuses a change that adds members while the change would be in memory
// only.
var errMembership = errors.New("the disk is full: make room before you change the members")

// keep takes entries into the tail, if there is one.
func (s *Log) keep(logs []*raft.Log) (kept bool, err error) {
	if _, ok := s.tail.exists(); !ok {
		return false, nil
	}
	s.tail.mu.Lock()
	defer s.tail.mu.Unlock()
	if len(s.tail.logs) == 0 {
		return false, nil // the tail has just been written
	}
	if s.addsMembers(logs) {
		return true, errMembership
	}
	s.tail.add(logs, s.raft.Load().AppliedIndex())
	return true, nil
}

// addsMembers reports whether this node has other members after these entries. A node
// that corrects its own address has none.
func (s *Log) addsMembers(logs []*raft.Log) bool {
	return slices.ContainsFunc(logs, func(l *raft.Log) bool {
		return l.Type == raft.LogConfiguration && !s.solely(raft.DecodeConfiguration(l.Data))
	})
}

// begin begins the tail with entries for which the disk has no room, if this node may
// have a tail.
func (s *Log) begin(logs []*raft.Log, err error) bool {
	if !errors.Is(err, wal.ErrNoRoom) || s.addsMembers(logs) || !s.alone() {
		return false
	}
	s.tail.mu.Lock()
	s.tail.add(logs, 0)
	s.tail.since.Store(time.Now().UnixNano())
	s.tail.mu.Unlock()
	s.logger.Error("the disk is full: this node keeps new decisions in memory only. If the node stops before the disk has room again, these decisions are lost. Calls that must be durable get an error", "error", err)
	return true
}

// end ends the tail if a snapshot up to index, which is on disk, reaches into it.
func (s *Log) end(index uint64) error {
	since, ok := s.tail.exists()
	if !ok {
		return nil
	}
	t := &s.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.logs[0].Index
	if index+1 < first {
		return nil
	}
	rest := t.logs[min(index+1-first, uint64(len(t.logs))):]
	if err := s.replace(rest); errors.Is(err, wal.ErrNoRoom) {
		return nil // the tail stays; the next snapshot tries again
	} else if err != nil {
		err = fmt.Errorf("%w: %w", ErrDisk, err)
		s.fatal(err)
		return err
	}
	t.logs, t.bytes = nil, 0
	t.since.Store(0)
	s.logger.Warn("the disk has room again: a snapshot now holds the decisions that were in memory only", "in_memory_for", time.Since(since).Round(time.Millisecond).String())
	return nil
}

// replace makes logs the whole content of the log on disk.
func (s *Log) replace(logs []*raft.Log) error {
	first, err := s.inner.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.inner.LastIndex()
	if err != nil {
		return err
	}
	if last > 0 {
		if err := s.inner.DeleteRange(first, last); err != nil {
			return err
		}
	}
	if len(logs) == 0 {
		return nil
	}
	return s.inner.StoreLogs(logs)
}
