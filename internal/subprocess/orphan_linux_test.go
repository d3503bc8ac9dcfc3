package subprocess_test

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// A process does not outlive its parent, even if that is killed.
func TestOrphan(t *testing.T) {
	const parent = "SUBPROCESS_TEST_PARENT"
	if os.Getenv(parent) != "" {
		cmd := subprocess.Command("sh", "-c", "echo ready; exec sleep 60")
		cmd.Stdout = os.Stdout
		p, err := subprocess.Start(cmd)
		require.NoError(t, err)
		_ = p.Wait()
		return
	}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	cmd := subprocess.Command(os.Args[0], "-test.run=^TestOrphan$")
	cmd.Env = append(cmd.Env, parent+"=1")
	cmd.Stdout = write
	p, err := subprocess.Start(cmd)
	require.NoError(t, err)
	require.NoError(t, write.Close())
	line := make([]byte, len("ready\n"))
	_, err = io.ReadFull(read, line)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(line))

	require.NoError(t, p.Kill())
	require.NoError(t, read.SetReadDeadline(time.Now().Add(timeout)))
	_, err = io.Copy(io.Discard, read) // until nobody holds the other end
	require.NoError(t, err)
}
