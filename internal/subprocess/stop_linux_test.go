package subprocess_test

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// A process does nothing from the return of Signal on, until SIGCONT.
func TestSignalOfAStopWaitsForIt(t *testing.T) {
	p, err := subprocess.Start(subprocess.Command("sh", "-c", "while :; do :; done"))
	require.NoError(t, err)
	defer func() { _ = p.Kill() }()
	for range 100 {
		require.NoError(t, p.Signal(syscall.SIGSTOP))
		require.NoError(t, p.Signal(syscall.SIGSTOP), "it has stopped already")
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		require.NoError(t, err)
		_, state, ok := bytes.Cut(stat, []byte(") "))
		require.True(t, ok)
		require.Equal(t, "T", string(state[:1]))
		require.NoError(t, p.Signal(syscall.SIGCONT))
	}
	require.NoError(t, p.Kill())
	require.ErrorIs(t, p.Signal(syscall.SIGSTOP), os.ErrProcessDone)
}
