package wal

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/internal/diskspace"
)

const (
	// chunk is how many bytes of zeros are written in advance at a time.
	chunk = 1 << 20

	// defaultSegmentSize is the largest size of a segment, unless a single append is
	// larger.
	defaultSegmentSize = 64 << 20

	// bufferKept is the largest buffer kept from one append to the next.
	bufferKept = 4 << 20

	// boundsRoom is how many bytes more than its own size an append of entries requires to
	// be free. A deletion needs some of this room, and then frees more.
	boundsRoom = 4 << 10

	// markEvery is how many frames are written between two marks of the synced end. A
	// mark is one more block for the next sync.
	markEvery = 64
)

// Errors of this package; test with errors.Is.
var (
	ErrCorrupt = errors.New("damaged log")
	ErrVersion = errors.New("log of another format")

	// ErrNoRoom is returned if the file system is full. Nothing has been stored, and the
	// log may still be used.
	ErrNoRoom = errors.New("no room for the log")
	errClosed = errors.New("log is closed")
)

func corrupt(path string, at int64, what string) error {
	return fmt.Errorf("%w: %s at %d: %s", ErrCorrupt, path, at, what)
}

// Options configure a Log.
type Options struct {
	// Dir is the directory of the segments. It must exist, and no other file in it may have
	// a name that begins with "log-".
	Dir string

	// Stable remembers the last segment and the end of the segment's frames, so that a loss
	// is noticed. After a Close, this end is exact. Otherwise it is the end at the last
	// opening. The log uses Stable until Close has returned.
	Stable raft.StableStore

	// With NoSync the operating system decides when data reaches the disk.
	NoSync bool

	// SegmentSize is 64 MiB when 0.
	SegmentSize int64

	// sync and syncDir replace the calls of the system, in tests.
	sync    func(*os.File) error
	syncDir func(string) error
}

// Log is a raft.LogStore. After a failed write other than ErrNoRoom, it refuses all further
// writes, because it cannot know what is on the disk.
type Log struct {
	opts    Options
	sync    func(*os.File) error
	syncDir func(string) error

	// write serialises Write, Sync and DeleteRange. It guards the fields down to failed.
	write    sync.Mutex
	buf      []byte
	unsynced bool // the last frame is not synced
	unmarked int  // frames since the last mark
	ready    bool // it has been opened
	failed   error

	// remove serialises the removal of files, oldest first.
	remove sync.Mutex

	// mu guards the fields below. write guards the segments' end and room.
	mu       sync.RWMutex
	segments []*segment // the last one is written to; changed with write held too
	first    uint64
	next     uint64 // first == next: empty, and any index may follow
}

var _ raft.LogStore = (*Log)(nil)

// active returns the segment that is written to. The caller holds write.
func (l *Log) active() *segment { return l.segments[len(l.segments)-1] }

// FirstIndex implements raft.LogStore.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.first == l.next {
		return 0, nil
	}
	return l.first, nil
}

// LastIndex implements raft.LogStore.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.first == l.next {
		return 0, nil
	}
	return l.next - 1, nil
}

// GetLog implements raft.LogStore. It returns raft.ErrLogNotFound for an index outside
// the log, and ErrCorrupt for an entry that has changed on disk.
func (l *Log) GetLog(index uint64, out *raft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if index < l.first || index >= l.next {
		return raft.ErrLogNotFound
	}
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := l.segments[i]
		if len(s.entries) == 0 || index < s.base {
			continue
		}
		p := s.entries[index-s.base]
		b := make([]byte, p.size)
		if _, err := s.file.ReadAt(b, int64(p.off)); err != nil {
			return fmt.Errorf("read %s: %w", s.path, err)
		}
		s.pad.mask(b, int64(p.off))
		if !readEntry(b, out) {
			return corrupt(s.path, int64(p.off), fmt.Sprintf("entry %d", index))
		}
		out.Index = index
		return nil
	}
	return raft.ErrLogNotFound
}

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. The entries must follow the last one stored, and
// each other.
func (l *Log) StoreLogs(logs []*raft.Log) error { return l.store(logs, true) }

