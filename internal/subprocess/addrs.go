package subprocess

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Addrs returns n different addresses of a host of this machine that nobody
// listens on. Their ports are below those that the system gives to connections,
// so that a server that starts later, or once more, finds them free still.
func Addrs(host string, n int) ([]string, error) {
	const first, count = 10_000, 22_000 // Linux gives out 32768 and up
	var addrs []string
	for tries := 0; len(addrs) < n; tries++ {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+rand.IntN(count))))
		if err != nil {
			if tries < n+100 {
				continue
			}
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer ln.Close() // together, so that no port comes twice
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}
