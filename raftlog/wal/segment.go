package wal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// position is where an entry is in its file.
type position struct{ off, size uint32 }

// segment is one file. Its positions are those of consecutive entries from index base on.
type segment struct {
	file    *os.File
	path    string
	header  segmentHeader
	end     int64 // of the frames
	room    int64 // size of the file: zeros from end on
	base    uint64
	entries []position
}

// next is the index after the segment's last entry.
func (s *segment) next() uint64 { return s.base + uint64(len(s.entries)) }

// fileName returns the name of the segment of a number.
func fileName(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("log-%016x", number))
}

// createSegment makes an empty segment durable. A file of the name, left by a crash in the middle of this, is replaced.
func createSegment(dir string, number, previous uint64, sync func(*os.File) error) (s *segment, err error) {
	path := fileName(dir, number)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	var nonce [8]byte
	rand.Read(nonce[:])
	s = &segment{file: f, path: path, header: segmentHeader{number, le.Uint64(nonce[:]), previous}, end: headerSize, room: chunk}
	first := make([]byte, chunk)
	s.header.append(first[:0])
	if _, err := f.WriteAt(first, 0); err != nil {
		return nil, err
	}
	if err := sync(f); err != nil {
		return nil, err
	}
	return s, syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// reserve makes room for n more bytes of frames, and for the header of a frame behind them: zeros, synced.
func (s *segment) reserve(n int64, sync func(*os.File) error) error {
	need := s.end + n + frameHeaderSize
	if need <= s.room {
		return nil
	}
	room := (need + chunk - 1) / chunk * chunk
	if err := writeZeros(s.file, s.room, room); err != nil {
		return err
	}
	if err := sync(s.file); err != nil {
		return err
	}
	s.room = room
	return nil
}

func writeZeros(f *os.File, from, to int64) error {
	for from < to {
		n, err := f.WriteAt(zeros[:min(to-from, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

var zeros [chunk]byte

// openSegment reads the header of a segment. fresh is true, and the segment nil, when its creation was not finished.
func openSegment(path string, number uint64) (s *segment, fresh bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if s == nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	h, v, ok := readSegmentHeader(b)
	if !ok {
		return nil, info.Size() <= chunk, corrupt(path, 0, "no header")
	}
	if v != version {
		return nil, false, fmt.Errorf("%w: %s has version %d, this program knows %d", ErrVersion, path, v, version)
	}
	if h.number != number {
		return nil, false, corrupt(path, 0, fmt.Sprintf("it is segment %x", h.number))
	}
	return &segment{file: f, path: path, header: h, end: headerSize, room: info.Size()}, false, nil
}

// scan reads the frames, verifies them and hands each to use with where its payload begins. torn reports that something
// follows the last frame that is neither zeros nor a frame; damage is an error when there is a good frame behind it.
func (s *segment) scan(use func(f frame, payload []byte, at int64) error) (torn bool, err error) {
	data := make([]byte, s.room)
	if _, err := s.file.ReadAt(data, 0); err != nil {
		return false, fmt.Errorf("read %s: %w", s.path, err)
	}
	for {
		if s.end+frameHeaderSize > s.room {
			return false, corrupt(s.path, s.end, "it is shorter than what was written to it")
		}
		f, ok := readFrame(data[s.end:], s.header.nonce)
		if !ok {
			break
		}
		if s.end+int64(f.size())+frameHeaderSize > s.room {
			return false, corrupt(s.path, s.end, "it is shorter than what was written to it")
		}
		at := s.end + frameHeaderSize
		payload := data[at : at+int64(f.length)]
		if !whole(f, payload) {
			break
		}
		if err := use(f, payload, at); err != nil {
			return false, corrupt(s.path, s.end, err.Error())
		}
		s.end += int64(f.size())
	}
	for at := s.end; at < s.room; at += alignment {
		tail := data[at:min(at+alignment, s.room)]
		if allZero(tail) {
			continue
		}
		torn = true
		if at == s.end {
			continue // the frame that is incomplete
		}
		if _, ok := readFrame(data[at:], s.header.nonce); ok {
			return false, corrupt(s.path, s.end, fmt.Sprintf("and there is a good frame behind, at %d", at))
		}
	}
	return torn, nil
}

// whole reports whether the payload is all that its frame says.
func whole(f frame, payload []byte) bool {
	if f.kind != kindEntries {
		return true
	}
	for range f.b {
		n := entrySize(payload)
		if n == 0 {
			return false
		}
		payload = payload[n:]
	}
	return len(payload) == 0
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
