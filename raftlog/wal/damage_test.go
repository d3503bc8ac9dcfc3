package wal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// In a log that was closed in order, no damage counts as a torn write: a
// flipped bit in the last frame, many damaged frames, zeros for any number of
// frames.
func TestDamageAfterAClose(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	t.Parallel()
	r := newRig(t)
	r.fill(t, 1, 100, 100)
	require.NoError(t, r.log.Close())
	path := r.lastFile()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	frames, err := Frames(path)
	require.NoError(t, err)
	end := frames[len(frames)-1]
	refused := func(what string, b []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, b, 0o644))
		require.ErrorIs(t, r.open(), ErrCorrupt, what)
		require.ErrorContains(t, func() error { _, err := Open(r.opts); return err }(), filepath.Base(path))
	}
	for at := frames[len(frames)-2]; at < end; at++ {
		b := bytes.Clone(whole)
		b[at] ^= 1
		refused("one bit", b)
	}
	for _, n := range []int{1, 2, 40, 100} {
		from := frames[len(frames)-1-n]
		b := bytes.Clone(whole)
		for _, at := range frames[len(frames)-1-n : len(frames)-1] {
			b[at+40] ^= 1
		}
		refused("damaged frames", b)
		b = bytes.Clone(whole)
		for at := from; at < end; at++ {
			b[at] ^= 0xff
		}
		refused("nothing but damage", b)
		b = bytes.Clone(whole)
		clear(b[from:end])
		refused("zeros", b)
		b = bytes.Clone(whole)
		clear(b[from/sector*sector+sector : max(end, from/sector*sector+sector)])
		if !bytes.Equal(b, whole) {
			refused("sectors of zeros", b)
		}
	}
	b := bytes.Clone(whole)
	b[end+2*sector] = 1
	refused("something behind the end", b)
	closed, err := r.opts.Stable.Get(endKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole, 0o644))
	require.NoError(t, r.open())
	_, last := r.bounds(t)
	require.EqualValues(t, 100, last)
	r.fill(t, 101, 101, 100)
	require.NoError(t, r.log.Close())
	require.NoError(t, r.opts.Stable.Set(endKey, closed))
	require.ErrorIs(t, r.open(), ErrCorrupt, "more than what was closed")
}

// Without a close, a lost tail that reads as zeros looks like one that was
// never written. It is no longer than the frames after the last mark.
func TestMarkBoundsALostTail(t *testing.T) {
	r := newRig(t)
	r.log.opts.SegmentSize = 1 << 20
	r.fill(t, 1, 10*markEvery, 100)
	r.crash()
	path := r.lastFile()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	frames, err := Frames(path)
	require.NoError(t, err)
	end := frames[len(frames)-1]
	for _, n := range []int{markEvery + 1, 2 * markEvery, 10 * markEvery} {
		b := bytes.Clone(whole)
		clear(b[frames[len(frames)-1-n]:end])
		require.NoError(t, os.WriteFile(path, b, 0o644))
		require.ErrorIs(t, r.open(), ErrCorrupt, "%d frames", n)
	}
	b := bytes.Clone(whole)
	for at := markAt; at < framesAt; at++ {
		b[at] ^= 0xff
	}
	require.NoError(t, os.WriteFile(path, b, 0o644))
	require.NoError(t, r.open(), "a damaged mark harms nothing")
	_, last := r.bounds(t)
	require.EqualValues(t, 10*markEvery, last)
}

// Data that was there when the log was opened cannot be lost either.
func TestOpeningBoundsALostTail(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 10, 100)
	r.crash()
	require.NoError(t, r.open())
	r.fill(t, 11, 12, 100)
	r.crash()
	path := r.lastFile()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	frames, err := Frames(path)
	require.NoError(t, err)
	clear(whole[frames[9]:])
	require.NoError(t, os.WriteFile(path, whole, 0o644))
	require.ErrorIs(t, r.open(), ErrCorrupt)
}

