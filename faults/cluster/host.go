package cluster

import (
	"fmt"
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
