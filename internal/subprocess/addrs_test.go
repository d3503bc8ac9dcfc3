package subprocess_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
)

func TestAddrs(t *testing.T) {
	addrs, err := subprocess.Addrs("127.0.0.1", 100)
	require.NoError(t, err)
	require.Len(t, addrs, 100)
	for _, a := range addrs {
		ln, err := net.Listen("tcp", a)
		require.NoError(t, err, "taken, or given twice")
		defer ln.Close()
		require.Less(t, ln.Addr().(*net.TCPAddr).Port, 32_768)
	}
	_, err = subprocess.Addrs("192.0.2.1", 1)
	require.ErrorContains(t, err, "192.0.2.1", "no host of this machine")
}

// addrsWanted is set for a process that prints addresses and waits until its
// standard input ends.
const addrsWanted = "SUBPROCESS_TEST_ADDRS"

// A port that one process was given goes to no other, even if nobody listens
// there yet.
func TestProcessesAreGivenDifferentAddrs(t *testing.T) {
	const processes, each = 4, 300
	if os.Getenv(addrsWanted) != "" {
		for range each / 3 {
			addrs, err := subprocess.Addrs("127.0.0.1", 3)
			require.NoError(t, err)
			fmt.Println("given", strings.Join(addrs, " "))
		}
		fmt.Println("done")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	given := map[string]bool{}
	for range processes {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), addrsWanted+"=1")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer func() {
			in.Close()
			require.NoError(t, cmd.Wait())
		}()
		count := 0
		for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "done"; {
			list, ok := strings.CutPrefix(lines.Text(), "given ")
			require.True(t, ok, lines.Text())
			for _, addr := range strings.Fields(list) {
				require.False(t, given[addr], "%s is given twice", addr)
				given[addr] = true
				count++
			}
		}
		require.Equal(t, each, count)
	}
}
