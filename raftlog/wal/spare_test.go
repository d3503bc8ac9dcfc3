package wal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// awaitSpare waits until a spare that has been begun is ready or has failed.
func (r *rig) awaitSpare() {
	for r.log.spares.done != nil && len(r.log.spares.done) == 0 {
		time.Sleep(time.Millisecond)
	}
}

func spareFile(r *rig) string { return filepath.Join(r.opts.Dir, spareName) }

// The next segment is the spare, and appends to it write no zeros.
func TestSpareBecomesTheNextSegment(t *testing.T) {
	r := newRig(t)
	r.opts.SegmentSize = 3*chunk - 100
	require.NoError(t, r.reopen())
	r.fill(t, 1, 3, 100<<10)
	require.NoFileExists(t, spareFile(r), "little is written here")
	r.fill(t, 4, 6, 100<<10)
	r.awaitSpare()
	require.FileExists(t, spareFile(r))

	r.fill(t, 7, 12, 100<<10)
	require.NoFileExists(t, spareFile(r))
	require.Len(t, r.log.segments, 2, "rather than write zeros")
	require.EqualValues(t, 3*chunk, r.log.active().room)

	syncs := 0
	r.log.sync = func(*os.File) error { syncs++; return nil }
	r.fill(t, 13, 30, 100<<10)
	require.Len(t, r.log.segments, 2)
	require.Equal(t, 18, syncs, "one for each append")

	r.awaitSpare()
	require.NoError(t, r.log.Close())
	require.NoFileExists(t, spareFile(r))
	require.NoError(t, r.open())
	for i := uint64(1); i <= 30; i++ {
		var e raft.Log
		require.NoError(t, r.log.GetLog(i, &e))
		require.Equal(t, entry(i, 1, 100<<10).Data, e.Data)
	}
}

// What a crash leaves of a spare is in nobody's way.
func TestUnfinishedSpareIsRemoved(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 3, 100)
	require.NoError(t, os.WriteFile(spareFile(r), []byte("anything"), 0o644))
	require.NoError(t, r.reopen())
	require.NoFileExists(t, spareFile(r))
}

// A spare that the disk has no room for is not missed.
func TestLogGoesOnWithoutASpare(t *testing.T) {
	r := newRig(t)
	r.log.spares.sync = func(*os.File) error { return errors.New("no space left on device") }
	for i := uint64(1); i <= 100; i++ {
		r.fill(t, i, i, 10<<10)
		r.awaitSpare()
		require.NoFileExists(t, spareFile(r))
	}
	require.Greater(t, len(r.log.segments), 10)
	require.NoError(t, r.reopen())
	_, last := r.bounds(t)
	require.EqualValues(t, 100, last)
}

// Closing does not wait for a spare to be finished.
func TestCloseEndsTheSpare(t *testing.T) {
	r := newRig(t)
	r.opts.SegmentSize = 1000 * chunk
	require.NoError(t, r.reopen())
	r.fill(t, 1, 1, chunk*3/4)
	begin := time.Now()
	require.NoError(t, r.log.Close())
	require.Less(t, time.Since(begin), 10*time.Second, "1000 pauses are 25 s")
	require.NoFileExists(t, spareFile(r))
}
