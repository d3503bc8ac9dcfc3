package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// endKey is the key of the log's end in the stable store.
var endKey = []byte("headgate-log-end")

// logEnd is what the stable store knows of the log's end.
type logEnd struct {
	number uint64 // of the last segment, 0 if there never was one
	at     int64  // end of its frames; unless closed, more may follow
	closed bool   // nothing follows
}

// remember records that a segment is the last one, and where the segment's frames end. If
// closed is false, more frames may follow. A segment is remembered before anything is
// written to it.
func (l *Log) remember(s *segment, closed bool) error {
	b := le.AppendUint64(le.AppendUint64(nil, s.header.number), uint64(s.end))
	if closed {
		b = append(b, 1)
	}
	return l.opts.Stable.Set(endKey, b)
}

// remembered returns what the stable store knows.
func remembered(s raft.StableStore) (e logEnd, err error) {
	b, err := s.Get(endKey)
	switch {
	case err != nil && err.Error() == "not found", err == nil && len(b) == 0: // Raft's contract requires this text
		return logEnd{}, nil
	case err != nil:
		return logEnd{}, err
	case len(b) < 16:
		return logEnd{}, fmt.Errorf("%w: its stored end has only %d bytes", ErrCorrupt, len(b))
	}
	return logEnd{le.Uint64(b), int64(le.Uint64(b[8:])), len(b) > 16}, nil
}

// Open opens or creates a log and verifies all of it. The caller must ensure that nobody
// else has the log open.
func Open(opts Options) (*Log, error) {
	if opts.SegmentSize == 0 {
		opts.SegmentSize = defaultSegmentSize
	}
	l := &Log{opts: opts, sync: syncData, syncDir: syncDir}
	if opts.NoSync {
		l.sync = func(*os.File) error { return nil }
	}
	if opts.sync != nil {
		l.sync, l.syncDir = opts.sync, opts.syncDir
	}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.ready = true
	return l, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (l *Log) open() error {
	dir := l.opts.Dir
	known, err := remembered(l.opts.Stable)
	if err != nil {
		return err
	}
	last := known.number
	numbers, err := list(dir)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		if n != numbers[0]+uint64(i) {
			return corrupt(fileName(dir, numbers[0]+uint64(i)), 0, "the file is missing")
		}
	}
	if n := len(numbers); n > 0 && numbers[n-1] == last+1 {
		// The node crashed before it remembered this segment, which is empty.
		if err := removeEmpty(fileName(dir, last+1), last+1); err != nil {
			return err
		}
		numbers = numbers[:n-1]
	}
	switch n := len(numbers); {
	case last == 0 && n == 0:
		return l.begin()
	case last == 0:
		return corrupt(fileName(dir, numbers[n-1]), 0, "the store of term and vote has no record of this file")
	case n == 0 || numbers[n-1] != last:
		return corrupt(fileName(dir, last), 0, "the file is missing")
	}
	for _, n := range numbers {
		if err := l.load(n, known); err != nil {
			return err
		}
	}
	return l.removeUnused()
}

// list returns the numbers of the segments in dir, in order.
func list(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "log-")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || filepath.Base(fileName(dir, n)) != e.Name() {
			return nil, corrupt(filepath.Join(dir, e.Name()), 0, "not the name of a log file")
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// begin creates the first segment.
func (l *Log) begin() error {
	s, err := l.createSegment(1, 0)
	if err != nil {
		return err
	}
	l.segments = []*segment{s}
	return l.remember(s, false)
}

// removeEmpty removes a segment to which nothing has been written.
func removeEmpty(path string, number uint64) error {
	s, unfinished, err := openSegment(path, number)
	switch {
	case unfinished, err == nil && s.room < chunk && s.file.Close() == nil:
	case err != nil:
		return err
	default:
		torn, err := s.scan(func(frame, []byte, int64) error { return nil })
		if err := errors.Join(err, s.file.Close()); err != nil {
			return err
		}
		if torn || s.end > framesAt {
			return corrupt(path, framesAt, "the store of term and vote has no record of this file")
		}
	}
	return os.Remove(path)
}

// load reads a segment into the index.
func (l *Log) load(number uint64, known logEnd) error {
	s, _, err := openSegment(fileName(l.opts.Dir, number), number)
	if err != nil {
		return err
	}
	if n := len(l.segments); n > 0 && uint64(l.segments[n-1].end) != s.header.previous {
		p := l.segments[n-1]
		s.file.Close()
		return corrupt(p.path, p.end, fmt.Sprintf("it ends here instead of at %d", s.header.previous))
	}
	l.segments = append(l.segments, s)
	lastFrame := s.end
	torn, err := s.scan(func(f frame, payload []byte, at int64) error {
		lastFrame = at - frameHeaderSize
		return l.replay(s, f, payload, at)
	})
	if err != nil {
		return err
	}
	switch {
	case number != known.number:
		if torn {
			return corrupt(s.path, s.end, "but more segments follow")
		}
		return nil
	case s.end < known.at:
		return corrupt(s.path, s.end, fmt.Sprintf("it ends here, but once went up to %d", known.at))
	case known.closed && (torn || s.end > known.at):
		return corrupt(s.path, known.at, "it was closed here, but something follows")
	}
	if err := l.settle(s, lastFrame); err != nil {
		return err
	}
	return l.remember(s, false)
}

// settle makes the last segment durable in the state that was read, with zeros after its
// frames. A killed process may have written the last frame without a sync; from now on that
// frame counts. settle writes the frame again first, because after a failed sync the system
// may regard the file's pages as written, and never write them.
func (l *Log) settle(s *segment, lastFrame int64) error {
	b := make([]byte, s.end-lastFrame)
	if _, err := s.file.ReadAt(b, lastFrame); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(b, lastFrame); err != nil {
		return err
	}
	if err := writeZeros(s.file, s.end, s.room); err != nil {
		return err
	}
	return l.sync(s.file)
}

// replay adds a frame to the index.
func (l *Log) replay(s *segment, f frame, payload []byte, at int64) error {
	switch f.kind {
	case kindEntries:
		if l.first != l.next && f.a != l.next {
			return fmt.Errorf("entry %d follows %d", f.a, l.next-1)
		}
		positions := make([]position, 0, min(f.b, uint64(len(payload))))
		for len(payload) > 0 {
			n := entrySize(payload)
			positions = append(positions, position{uint32(at), uint32(n)})
			payload, at = payload[n:], at+int64(n)
		}
		l.stored(s, f.a, positions)
	case kindBounds:
		l.bound(f.a, f.b)
	default:
		return fmt.Errorf("frame of kind %d", f.kind)
	}
	return nil
}