// Write does the same as StoreLogs without the sync. The entries can be read at once, and
// survive a crash of the process. They survive a crash of the machine only after Sync, or
// after the next append or deletion, which syncs first.
func (l *Log) Write(logs []*raft.Log) error { return l.store(logs, false) }

// Sync makes what Write has written durable. Appends and deletions wait for it.
func (l *Log) Sync() error {
	l.write.Lock()
	defer l.write.Unlock()
	return l.syncLast()
}

// syncLast makes the last frame durable. The caller holds write.
func (l *Log) syncLast() error {
	if l.failed != nil || !l.unsynced {
		return l.failed
	}
	if err := l.sync(l.active().file); err != nil {
		l.failed = err
		return err
	}
	l.unsynced = false
	return nil
}

// store is StoreLogs, or Write without the sync.
func (l *Log) store(logs []*raft.Log, sync bool) error {
	if len(logs) == 0 {
		return nil
	}
	l.write.Lock()
	defer l.write.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if l.first != l.next && logs[0].Index != l.next {
		return fmt.Errorf("entry %d follows %d", logs[0].Index, l.next-1)
	}
	var header [frameHeaderSize]byte
	b := append(l.buf[:0], header[:]...)
	positions := make([]position, len(logs))
	for i, e := range logs {
		if e.Index != logs[0].Index+uint64(i) {
			return fmt.Errorf("entry %d follows %d in one append", e.Index, logs[0].Index+uint64(i)-1)
		}
		off := len(b)
		b = appendEntry(b, e)
		positions[i] = position{uint32(off), uint32(len(b) - off)}
	}
	if len(b) > maxFrame {
		return fmt.Errorf("an append of %d bytes is above the maximum of %d", len(b), maxFrame)
	}
	at, err := l.append(frame{kind: kindEntries, length: len(b) - frameHeaderSize, a: logs[0].Index, b: uint64(len(logs))}, b)
	if err == nil && sync {
		err = l.syncLast()
	}
	if err != nil {
		return l.fail(err)
	}
	for i := range positions {
		positions[i].off += uint32(at)
	}
	l.mu.Lock()
	l.stored(l.active(), logs[0].Index, positions)
	l.mu.Unlock()
	return nil
}

// stored adds entries to the index of s. The caller holds mu.
func (l *Log) stored(s *segment, first uint64, positions []position) {
	if l.first == l.next {
		l.first, l.next = first, first
	}
	if len(s.entries) == 0 {
		s.base = first
	}
	s.entries = append(s.entries, positions...)
	l.next += uint64(len(positions))
}

// fail remembers an error after which the content of the disk is unknown, and returns it.
// The caller holds write.
func (l *Log) fail(err error) error {
	if !errors.Is(err, ErrNoRoom) {
		l.failed = err
	}
	return err
}

// append puts the frame's header into b, writes the frame, and returns where the frame
// begins. It first syncs the previous frame, so that only the last frame can be incomplete
// after a crash. The caller holds write.
func (l *Log) append(f frame, b []byte) (at int64, err error) {
	if err := l.syncLast(); err != nil {
		return 0, err
	}
	size := int64(f.size())
	for int64(len(b)) < size {
		b = append(b, 0)
	}
	if cap(b) <= bufferKept {
		l.buf = b
	}
	s, room := l.active(), size
	if f.kind == kindEntries {
		room += boundsRoom
		if s.end > framesAt && s.end+size > l.opts.SegmentSize {
			if s, err = l.rotate(); err != nil {
				return 0, err
			}
		}
	}
	if err := s.reserve(room, l.sync); err != nil {
		return 0, noRoom(err)
	}
	if l.unmarked++; l.unmarked >= markEvery {
		if err := l.mark(s); err != nil {
			return 0, err
		}
	}
	f.put(b, s.header.nonce)
	at = s.end
	s.pad.mask(b, at)
	if _, err := s.file.WriteAt(b, at); err != nil {
		return 0, err
	}
	l.unsynced = true
	s.end += size
	return at, nil
}

