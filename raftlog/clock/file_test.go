package clock

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rig is a node's clock file with clocks that a test sets.
type rig struct {
	t          *testing.T
	dir        string
	wall, boot int64
	bootID     string
}

func newRig(t *testing.T) *rig {
	return &rig{t, t.TempDir(), int64(1_000_000 * time.Second), int64(time.Hour), "this boot"}
}

func (r *rig) open() *File {
	c, err := Open(r.dir, nil, slog.New(slog.DiscardHandler))
	require.NoError(r.t, err)
	c.wall, c.boot, c.bootID = func() int64 { return r.wall }, func() int64 { return r.boot }, r.bootID
	return c
}

// pass lets time pass; the wall clock is put right by repair meanwhile.
func (r *rig) pass(d, repair time.Duration) {
	r.boot += int64(d)
	r.wall += int64(d + repair)
}

// The time since boot counts, to the millisecond, whatever happens to the wall
// clock.
func TestClockFileOfThisBoot(t *testing.T) {
	r := newRig(t)
	require.Nil(t, r.open().Bound(), "without a file")
	const clock = int64(2_000_000 * time.Second)
	require.NoError(t, r.open().Save(clock, 7, false))
	r.pass(3*time.Hour, time.Hour)
	b := r.open().Bound()
	require.EqualValues(t, 7, b.Term())
	require.Equal(t, clock+int64(3*time.Hour)-slack, b.At(r.boot))

	// The first entry that is heard replaces it.
	b = b.Heard(7, clock+5, r.boot)
	require.Equal(t, clock+5, b.At(r.boot))

	r.boot = int64(time.Minute)
	require.Nil(t, r.open().Bound(), "the time since boot went back: it is of another boot, whatever the id says")
	r.boot, r.bootID = int64(2*time.Hour), "another boot"
	require.Nil(t, r.open().Bound())
	r.bootID = ""
	require.NoError(t, r.open().Save(clock, 7, false))
	require.Nil(t, r.open().Bound(), "a system that has no such id")
}

func TestClockFileIsWrittenWhenItTells(t *testing.T) {
	r := newRig(t)
	c := r.open()
	clock := r.wall + int64(time.Minute)
	written := func(change func()) bool {
		before, _ := c.Last()
		r.pass(time.Second, 0)
		clock += int64(time.Second)
		change()
		require.NoError(t, c.Save(clock, 1, false))
		after, _ := c.Last()
		stored, ok := r.open().Last()
		require.True(t, ok)
		require.Equal(t, after, stored)
		return before != after
	}
	require.True(t, written(func() {}))
	require.False(t, written(func() {}), "the differences are the same")
	require.False(t, written(func() { clock += slack / 2 }))
	require.True(t, written(func() { clock += slack }))
	require.True(t, written(func() { r.wall -= slack }))
	require.True(t, written(func() { r.boot += slack }))
	require.NoError(t, c.Save(clock, 2, false))
	s, _ := r.open().Last()
	require.EqualValues(t, 2, s.Term)
	require.False(t, s.Unset)
	require.NoError(t, c.Save(clock, 2, true))
	s, _ = r.open().Last()
	require.True(t, s.Unset, "that it is unset is worth a write")

	for _, content := range []string{"{torn", "", `{"offset_ns":5}`} {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, FileName), []byte(content), 0o644))
		_, ok := r.open().Last()
		require.False(t, ok, content)
	}
}
