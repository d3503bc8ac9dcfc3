package disk

import (
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// Applied entries may be dropped from memory, and only a snapshot that reaches
// the rest ends the tail.
func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	data := make([]byte, 1<<20)
	disk := raft.NewInmemStore()
	require.NoError(t, disk.StoreLogs([]*raft.Log{{Index: 9}, {Index: 10}}))
	s := &Log{inner: disk, logger: slog.New(slog.DiscardHandler)}
	tail := &s.tail
	add := func(from, to, applied uint64) {
		for i := from; i <= to; i++ {
			tail.add([]*raft.Log{{Index: i, Data: data}}, applied)
		}
	}
	add(11, 200, 50)
	first, last := tail.bounds()
	require.Equal(t, []uint64{51, 200}, []uint64{first, last}, "what is not applied stays")
	add(201, 201, 200)
	first, last = tail.bounds()
	require.Equal(t, []uint64{138, 201}, []uint64{first, last})
	require.EqualValues(t, tailBytes, tail.bytes)

	tail.since.Store(1)
	var l raft.Log
	var err error
	require.NoError(t, s.GetLog(138, &l))
	require.ErrorIs(t, s.GetLog(137, &l), raft.ErrLogNotFound)
	require.NoError(t, s.end(136))
	_, full := s.tail.exists()
	require.True(t, full, "entry 137 is nowhere")
	require.NoError(t, s.end(137))
	_, full = s.tail.exists()
	require.False(t, full)
	first, err = s.FirstIndex()
	require.NoError(t, err)
	last, err = s.LastIndex()
	require.NoError(t, err)
	require.Equal(t, []uint64{138, 201}, []uint64{first, last})
}
