package wal

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// written returns how many bytes this process has written to files.
func written(t *testing.T) (n int64) {
	b, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	var read int64
	_, err = fmt.Sscanf(string(b), "rchar: %d\nwchar: %d", &read, &n)
	require.NoError(t, err)
	return n
}

// The last frame is written again at open: its sync may have failed, and then
// the system shows what the disk has not.
func TestOpenWritesTheLastFrameAgain(t *testing.T) {
	const size = 300 << 10
	r := newRig(t)
	r.fill(t, 1, 2, size)
	for range 2 {
		before := written(t)
		require.NoError(t, r.reopen())
		zeros := r.log.active().room - r.log.active().end
		require.InDelta(t, size+zeros, written(t)-before, 10<<10)
	}
}
