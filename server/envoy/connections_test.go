package envoy

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// flood is a connection that always has more to be read.
type flood struct{ net.Conn }

func (flood) Read(b []byte) (int, error) { return len(b), nil }

// Between the pieces of a flood others run, though its connection never has to wait.
func TestFloodsLetOthersGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turns atomic.Int64
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				turns.Add(1)
				runtime.Gosched()
			}
		}
	}()
	const pieces = 1000
	c, b := &connection{Conn: flood{}}, make([]byte, 32<<10)
	for range pieces {
		n, err := c.Read(b)
		require.NoError(t, err)
		require.Equal(t, readPiece, n)
	}
	require.Greater(t, turns.Load(), int64(pieces/2))
}