// noRoom returns ErrNoRoom if a full file system has refused zeros or a new file. The frame
// was then not begun.
func noRoom(err error) error {
	if diskspace.Full(err) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return err
}

// mark records that the frames up to now are synced. The next sync includes the mark. The
// caller holds write.
func (l *Log) mark(s *segment) error {
	var b [markSize]byte
	putMark(&b, s.end, s.header.nonce)
	l.unmarked = 0
	_, err := s.file.WriteAt(b[:], markAt)
	return err
}

// rotate begins the next segment. The caller holds write.
func (l *Log) rotate() (*segment, error) {
	previous := l.active()
	s, err := l.createSegment(previous.header.number+1, uint64(previous.end))
	if err != nil {
		return nil, noRoom(err)
	}
	if err := l.remember(s, false); err != nil {
		s.file.Close()
		return nil, err
	}
	l.unmarked = 0
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	return s, nil
}

// DeleteRange implements raft.LogStore. The range must include the first or the last
// entry. Deleted entries do not come back after a crash.
func (l *Log) DeleteRange(low, high uint64) error {
	if err := l.cut(low, high); err != nil {
		return err
	}
	return l.removeUnused()
}

func (l *Log) cut(low, high uint64) error {
	l.write.Lock()
	defer l.write.Unlock()
	if l.failed != nil {
		return l.failed
	}
	f := frame{kind: kindBounds, a: l.first, b: l.next}
	switch {
	case l.first == l.next || high < l.first || low >= l.next || low > high:
		return nil
	case low <= l.first:
		f.a = min(high+1, l.next)
	case high >= l.next-1:
		f.b = low
	default:
		return fmt.Errorf("range %d to %d is in the middle of the log, %d to %d", low, high, l.first, l.next-1)
	}
	var b [frameHeaderSize]byte
	_, err := l.append(f, b[:])
	if err == nil {
		err = l.syncLast()
	}
	if err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	l.bound(f.a, f.b)
	l.mu.Unlock()
	return nil
}

// bound reduces the log to the entries from first up to, but not including, next. The
// caller holds mu.
func (l *Log) bound(first, next uint64) {
	if l.first == l.next {
		return
	}
	l.first, l.next = max(l.first, first), min(l.next, next)
	if l.first >= l.next {
		l.first, l.next = 0, 0
	}
	for _, s := range l.segments {
		switch {
		case l.first == l.next || s.base >= l.next:
			s.entries = nil
		case s.next() > l.next:
			s.entries = s.entries[:l.next-s.base]
		}
	}
}

// removeUnused removes the segments before the first segment that has an entry of the log.
// It makes each removal durable before the next, so that no gap can appear.
func (l *Log) removeUnused() error {
	l.remove.Lock()
	defer l.remove.Unlock()
	for {
		s, err := l.dropUnused()
		if s == nil {
			return nil
		}
		if err := errors.Join(err, os.Remove(s.path)); err != nil {
			return err
		}
		if err := l.syncDir(l.opts.Dir); err != nil {
			return err
		}
	}
}

// dropUnused closes the first segment and removes it from the list if it holds no entry
// of the log. Otherwise it returns nil.
func (l *Log) dropUnused() (*segment, error) {
	l.write.Lock()
	defer l.write.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.segments[0]
	if len(l.segments) == 1 || len(s.entries) > 0 && s.next() > l.first {
		return nil, nil
	}
	l.segments = l.segments[1:]
	return s, s.file.Close()
}

// Close closes the files. It waits for the write in progress, syncs the last frame, and
// records that the log ends there.
func (l *Log) Close() error {
	l.write.Lock()
	defer l.write.Unlock()
	var err error
	if l.failed == nil {
		if err = l.syncLast(); err == nil && l.ready {
			err = l.remember(l.active(), true)
		}
		l.failed = errClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		err = errors.Join(err, s.file.Close())
	}
	l.first, l.next = 0, 0
	return err
}
