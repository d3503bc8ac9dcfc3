package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// suite is the tests of one library.
type suite struct {
	library string
	version string
	what    string // which tests
	// port is the one of the loopback interface that the tests insist on; empty
	// is none: they are told.
	port string
	// ports are further ones that they, or the servers that they start, listen on.
	ports []string
	// own is whether the package is run outside of the others.
	own   bool
	fetch func(*workshop, *suite) error
	// run executes the tests against a server.
	run func(ctx context.Context, w *workshop, s *suite, t target) (result, error)

	// tries is how often failed tests may run in total, where they measure times that a
	// busy machine does not keep; 0 is 1.
	tries int
	// needs must be on this machine: no registry brings it.
	needs []need
	// room is the directory of packages of a suite in Node.
	room string
	// env are further variables of the environment that it runs in.
	env []string
	// Of suites in Go: the packages whose tests are run, and which.
	packages []string
	// tests selects tests: of Go by a pattern of -run, else by file, with
	// arguments of the test runner. Of Python the first is the directory.
	tests []string
	// plugin is a module of ours that pytest loads.
	plugin string
	// allowed are tests that fail against Headgate, and notRun those of Redis that are
	// left out, since they would spoil others or wait for ever. All count as failed, and
	// are no surprise; docs/drop-in-tests.md has the reasons.
	allowed, notRun []allowance
	// alone is whether Redis does not have what is tested: then each test must pass
	// against Headgate.
	alone bool
}

// suiteTimeout bounds one run of a suite.
const suiteTimeout = 5 * time.Minute

// busy returns an error for each port that suites insist on and somebody has.
func busy(suites []suite) error {
	var errs []error
	seen := map[string]bool{"": true}
	for i := range suites {
		s := &suites[i]
		for _, port := range append(slices.Clip(s.ports), s.port) {
			if seen[port] {
				continue
			}
			seen[port] = true
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s needs port %s: %w", s.library, port, err))
				continue
			}
			l.Close()
		}
	}
	return errors.Join(errs...)
}

// target is where a suite finds the server that it is run against.
type target struct {
	*server
	addr string // host:port of a server that runs
}

// against runs the suite against a server that is started for it.
func (s *suite) against(w *workshop, sv *server) (res result, err error) {
	addr := net.JoinHostPort("127.0.0.1", s.port)
	if s.port == "" {
		addrs, err := subprocess.Addrs("127.0.0.1", 1)
		if err != nil {
			return res, err
		}
		addr = addrs[0]
	}
	for try := 0; ; try++ {
		again, err := s.once(w, sv, addr)
		if err != nil {
			return res, err
		}
		if res = res.merge(again); len(res.failed) == 0 || try >= s.tries-1 {
			return res, nil
		}
	}
}

// once runs the suite one time.
func (s *suite) once(w *workshop, sv *server, addr string) (res result, err error) {
	stop, err := sv.start(addr)
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), suiteTimeout)
	defer cancel()
	res, err = s.run(ctx, w, s, target{sv, addr})
	if stopped := stop(); stopped != nil {
		// A server that crashes has failed the tests, whatever they say.
		res.failed = append(res.failed, stopped.Error())
	}
	return res, err
}

// result is how the tests of a suite ended.
type result struct {
	passed, failed []string
	skipped        []string // by the suite itself, or as notRun
}

// merge returns what has passed in one of two runs, and what has not.
func (r result) merge(again result) result {
	sum := result{passed: slices.Clone(r.passed)}
	for _, name := range again.passed {
		if !slices.Contains(sum.passed, name) {
			sum.passed = append(sum.passed, name)
		}
	}
	for _, name := range slices.Concat(r.failed, again.failed) {
		if !slices.Contains(sum.passed, name) && !slices.Contains(sum.failed, name) {
			sum.failed = append(sum.failed, name)
		}
	}
	for _, name := range slices.Concat(r.skipped, again.skipped) {
		if !slices.Contains(sum.skipped, name) {
			sum.skipped = append(sum.skipped, name)
		}
	}
	return sum
}

func (r result) String() string {
	return fmt.Sprintf("%d of %d passed", len(r.passed), len(r.passed)+len(r.failed))
}

// row is a suite and its results against each of the servers.
type row struct {
	*suite
	results []result
	why     string // it was not run; empty if it was
}

// tests returns the tests that ran against at least one server: a suite may
// skip those whose server does not answer as it expects.
func (r *row) tests() []string {
	var names []string
	for _, res := range r.results {
		names = append(append(names, res.passed...), res.failed...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
