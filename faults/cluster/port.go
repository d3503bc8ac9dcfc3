package cluster

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// hosts numbers the loopback addresses that this process has given out.
var hosts atomic.Uint32

// host returns a loopback address of its own for a node, so that nothing else takes its ports while it is down.
func host() string {
	n := uint32(os.Getpid())<<6 + hosts.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 64+n>>16%128, n>>8%256, 1+n%254)
}

// ports returns n different addresses with free ports on a host.
func ports(host string, n int) ([]string, error) {
	var addrs []string
	for range n {
		ln, err := net.Listen("tcp", host+":0")
		if err != nil {
			return nil, err
		}
		defer ln.Close() // together, so that no port comes twice
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}
