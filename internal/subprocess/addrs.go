package subprocess

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports that are given out come in blocks, and are below those that the
// system gives to connections: Linux gives out 32768 and up.
const (
	firstPort  = 10_000
	blockPorts = 500
	blocks     = 44
)

// block is the ports that this process gives out, in turn. It listens on the
// first one until it ends, so that no other process takes the same block. A port
// stays reserved before its server starts, and while the server is down.
type block struct {
	// mu guards the fields below.
	mu    sync.Mutex
	guard net.Listener // on the first port, nil while there is no block
	first int
	given int // ports that have been tried, around and around
}

// own is the block of this process.
var own block

// Addrs returns n different addresses of a host of this machine that nobody
// listens on, n below blockPorts. While this process lives, no other process is
// given their ports. This process reuses a port only after all others of its
// block, so a server that starts later, or again, finds its port free.
func Addrs(host string, n int) ([]string, error) { return own.addrs(host, n) }

func (b *block) addrs(host string, n int) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.guard == nil {
		if err := b.take(); err != nil {
			return nil, err
		}
	}
	var addrs []string
	why := errors.New("too many at a time")
	for tries := 0; len(addrs) < n; tries++ {
		if tries == blockPorts-1 { // else a port would come twice
			return nil, fmt.Errorf("find %d free ports: %w", n, why)
		}
		port := b.first + 1 + b.given%(blockPorts-1)
		b.given++
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			why = err
			continue
		}
		ln.Close()
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// take finds a block that no process has. It must be called with mu held.
func (b *block) take() error {
	var why error
	for i, start := 0, rand.IntN(blocks); i < blocks; i++ {
		b.first = firstPort + (start+i)%blocks*blockPorts
		if b.guard, why = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(b.first))); why == nil {
			return nil
		}
	}
	return fmt.Errorf("find a block of ports that no process has: %w", why)
}
