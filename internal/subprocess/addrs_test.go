package subprocess_test

import (
	"net"
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
