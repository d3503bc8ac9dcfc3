package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// The service that Envoy asks, which keeps its counters in Redis. Its releases are
// commits.
const (
	envoyModule  = "github.com/envoyproxy/ratelimit"
	envoyVersion = "v1.4.1-0.20260122083618-3fb702589d36"
)

// envoyServicePorts are those of the service in its own tests.
var envoyServicePorts = []string{"8082", "8083", "8084"}

// fetchEnvoy builds the service, and copies its sources, since its tests write
// beside them.
func fetchEnvoy(w *workshop, s *suite) error {
	if err := fetchGo(w, s); err != nil {
		return err
	}
	dir, err := w.goRoom(s)
	if err != nil {
		return err
	}
	source := filepath.Join(dir, "source")
	if _, err := os.Stat(source); err == nil {
		return nil
	}
	if err := w.install(dir, "go", "build", "-o", "ratelimit", envoyModule+"/src/service_cmd"); err != nil {
		return err
	}
	list, err := w.output(dir, "go", "list", "-m", "-f", "{{.Dir}}", envoyModule)
	if err != nil {
		return err
	}
	return os.CopyFS(source, os.DirFS(strings.TrimSpace(string(list))))
}

// runEnvoyTests runs the service's own integration tests. They start their
// servers by the name redis-server, on ports of their choice.
func runEnvoyTests(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.goRoom(s)
	if err != nil {
		return result{}, err
	}
	shim, err := os.MkdirTemp(dir, "bin")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(shim)
	if err := t.named(shim); err != nil {
		return result{}, err
	}
	out, err := w.test(ctx, filepath.Join(dir, "source"), []string{"PATH=" + shim + string(os.PathListSeparator) + os.Getenv("PATH")},
		"go", "test", "-json", "-count=1", "-tags=integration", "-run", "^("+strings.Join(s.tests, "|")+")$", "./test/integration")
	if err != nil {
		return result{}, err
	}
	return readGo(out)
}

// envoyMode is a way to set the service up.
type envoyMode struct {
	name    string
	env     []string
	cluster bool
}

var envoyModes = []envoyMode{
	{name: "single"},
	{name: "single, counting stops at a limit", env: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}},
	{name: "single, seconds apart", env: []string{"REDIS_PERSECOND=true"}},
	{name: "cluster", cluster: true},
	{name: "cluster, pipelines", cluster: true, env: []string{"REDIS_PIPELINE_WINDOW=150us"}},
}

// envoyLimits are the service's limits in the contract.
const envoyLimits = `domain: dropin
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 40}
  - key: address
    rate_limit: {unit: second, requests_per_unit: 5}
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 3}
`

// envoyService is a running service.
type envoyService struct {
	url   string // of /json
	redis string // host:port of the server that has its keys
	run   *subprocess.Process
	log   *logbuf.Buffer
}

// startEnvoy starts the service over a server, or over servers in a cluster, with
// the limits of the contract.
func startEnvoy(ctx context.Context, dir string, mode envoyMode, redis []string) (*envoyService, error) {
	return startEnvoyWith(ctx, dir, mode, redis, envoyLimits)
}

// startEnvoyWith starts it with a file of limits.
func startEnvoyWith(ctx context.Context, dir string, mode envoyMode, redis []string, limits string) (*envoyService, error) {
	runtime, err := os.MkdirTemp(dir, "runtime")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(runtime, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "dropin.yaml"), []byte(limits), 0o644); err != nil {
		return nil, err
	}
	addrs, err := subprocess.Addrs("127.0.0.1", 3)
	if err != nil {
		return nil, err
	}
	kind, url := "SINGLE", redis[0]
	if mode.cluster {
		kind, url = "CLUSTER", strings.Join(redis, ",")
	}
	cmd := subprocess.Command(filepath.Join(dir, "ratelimit"))
	cmd.Env = append(cmd.Env, "BACKEND_TYPE=redis", "LOG_LEVEL=ERROR", "DISABLE_STATS=true", "USE_STATSD=false", "EXPIRATION_JITTER_MAX_SECONDS=0",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE="+kind, "REDIS_URL="+url, "REDIS_POOL_SIZE=8",
		"REDIS_PERSECOND_SOCKET_TYPE=tcp", "REDIS_PERSECOND_TYPE="+kind, "REDIS_PERSECOND_URL="+url,
		"RUNTIME_ROOT="+runtime, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")
	for i, name := range []string{"", "GRPC_", "DEBUG_"} {
		host, port, err := net.SplitHostPort(addrs[i])
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, name+"HOST="+host, name+"PORT="+port)
	}
	cmd.Env = append(cmd.Env, mode.env...)
	s := &envoyService{url: "http://" + addrs[0] + "/json", redis: redis[0], log: new(logbuf.Buffer)}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if s.run, err = subprocess.Start(cmd); err != nil {
		return nil, err
	}
	for s.run.Running() && ctx.Err() == nil {
		if answer, err := s.ask(entry{"user", "nobody"}); err == nil && answer.OverallCode == "OK" {
			return s, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = s.run.Kill() // an error means that it has ended
	return nil, fmt.Errorf("the service does not answer\n%s", s.log)
}
