package stable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

const (
	magic      = "HGST"
	version    = 1
	slotSize   = 64 << 10
	headerSize = 24
	checksumAt = 20
)

// Errors of this package; test with errors.Is.
var (
	// ErrCorrupt is returned when neither slot of a file is good.
	ErrCorrupt = errors.New("damaged values")

	// ErrVersion is returned when a file is of another format.
	ErrVersion = errors.New("values of another format")

	// ErrNotFound is returned for a key that has no value. Raft's contract requires this
	// text.
	ErrNotFound = errors.New("not found")

	// ErrReplaced is returned by Missing if another file has the name.
	ErrReplaced = errors.New("the file in use has been replaced by another")

	errClosed = errors.New("store of values is closed")
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// Store is a raft.StableStore. After a failed write it refuses all further writes, because
// it cannot know what is on the disk.
type Store struct {
	file *os.File
	path string
	sync func(*os.File) error

	// mu guards the fields below.
	mu       sync.Mutex
	values   map[string][]byte
	sequence uint64
	failed   error
}

var _ raft.StableStore = (*Store)(nil)

// Open opens or creates the file at path. fresh reports that the file did not exist. The
// caller must ensure that nobody else has the file open. noSync leaves it to the operating
// system when data reaches the disk.
func Open(path string, noSync bool) (s *Store, fresh bool, err error) {
	sync := syncFile
	if noSync {
		sync = func(*os.File) error { return nil }
	}
	return open(path, sync)
}

func open(path string, sync func(*os.File) error) (s *Store, fresh bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if fresh = errors.Is(err, os.ErrNotExist); fresh {
		f, err = create(path, sync)
	}
	if err != nil {
		return nil, false, err
	}
	s = &Store{file: f, path: path, sync: sync}
	if err := s.read(); err != nil {
		return nil, false, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	if err := s.write(s.sequence, s.values); err != nil {
		return nil, false, errors.Join(fmt.Errorf("write %s again: %w", path, err), f.Close())
	}
	return s, fresh, nil
}

// Read reads the file at path and closes it. Its values can only be read. It may be called
// while a process has the file open.
func Read(path string) (*Store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &Store{file: f, path: path, failed: errClosed}
	if err := errors.Join(s.read(), f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// create makes a file without values. The file gets its name once it is complete and
// synced.
func create(path string, sync func(*os.File) error) (f *os.File, err error) {
	f, err = os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	s := Store{file: f, sync: sync}
	if _, err := f.WriteAt(make([]byte, 2*slotSize), 0); err != nil {
		return nil, err
	}
	if err := s.write(0, nil); err != nil {
		return nil, err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return f, errors.Join(sync(dir), dir.Close())
}

// read reads the values of the newer good slot.
func (s *Store) read() error {
	b := make([]byte, 2*slotSize)
	if _, err := s.file.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var bad []error
	for _, slot := range [][]byte{b[:slotSize], b[slotSize:]} {
		sequence, values, err := decode(slot)
		switch {
		case err != nil:
			bad = append(bad, err)
		case s.values == nil || sequence > s.sequence:
			s.sequence, s.values = sequence, values
		}
	}
	if s.values == nil {
		return fmt.Errorf("first copy: %w; second copy: %w", bad[0], bad[1])
	}
	return nil
}

// write writes values to both slots, one after the other.
func (s *Store) write(sequence uint64, values map[string][]byte) error {
	b, err := encode(sequence, values)
	if err != nil {
		return err
	}
	for slot := range int64(2) {
		if _, err := s.file.WriteAt(b, slot*slotSize); err != nil {
			return err
		}
		if err := s.sync(s.file); err != nil {
			return err
		}
	}
	return nil
}

func encode(sequence uint64, values map[string][]byte) ([]byte, error) {
	b := append([]byte(magic), version, 0, 0, 0)
	b = le.AppendUint64(b, sequence)
	b = append(b, make([]byte, headerSize-len(b))...)
	for _, k := range slices.Sorted(maps.Keys(values)) {
		b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
		b = append(binary.AppendUvarint(b, uint64(len(values[k]))), values[k]...)
	}
	if len(b) > slotSize {
		return nil, fmt.Errorf("values of %d bytes, %d at most", len(b), slotSize)
	}
	le.PutUint32(b[16:], uint32(len(b)))
	le.PutUint32(b[checksumAt:], checksum(b))
	return b, nil
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:checksumAt], castagnoli), castagnoli, b[headerSize:])
}

// decode reads a slot, whose values are never nil.
func decode(b []byte) (sequence uint64, values map[string][]byte, err error) {
	n := int(le.Uint32(b[16:]))
	if string(b[:len(magic)]) != magic || n < headerSize || n > len(b) || le.Uint32(b[checksumAt:]) != checksum(b[:n]) {
		return 0, nil, ErrCorrupt
	}
	if v := b[len(magic)]; v != version {
		return 0, nil, fmt.Errorf("%w: version %d, this program knows %d", ErrVersion, v, version)
	}
	sequence, values = le.Uint64(b[8:]), map[string][]byte{}
	for b = b[headerSize:n]; len(b) > 0; {
		var field [2][]byte
		for i := range field {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return 0, nil, ErrCorrupt
			}
			field[i], b = slices.Clone(b[n:n+int(size)]), b[n+int(size):]
		}
		values[string(field[0])] = field[1]
	}
	return sequence, values, nil
}

// Set implements raft.StableStore. All keys and values together must fit in 64 KiB.
func (s *Store) Set(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	values := maps.Clone(s.values)
	values[string(key)] = slices.Clone(value)
	if _, err := encode(s.sequence+1, values); err != nil {
		return err
	}
	if err := s.write(s.sequence+1, values); err != nil {
		s.failed = err
		return err
	}
	s.sequence, s.values = s.sequence+1, values
	return nil
}

// Get implements raft.StableStore. The error is ErrNotFound if there is no
// value.
func (s *Store) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[string(key)]
	if !ok {
		return nil, ErrNotFound
	}
	return slices.Clone(v), nil
}

// PutUint64 changes a value in memory. The next Set makes it durable, together with its own
// change. A crash before that leaves neither change.
func (s *Store) PutUint64(key []byte, value uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	s.values = maps.Clone(s.values)
	s.values[string(key)] = le.AppendUint64(nil, value)
	return nil
}

// SetUint64 implements raft.StableStore.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, le.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore. The error is ErrNotFound if there is
// no value.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	v, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: %s is not a number", ErrCorrupt, key)
	}
	return le.Uint64(v), nil
}

// Missing returns an error if the file is no longer at its path, or if another file is
// there.
func (s *Store) Missing() error {
	at, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	own, err := s.file.Stat()
	if err == nil && !os.SameFile(at, own) {
		err = fmt.Errorf("%w: %s", ErrReplaced, s.path)
	}
	return err
}

// Close closes the file. It waits for a change in progress.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = errClosed
	}
	return s.file.Close()
}
