package wal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// position is where an entry is in its file.
type position struct{ off, size uint32 }

// segment is one file. It holds consecutive entries from index base on.
type segment struct {
	file    *os.File
	path    string
	header  segmentHeader
	pad     *pad
	end     int64 // of the frames
	room    int64 // size of the file: zeros from end on
	base    uint64
	entries []position
}

// next returns the index after the segment's last entry.
func (s *segment) next() uint64 { return s.base + uint64(len(s.entries)) }

// fileName returns the name of the segment of a number.
func fileName(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("log-%016x", number))
}

// createSegment makes an empty segment durable. It replaces a file of the same name, which
// a crash during an earlier creation may have left.
func (l *Log) createSegment(number, previous uint64) (s *segment, err error) {
	path := fileName(l.opts.Dir, number)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(path) // free its room on a full disk
		}
	}()
	var nonce [8]byte
	rand.Read(nonce[:])
	s = newSegment(f, path, segmentHeader{number, le.Uint64(nonce[:]), previous}, chunk)
	first := make([]byte, chunk)
	s.header.append(first[:0])
	if _, err := f.WriteAt(first, 0); err != nil {
		return nil, err
	}
	if err := l.sync(f); err != nil {
		return nil, err
	}
	return s, l.syncDir(l.opts.Dir)
}

// newSegment describes an empty segment in a file of the given size.
func newSegment(f *os.File, path string, h segmentHeader, size int64) *segment {
	return &segment{file: f, path: path, header: h, pad: newPad(h.nonce), end: framesAt, room: size}
}

// reserve makes room for n more bytes of frames, and for the header of one more frame:
// zeros, synced.
func (s *segment) reserve(n int64, sync func(*os.File) error) error {
	need := s.end + n + frameHeaderSize
	if need <= s.room {
		return nil
	}
	room := (need + chunk - 1) / chunk * chunk
	err := writeZeros(s.file, s.room, room)
	if err == nil {
		err = sync(s.file)
	}
	if err != nil {
		_ = s.file.Truncate(s.room) // free the room on a full disk; more zeros do no harm
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

// openSegment reads the header of a segment. If number is 0, it accepts any number. If the
// creation of the segment was not finished, fresh is true and the segment is nil.
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
	if number != 0 && h.number != number {
		return nil, false, corrupt(path, 0, fmt.Sprintf("it is segment %x", h.number))
	}
	return newSegment(f, path, h, info.Size()), false, nil
}

// scan reads and verifies the frames. It calls use with each frame and with the offset of
// the frame's payload. torn reports that a write broke off after the last frame. Any other
// bytes after it are an error.
func (s *segment) scan(use func(f frame, payload []byte, at int64) error) (torn bool, err error) {
	data := make([]byte, s.room)
	if _, err := s.file.ReadAt(data, 0); err != nil {
		return false, fmt.Errorf("read %s: %w", s.path, err)
	}
	for {
		if s.end+frameHeaderSize > s.room {
			return false, s.tooShort()
		}
		f, ok := s.frameAt(data, s.end)
		if !ok {
			break
		}
		next := s.end + int64(f.size())
		if next+frameHeaderSize > s.room {
			return false, s.tooShort()
		}
		at := s.end + frameHeaderSize
		s.pad.mask(data[at:next], at)
		payload := data[at : at+int64(f.length)]
		if !whole(f, payload) || !allZero(data[at+int64(f.length):next]) {
			s.pad.mask(data[at:next], at)
			break
		}
		if err := use(f, payload, at); err != nil {
			return false, corrupt(s.path, s.end, err.Error())
		}
		s.end = next
	}
	if torn, err = s.judge(data); err != nil {
		return false, err
	}
	if end := readMark(data[markAt:], s.header.nonce); s.end < end {
		return false, corrupt(s.path, s.end, fmt.Sprintf("it ends here, but was synced up to %d", end))
	}
	return torn, nil
}

func (s *segment) tooShort() error {
	return corrupt(s.path, s.end, "it is shorter than what was written to it")
}

// frameAt reads the header of a frame. ok is false if there is none.
func (s *segment) frameAt(data []byte, at int64) (f frame, ok bool) {
	var b [frameHeaderSize]byte
	copy(b[:], data[at:])
	s.pad.mask(b[:], at)
	return readFrame(b[:], s.header.nonce)
}

// judge says what follows the last whole frame: nothing, a torn write of which whole
// sectors are still zeros, or damage.
func (s *segment) judge(data []byte) (torn bool, err error) {
	if allZero(data[s.end:]) {
		return false, nil
	}
	for at := s.end + alignment; at+frameHeaderSize <= s.room; at += alignment {
		if allZero(data[at : at+alignment]) {
			continue
		}
		if _, ok := s.frameAt(data, at); ok {
			return false, corrupt(s.path, s.end, fmt.Sprintf("but a good frame follows at %d", at))
		}
	}
	next := min(s.end/sector*sector+sector, s.room) // a file that was cut short ends anywhere
	f, ok := s.frameAt(data, s.end)
	if !ok {
		// The frame's header, or the part of it in the next sector, was not written. So the
		// frame's length is unknown.
		if allZero(data[s.end:next]) || s.end+frameHeaderSize > next && allZero(data[next:min(next+sector, s.room)]) {
			return true, nil
		}
		return false, corrupt(s.path, s.end, "the header of the last frame is damaged")
	}
	end := s.end + int64(f.size())
	if !allZero(data[end:]) {
		return false, corrupt(s.path, end, "something follows an incomplete frame")
	}
	for from := s.end; from < end; from, next = next, next+sector {
		if allZero(data[from:min(next, end)]) {
			return true, nil
		}
	}
	return false, corrupt(s.path, s.end, "the last frame was written completely, and is damaged now")
}

// whole reports whether the payload belongs to its frame.
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
	for ; len(b) > len(zeros); b = b[len(zeros):] {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
	}
	return bytes.Equal(b, zeros[:len(b)])
}
