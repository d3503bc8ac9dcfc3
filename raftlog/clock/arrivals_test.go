package clock

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// The tail of an old log, which a leader hands on after all nodes were down,
// says nothing about the time since.
func TestAnOldTailIsNotNew(t *testing.T) {
	var a Arrivals
	const now = int64(time.Hour)
	run := func(first, last, term uint64) (logs []*raft.Log) {
		for i := first; i <= last; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: term})
		}
		return logs
	}
	arrived := func(index uint64) bool {
		at, ok := a.Of(index)
		require.Equal(t, ok, at == now)
		return ok
	}
	a.Note(append(run(1, 20, 1), run(21, 23, 2)...), 2, now)
	require.False(t, arrived(1))
	require.False(t, arrived(20))
	require.True(t, arrived(21))
	require.True(t, arrived(23))
	require.False(t, arrived(24))

	a.Note(run(22, 22, 2), 3, now)
	require.False(t, arrived(22), "what it replaces does not count")
	for i := range uint64(arrivalsKept) {
		a.Note(run(100+i, 100+i, 3), 3, now)
	}
	require.True(t, arrived(100))
	require.False(t, arrived(21), "forgotten")
}
