package stable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func newStore(t testing.TB) (s *Store, path string) {
	path = filepath.Join(t.TempDir(), "stable")
	s, fresh, err := Open(path, true)
	require.NoError(t, err)
	require.True(t, fresh)
	return s, path
}

func TestRoundTrip(t *testing.T) {
	s, path := newStore(t)
	_, err := s.Get([]byte("a"))
	require.ErrorIs(t, err, ErrNotFound)
	require.EqualError(t, err, "not found", "Raft compares the text")
	_, err = s.GetUint64([]byte("a"))
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, s.Set([]byte("a"), []byte("one")))
	require.NoError(t, s.SetUint64([]byte("n"), 1<<63))
	require.NoError(t, s.Set([]byte("empty"), nil))
	require.Error(t, s.Set([]byte("big"), make([]byte, slotSize)))
	for range 2 {
		v, err := s.Get([]byte("a"))
		require.NoError(t, err)
		require.Equal(t, "one", string(v))
		n, err := s.GetUint64([]byte("n"))
		require.NoError(t, err)
		require.EqualValues(t, uint64(1)<<63, n)
		v, err = s.Get([]byte("empty"))
		require.NoError(t, err)
		require.Empty(t, v)
		_, err = s.GetUint64([]byte("a"))
		require.ErrorIs(t, err, ErrCorrupt)
		require.NoError(t, s.Close())
		var fresh bool
		s, fresh, err = Open(path, true)
		require.NoError(t, err)
		require.False(t, fresh)
	}
	require.NoError(t, s.Close())
	require.Error(t, s.Set([]byte("a"), nil))
}

// Any damage of one slot is repaired and costs nothing; what cannot be repaired
// is an error.
func TestDamage(t *testing.T) {
	s, path := newStore(t)
	for term := range uint64(5) {
		require.NoError(t, s.SetUint64([]byte("term"), term))
	}
	require.NoError(t, s.Set([]byte("vote"), []byte("10.0.0.1:7381")))
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	length := bytes.LastIndexByte(whole[:slotSize], '1') + 1
	open := func(b []byte) error {
		require.NoError(t, os.WriteFile(path, b, 0o644))
		s, _, err := Open(path, true)
		if err != nil {
			return err
		}
		term, err := s.GetUint64([]byte("term"))
		require.NoError(t, err)
		require.EqualValues(t, 4, term)
		vote, err := s.Get([]byte("vote"))
		require.NoError(t, err)
		require.Equal(t, "10.0.0.1:7381", string(vote))
		require.NoError(t, s.Close())
		repaired, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, whole[:length], repaired[:length])
		require.Equal(t, whole[slotSize:slotSize+length], repaired[slotSize:slotSize+length])
		return nil
	}
	for slot := range 2 {
		for at := range length {
			b := bytes.Clone(whole)
			b[slot*slotSize+at] ^= 1 << (at % 8)
			require.NoError(t, open(b), "slot %d at %d", slot, at)
		}
	}
	for range 300 { // anywhere
		b := bytes.Clone(whole)
		for range 1 + rand.IntN(40) {
			b[rand.IntN(2)*slotSize+rand.IntN(length)] ^= byte(1 + rand.IntN(255))
		}
		if err := open(b); err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "\n")
		}
	}
	require.ErrorIs(t, open(nil), ErrCorrupt)
	require.ErrorIs(t, open(make([]byte, len(whole))), ErrCorrupt)
	require.NoError(t, open(whole[:slotSize]))
	require.ErrorIs(t, open(whole[:length-1]), ErrCorrupt)
}

func TestVersion(t *testing.T) {
	_, path := newStore(t)
	b, err := encode(1, nil)
	require.NoError(t, err)
	b[len(magic)] = version + 1
	le.PutUint32(b[checksumAt:], checksum(b))
	b = append(b, make([]byte, slotSize-len(b))...)
	require.NoError(t, os.WriteFile(path, append(b, b...), 0o644))
	_, _, err = Open(path, true)
	require.ErrorIs(t, err, ErrVersion)
}

