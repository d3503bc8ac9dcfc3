package hgtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// Node is one of the nodes of a cluster, before it is started.
type Node struct {
	ID      string // n1, n2 …
	Addr    string // of the Redis protocol, host:port as the four below
	Cluster string // for clients of Redis Cluster
	HTTP    string
	GRPC    string
	Peer    string
	Args    []string // of headgate
}

// Nodes plans n nodes that found a cluster on free ports. Each has its data in a
// directory below dir, which is made. args are further arguments of headgate
// serve, for all of them.
func Nodes(dir string, n int, args ...string) ([]Node, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 5*n)
	if err != nil {
		return nil, err
	}
	peers := addrs[4*n:]
	nodes := make([]Node, n)
	for i := range nodes {
		node := Node{ID: "n" + strconv.Itoa(i+1), Addr: addrs[i], HTTP: addrs[n+i], GRPC: addrs[2*n+i], Cluster: addrs[3*n+i], Peer: peers[i]}
		data := filepath.Join(dir, node.ID)
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, err
		}
		node.Args = append([]string{
			"serve", "--node-id", node.ID, "--data-dir", data, "--listen", node.Addr, "--cluster-listen", node.Cluster, "--peer-listen", node.Peer,
			"--bootstrap-expect", strconv.Itoa(n), "--join", strings.Join(peers, ","), "--http-listen", node.HTTP, "--grpc-listen", node.GRPC,
		}, args...)
		nodes[i] = node
	}
	return nodes, nil
}