// Whatever entries hold, a sector of a frame is not all zeros: only a write
// that broke off leaves such sectors.
func TestNoSectorOfZeros(t *testing.T) {
	r := newRig(t)
	for i := range uint64(50) {
		require.NoError(t, r.log.StoreLog(&raft.Log{Index: 1 + i, Data: make([]byte, 1000+i*8)}))
	}
	end := r.log.active().end
	b, err := os.ReadFile(r.lastFile())
	require.NoError(t, err)
	for at := int64(framesAt); at < end; at += alignment {
		require.False(t, allZero(b[at:at+alignment]), "at %d", at)
	}
}

// FuzzDamage damages a log that was closed in peace: it is what it was, or
// refused, and never shorter.
func FuzzDamage(f *testing.F) {
	const entries = 150
	dir := f.TempDir()
	stable := raft.NewInmemStore()
	opts := Options{Dir: dir, Stable: stable, NoSync: true, SegmentSize: 8 << 10}
	l, err := Open(opts)
	require.NoError(f, err)
	for i := range uint64(entries) {
		require.NoError(f, l.StoreLog(entry(1+i, 1, int(i*7%300))))
	}
	require.NoError(f, l.DeleteRange(1, 3))
	end := l.active().end
	require.NoError(f, l.Close())
	closed, err := stable.Get(endKey)
	require.NoError(f, err)
	numbers, err := list(dir)
	require.NoError(f, err)
	require.Greater(f, len(numbers), 2)
	original := map[uint64][]byte{}
	for _, n := range numbers {
		b, err := os.ReadFile(fileName(dir, n))
		require.NoError(f, err)
		original[n] = b[:min(len(b), 64<<10)] // the rest is zeros
	}
	last := numbers[len(numbers)-1]
	f.Add(uint8(0), uint32(end-1), uint16(1), uint8(0), true)
	f.Add(uint8(0), uint32(framesAt), uint16(end-framesAt), uint8(1), true)
	f.Add(uint8(0), uint32(sector), uint16(sector), uint8(2), false)
	f.Add(uint8(1), uint32(2000), uint16(100), uint8(3), false)
	f.Fuzz(func(t *testing.T, which uint8, at uint32, n uint16, how uint8, twice bool) {
		r := &rig{opts: opts}
		r.opts.Dir, r.opts.Stable = t.TempDir(), raft.NewInmemStore()
		require.NoError(t, r.opts.Stable.Set(endKey, closed))
		victim := numbers[len(numbers)-1-int(which)%len(numbers)]
		for number, b := range original {
			b = bytes.Clone(b)
			if number == victim {
				harm(b, int(at), int(n), how)
			}
			if twice && number == last {
				harm(b, int(at)+int(n)+int(how), int(n), how/4)
			}
			require.NoError(t, os.WriteFile(fileName(r.opts.Dir, number), b, 0o644))
			require.NoError(t, os.Truncate(fileName(r.opts.Dir, number), chunk))
		}
		if r.open() != nil {
			return
		}
		defer r.crash()
		first, last := r.bounds(t)
		require.Equal(t, [2]uint64{4, entries}, [2]uint64{first, last})
		for i := first; i <= last; i++ {
			var got raft.Log
			require.NoError(t, r.log.GetLog(i, &got))
			require.Equal(t, entry(i, 1, int((i-1)*7%300)).Data, got.Data)
		}
	})
}

// harm damages n bytes.
func harm(b []byte, at, n int, how uint8) {
	at %= len(b)
	b = b[at:min(at+n, len(b))]
	switch how % 4 {
	case 0:
		for i := range b {
			b[i] ^= 1 << (how >> 2 % 8)
		}
	case 1:
		clear(b)
	case 2:
		for i := range b {
			b[i] = how
		}
	case 3:
		copy(b, b[len(b)/2:])
	}
}