// A power loss at any moment leaves the values of the last change that was
// acknowledged, or of the one in progress.
func TestPowerLoss(t *testing.T) {
	const sector = 512
	rnd := rand.New(rand.NewPCG(1, 1))
	path := filepath.Join(t.TempDir(), "stable")
	copied := filepath.Join(t.TempDir(), "stable")
	var synced []byte
	acknowledged, changing, cuts := uint64(0), uint64(0), 0
	cut := func() {
		current, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		require.NoError(t, err)
		for range 20 {
			b := bytes.Clone(synced)
			for at := 0; at < len(b); at += sector {
				if rnd.IntN(2) == 0 {
					copy(b[at:at+sector], current[at:])
				}
			}
			require.NoError(t, os.WriteFile(copied, b, 0o644))
			s, _, err := Open(copied, true)
			require.NoError(t, err)
			n, err := s.GetUint64([]byte("n"))
			if changing > 1 || err == nil {
				require.NoError(t, err)
				require.Contains(t, []uint64{acknowledged, changing}, n)
				padding, err := s.Get([]byte("padding"))
				if !errors.Is(err, ErrNotFound) || n > 1 {
					require.NoError(t, err)
					require.Contains(t, []string{paddingOf(n), paddingOf(n - 1)}, string(padding))
				}
			}
			require.NoError(t, s.Close())
			cuts++
		}
	}
	s, _, err := open(path, func(f *os.File) error {
		cut()
		if f.Name() == filepath.Dir(path) {
			return nil
		}
		for _, name := range []string{path + ".new", path} { // it is renamed once
			if b, err := os.ReadFile(name); err == nil {
				synced = b
			}
		}
		return nil
	})
	require.NoError(t, err)
	for n := range uint64(20) {
		changing = n + 1
		require.NoError(t, s.SetUint64([]byte("n"), n+1))
		acknowledged = n + 1
		cut()
		require.NoError(t, s.Set([]byte("padding"), []byte(paddingOf(n+1)))) // several sectors
		cut()
	}
	require.Greater(t, cuts, 1000)
}

// A value that was put is there at once, and on the disk in one change with the
// next Set.
func TestPut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stable")
	syncs := 0
	s, _, err := open(path, func(*os.File) error { syncs++; return nil })
	require.NoError(t, err)
	onDisk := func() (term uint64, candidate string) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		copied := filepath.Join(t.TempDir(), "stable")
		require.NoError(t, os.WriteFile(copied, b, 0o644))
		c, _, err := Open(copied, true)
		require.NoError(t, err)
		defer c.Close()
		term, err = Number(c, []byte("term"))
		require.NoError(t, err)
		candidate, err = Text(c, []byte("candidate"))
		require.NoError(t, err)
		return term, candidate
	}
	var disk []string
	for term := range uint64(3) {
		syncs = 0
		require.NoError(t, s.PutUint64([]byte("term"), term+1))
		n, err := s.GetUint64([]byte("term"))
		require.NoError(t, err)
		require.Equal(t, term+1, n)
		n, _ = onDisk()
		require.Equal(t, term, n)
		require.Zero(t, syncs)
		s.sync = func(*os.File) error {
			syncs++
			n, candidate := onDisk()
			disk = append(disk, fmt.Sprint(n, candidate))
			return nil
		}
		require.NoError(t, s.Set([]byte("candidate"), fmt.Append(nil, "n", term+1)))
		require.Equal(t, 2, syncs)
	}
	require.Equal(t, []string{"1n1", "1n1", "2n2", "2n2", "3n3", "3n3"}, disk)
	s.sync = func(*os.File) error { return errClosed }
	require.ErrorIs(t, s.Set([]byte("candidate"), nil), errClosed)
	require.ErrorIs(t, s.PutUint64([]byte("term"), 9), errClosed)
	require.NoError(t, s.Close())
}

func paddingOf(n uint64) string { return fmt.Sprint(n, string(bytes.Repeat([]byte{byte(n)}, 2000))) }

// After a failed sync nobody knows what is on the disk. Nothing more is
// written, and the next process writes both slots again before it trusts them.
func TestFailedSync(t *testing.T) {
	s, path := newStore(t)
	require.NoError(t, s.SetUint64([]byte("term"), 1))
	broken := errors.New("broken")
	s.sync = func(*os.File) error { return broken }
	require.ErrorIs(t, s.SetUint64([]byte("term"), 2), broken)
	s.sync = func(*os.File) error { return nil }
	require.ErrorIs(t, s.SetUint64([]byte("term"), 3), broken)
	n, err := s.GetUint64([]byte("term"))
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.NoError(t, s.Close())

	disk, err := os.ReadFile(path) // what the system shows is not there yet
	require.NoError(t, err)
	clear(disk)
	s, _, err = open(path, func(f *os.File) error {
		shown, err := os.ReadFile(path)
		copy(disk, shown)
		return err
	})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	shown, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, shown, disk)
	syncs := 0
	_, _, err = open(path, func(*os.File) error { syncs++; return nil })
	require.NoError(t, err)
	require.Equal(t, 2, syncs)
	_, _, err = open(path, func(*os.File) error { return broken })
	require.ErrorIs(t, err, broken)
}

// FuzzOpen opens a file of arbitrary content: values that can be changed, or an
// error.
func FuzzOpen(f *testing.F) {
	b, err := encode(7, map[string][]byte{"term": {1, 0, 0, 0, 0, 0, 0, 0}, "vote": []byte("n1")})
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "stable")
		require.NoError(t, os.WriteFile(path, b, 0o644))
		s, _, err := Open(path, true)
		if err != nil {
			return
		}
		require.NoError(t, s.SetUint64([]byte("term"), 9))
		require.NoError(t, s.Close())
		s, _, err = Open(path, true)
		require.NoError(t, err)
		n, err := s.GetUint64([]byte("term"))
		require.NoError(t, err)
		require.EqualValues(t, 9, n)
		require.NoError(t, s.Close())
	})
}
