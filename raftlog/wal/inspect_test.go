package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// TestEntriesOfAStoppedLog: all that was written is seen, also what was deleted, in every
// segment, and nothing is changed.
func TestEntriesOfAStoppedLog(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 40, 5000)
	require.Greater(t, len(r.log.segments), 1)
	require.NoError(t, r.log.DeleteRange(31, 40))
	for i := uint64(31); i <= 35; i++ {
		require.NoError(t, r.log.StoreLog(entry(i, 2, 100)))
	}
	r.crash()
	path := r.lastFile()
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	var seen []string
	want := func(to uint64, term uint64) {
		for i := uint64(len(seen)) + 1; i <= to; i++ {
			seen = append(seen, fmt.Sprint(i, ":", term))
		}
	}
	want(40, 1)
	for i := 31; i <= 35; i++ {
		seen = append(seen, fmt.Sprint(i, ":", 2))
	}
	read := func() (got []string) {
		require.NoError(t, Entries(r.opts.Dir, func(l *raft.Log) error {
			size := 5000
			if l.Term == 2 {
				size = 100
			}
			require.Equal(t, entry(l.Index, l.Term, size), l)
			got = append(got, fmt.Sprint(l.Index, ":", l.Term))
			return nil
		}))
		return got
	}
	require.Equal(t, seen, read())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)

	// A torn last write is left out; an error of fn comes back.
	at, err := Frames(path)
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, at[len(at)-1]-at[len(at)-2]), at[len(at)-2])
	require.NoError(t, errors.Join(err, f.Close()))
	require.Equal(t, seen[:len(seen)-1], read())
	require.ErrorIs(t, Entries(r.opts.Dir, func(*raft.Log) error { return io.ErrClosedPipe }), io.ErrClosedPipe)
}
