package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/redisserver"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// suite is the tests of one library.
type suite struct {
	library string
	version string
	what    string // which tests
	// port is the one of the loopback interface that the tests insist on; 0 is
	// none: they are told.
	port  string
	fetch func(*workshop, *suite) error
	// run executes the tests against a server.
	run func(ctx context.Context, w *workshop, s *suite, addr string) (result, error)

	// Of suites in Go: the packages whose tests are run, and which.
	packages []string
	// tests selects tests: of Go by a pattern of -run, else by file, with
	// arguments of the test runner. Of Python the first is the directory.
	tests []string
	// plugin is a module of ours that pytest loads.
	plugin string
}

// suiteTimeout bounds one run: a suite that hangs has failed.
const suiteTimeout = 5 * time.Minute

// suites are what is run, in the order of the table.
var suites = []suite{
	{
		library: "redis_rate", version: "v10.0.1", what: "its own: rate_test.go", port: "6379",
		fetch: fetchGo, run: runGo, packages: []string{"github.com/go-redis/redis_rate/v10"},
	},
	{
		library: "ulule/limiter", version: "v3.11.2", what: "its own: drivers/store/redis",
		fetch: fetchGo, run: runGo, packages: []string{"github.com/ulule/limiter/v3/drivers/store/redis"},
	},
	{
		library: "throttled", version: "v2.15.0", what: "its own: goredisstore.v9, redigostore", port: "6379",
		fetch: fetchGo, run: runGo, packages: []string{
			"github.com/throttled/throttled/v2/store/goredisstore.v9", "github.com/throttled/throttled/v2/store/redigostore",
		},
	},
	{
		library: "go-redisstore", version: "v0.3.0", what: "its own: store_test.go",
		fetch: fetchGo, run: runGo, packages: []string{"github.com/sethvargo/go-redisstore"}, tests: []string{"TestStore"},
	},
	{
		library: "@fastify/rate-limit", version: "11.2.0", what: "its own: redis-rate-limit.test.js", port: "6379",
		fetch: fetchNode, run: runNode, tests: []string{"node_modules/@fastify/rate-limit/test/redis-rate-limit.test.js"},
	},
	{
		library: "limits", version: "5.8.0", what: "its own: strategies and storage on Redis", port: "7379",
		fetch: fetchPython, run: runPython, plugin: "limits_services", tests: []string{
			// Its settings turn warnings of newer test runners into errors.
			"limits-5.8.0", "-p", "no:pytest-retry", "-W", "ignore", "--no-cov", "-m", "redis", "tests",
		},
	},
	{
		library: "pyrate-limiter", version: "4.5.1", what: "its own: those of its Redis buckets", port: "6379",
		fetch: fetchPython, run: runPython, tests: []string{"pyrate_limiter-4.5.1", "-p", "no:flaky", "-m", "redis or asyncredis", "tests"},
	},
	contract("rate-limiter-flexible", "11.4.0", "rate-limiter-flexible.test.mjs"),
	contract("rate-limit-redis", "6.0.1", "rate-limit-redis.test.mjs"),
	contract("koa-ratelimit", "6.0.0", "koa-ratelimit.test.mjs"),
	contract("async-ratelimiter", "1.6.10", "async-ratelimiter.test.mjs"),
	{
		library: "fastapi-limiter", version: "0.1.6", what: "a contract of ours: the package has no tests",
		fetch: fetchPython, run: runPython, tests: []string{".", "test_fastapi_limiter.py"},
	},
}

// contract is a suite of ours through a Node library whose package carries no
// tests.
func contract(library, version, file string) suite {
	return suite{
		library: library, version: version, what: "a contract of ours: the package has no tests",
		fetch: fetchNode, run: runNode, tests: []string{file},
	}
}

// server is what a suite is run against.
type server struct {
	name  string
	start func(addr string) (stop func() error, err error)
}

var servers = []server{
	{"Redis", func(addr string) (func() error, error) {
		s, err := redisserver.Start(addr)
		if err != nil {
			return nil, err
		}
		return s.Stop, nil
	}},
	{"Headgate", func(addr string) (func() error, error) {
		s, err := hgtest.Start(hgtest.Config{Addr: addr})
		if err != nil {
			return nil, err
		}
		return s.Stop, nil
	}},
}

// against runs the suite against a server that is started for it.
func (s *suite) against(w *workshop, sv server) (res result, err error) {
	addr := net.JoinHostPort("127.0.0.1", s.port)
	if s.port == "" {
		addrs, err := subprocess.Addrs("127.0.0.1", 1)
		if err != nil {
			return res, err
		}
		addr = addrs[0]
	} else if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		c.Close()
		return res, fmt.Errorf("the suite insists on port %s, and somebody listens there", s.port)
	}
	stop, err := sv.start(addr)
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), suiteTimeout)
	defer cancel()
	res, err = s.run(ctx, w, s, addr)
	if stopped := stop(); stopped != nil {
		// A server that crashes has failed the tests, whatever they say.
		res.failed = append(res.failed, stopped.Error())
	}
	return res, err
}

// result is how the tests of a suite ended.
type result struct {
	passed, failed []string
	skipped        []string // by the suite itself
}

func (r result) String() string {
	if len(r.failed) == 0 {
		return fmt.Sprintf("%d of %d passed", len(r.passed), len(r.passed))
	}
	return fmt.Sprintf("%d of %d passed; failed:\n    %s", len(r.passed), len(r.passed)+len(r.failed), strings.Join(r.failed, "\n    "))
}

// row is a suite and its results against each of the servers.
type row struct {
	*suite
	results []result
}

// tests returns how many tests ran against at least one server: a suite may
// skip those whose server does not answer as it expects.
func (r *row) tests() int {
	var names []string
	for _, res := range r.results {
		names = append(append(names, res.passed...), res.failed...)
	}
	slices.Sort(names)
	return len(slices.Compact(names))
}

// worse reports whether a test that passed against Redis did not pass against
// Headgate.
func (r *row) worse() bool {
	return slices.ContainsFunc(r.results[0].passed, func(name string) bool { return !slices.Contains(r.results[1].passed, name) })
}
