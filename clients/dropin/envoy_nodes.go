package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/redisserver"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// envoyPassword is the one that the service's tests expect.
const envoyPassword = "password123"

// envoyNodes is what one of the service's tests expects to run: three nodes for all
// limits, and three for those by the second.
type envoyNodes struct {
	test  string
	ports [2][3]string
	// masters are the ports of the servers that sentinels tell of, of Redis; without
	// them the nodes are a Redis Cluster.
	masters [2]string
}

var envoyTopologies = []envoyNodes{
	{test: "TestBasicAuthConfigWithRedisCluster", ports: [2][3]string{{"6386", "6387", "6388"}, {"6389", "6390", "6391"}}},
	{test: "TestBasicAuthConfigWithRedisSentinel", ports: [2][3]string{{"26394", "26395", "26396"}, {"26399", "26400", "26401"}}, masters: [2]string{"6392", "6397"}},
}

// envoyNodePorts are those of all nodes, and of the buses of Redis Cluster, which are
// 10,000 above its nodes'.
func envoyNodePorts() (ports []string) {
	for _, n := range envoyTopologies {
		for i, nodes := range n.ports {
			ports = append(ports, nodes[:]...)
			if n.masters[i] != "" {
				ports = append(ports, n.masters[i])
				continue
			}
			ports = append(ports, of("1", nodes[:]...)...)
		}
	}
	return ports
}

// runEnvoyNodes runs the service's integration tests over Redis Cluster and Sentinel.
func runEnvoyNodes(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.goRoom(s)
	if err != nil {
		return result{}, err
	}
	var all result
	for _, n := range envoyTopologies {
		res, err := n.run(ctx, w, filepath.Join(dir, "source"), t.server)
		if err != nil {
			return all, fmt.Errorf("%s: %w", n.test, err)
		}
		all = all.merge(res)
	}
	return all, nil
}

func (n *envoyNodes) run(ctx context.Context, w *workshop, source string, sv *server) (res result, err error) {
	dir, err := os.MkdirTemp(w.dir, "nodes")
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(dir)
	var stops stops
	defer func() { err = errors.Join(err, stops.stop()) }()
	for i := range n.ports {
		if err := sv.nodes(ctx, filepath.Join(dir, fmt.Sprint(i)), n, i, &stops); err != nil {
			return res, err
		}
	}
	// The nodes of Headgate are their own sentinels, and ask for the same password.
	env := []string{"REDIS_SENTINEL_AUTH=" + envoyPassword, "REDIS_PERSECOND_SENTINEL_AUTH=" + envoyPassword}
	out, err := w.test(ctx, source, env, "go", "test", "-json", "-count=1", "-tags=integration", "-run", "^"+n.test+"$", "./test/integration")
	if err != nil {
		return res, err
	}
	return readGo(out)
}

// stops are how to stop what has been started.
type stops []func() error

func (s stops) stop() error {
	var errs []error
	for _, stop := range s {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

func startRedisNodes(ctx context.Context, dir string, n *envoyNodes, i int, stops *stops) error {
	if n.masters[i] != "" {
		return startSentinels(dir, n, i, stops)
	}
	args := []string{"-a", envoyPassword, "--cluster", "create", "--cluster-yes"}
	for _, port := range n.ports[i] {
		s, err := redisserver.Start("127.0.0.1:"+port, "--requirepass", envoyPassword, "--cluster-enabled", "yes")
		if err != nil {
			return err
		}
		*stops = append(*stops, s.Stop)
		args = append(args, s.Addr)
	}
	if out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("redis-cli %q: %w\n%s", args, err, out)
	}
	return nil
}

// startSentinels starts a server and three sentinels that tell of it.
func startSentinels(dir string, n *envoyNodes, i int, stops *stops) error {
	master, err := redisserver.Start("127.0.0.1:"+n.masters[i], "--requirepass", envoyPassword)
	if err != nil {
		return err
	}
	*stops = append(*stops, master.Stop)
	for _, port := range n.ports[i] {
		room := filepath.Join(dir, port)
		if err := os.MkdirAll(room, 0o755); err != nil {
			return err
		}
		config := filepath.Join(room, "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nrequirepass %s\nsentinel monitor mymaster 127.0.0.1 %s 2\nsentinel auth-pass mymaster %[3]s\n", port, room, envoyPassword, n.masters[i])
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return err
		}
		log := new(logbuf.Buffer)
		cmd := subprocess.Command("redis-server", config, "--sentinel")
		cmd.Stdout, cmd.Stderr = log, log
		run, err := subprocess.Start(cmd)
		if err != nil {
			return err
		}
		*stops = append(*stops, run.Kill)
	}
	return nil
}

func startHeadgateNodes(ctx context.Context, dir string, n *envoyNodes, i int, stops *stops) error {
	secret := filepath.Join(dir, "peer.secret")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(secret, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return err
	}
	nodes, err := hgtest.Nodes(dir, len(n.ports[i]), "--on-failure", "closed", "--peer-secret-file", secret)
	if err != nil {
		return err
	}
	var running []*hgtest.Server
	for k, node := range nodes {
		addr := "127.0.0.1:" + n.ports[i][k]
		s, err := hgtest.Start(hgtest.Config{Addr: addr, Password: envoyPassword, Args: append(node.Args[1:], "--listen", addr)})
		if err != nil {
			return err
		}
		s.HTTP = node.HTTP
		*stops = append(*stops, s.Stop)
		running = append(running, s)
	}
	for len(running) > 0 {
		if res, err := http.Get("http://" + running[0].HTTP + "/readyz"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				running = running[1:]
				continue
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", running[0].Addr, ctx.Err())
		}
	}
	return nil
}
