package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/redisserver"
	"github.com/headgate-io/headgate/internal/respclient"
)

// server is what a suite is run against.
type server struct {
	name string
	// start starts one on an address.
	start func(addr string) (stop func() error, err error)
	// cluster starts servers for clients of Redis Cluster. It returns their
	// addresses; the first server has the keys.
	cluster func(ctx context.Context) (addrs []string, stop func() error, err error)
	// named puts a program redis-server into a directory, for tests that start
	// their servers by that name.
	named func(dir string) error
	// nodes starts three nodes, those of n with index i.
	nodes func(ctx context.Context, dir string, n *envoyNodes, i int, stops *stops) error
}

var servers = []*server{
	{name: "Redis", start: startRedis, cluster: startRedisCluster, named: func(string) error { return nil }, nodes: startRedisNodes},
	{name: "Headgate", start: startHeadgate, cluster: startHeadgateCluster, named: nameHeadgate, nodes: startHeadgateNodes},
}

func startRedis(addr string) (func() error, error) {
	s, err := redisserver.Start(addr, "--enable-debug-command", "yes")
	if err != nil {
		return nil, err
	}
	return s.Stop, nil
}

// startRedisCluster starts one server that has all slots.
func startRedisCluster(ctx context.Context) (addrs []string, stop func() error, err error) {
	s, err := redisserver.Start("", "--cluster-enabled", "yes")
	if err != nil {
		return nil, nil, err
	}
	_, err = respclient.Do(s.Addr, time.Second, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	for err == nil {
		var state string
		if state, err = clusterState(s.Addr); state == "ok" {
			return []string{s.Addr}, s.Stop, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			err = fmt.Errorf("no cluster: %w", ctx.Err())
		}
	}
	return nil, nil, fmt.Errorf("%w (%v)", err, s.Stop())
}

func startHeadgate(addr string) (func() error, error) {
	s, err := hgtest.Start(hgtest.Config{Addr: addr})
	if err != nil {
		return nil, err
	}
	return s.Stop, nil
}

func startHeadgateCluster(context.Context) (addrs []string, stop func() error, err error) {
	c, err := hgtest.StartCluster()
	if err != nil {
		return nil, nil, err
	}
	leader, err := c.Leader()
	if err != nil {
		return nil, nil, fmt.Errorf("%w (%v)", err, c.Stop())
	}
	addrs = []string{leader.Addr}
	for _, addr := range c.Addrs() {
		if addr != leader.Addr {
			addrs = append(addrs, addr)
		}
	}
	return addrs, c.Stop, nil
}

// standIn starts Headgate with what arguments of redis-server say.
const standIn = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	--port) port=$2 ;;
	--requirepass) export HEADGATE_REQUIREPASS="$2" ;;
	*) echo "redis-server: unknown argument $1" >&2; exit 1 ;;
	esac
	shift 2
done
exec '%s' serve --listen "127.0.0.1:$port" --http-listen ''
`

func nameHeadgate(dir string) error {
	bin, err := hgtest.Binary()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "redis-server"), fmt.Appendf(nil, standIn, bin), 0o755)
}
