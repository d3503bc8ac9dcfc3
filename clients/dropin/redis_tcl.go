package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// # Redis's own tests
//
// The tests of Redis are scripts in Tcl, a unit each, which can be run against a
// server that they have not started. Each unit gets a new server. Tests that go by
// how Redis stores or replicates are left out for both servers, as the suite's own
// options and tags have it. Against Headgate those in notRun are left out, too.

const redisVersion = "7.0.15"

// redisTcl is some units of Redis's tests: a time limit is for each suite.
func redisTcl(what string, allowed, notRun []allowance, units ...string) suite {
	return suite{
		library: "Redis", version: redisVersion, what: "its own: " + what, fetch: fetchTcl, run: runTcl, tests: units, allowed: allowed, notRun: notRun,
		needs: []need{{"tcl", []string{"sh", "-c", "echo exit | tclsh"}}, {"apt-get", []string{"apt-get", "--version"}}},
	}
}

// tclOptions choose the tests, without those of encodings, of DEBUG, of replicas and of
// files.
var tclOptions = []string{
	"--ignore-encoding", "--ignore-digest", "--tags", "-needs:repl -needs:save -needs:debug",
	"--durable", // a test that fails is no end of its unit
	"--timeout", "20", "--dont-clean",
}

// fetchTcl gets the sources of Debian's package.
func fetchTcl(w *workshop, s *suite) error {
	dir, err := w.path("tcl")
	if err != nil {
		return err
	}
	name := "redis-" + redisVersion
	if _, err := os.Stat(filepath.Join(dir, name, "tests", "test_helper.tcl")); err == nil {
		return nil
	}
	// The lists are the machine's, of sources in place of binaries.
	out, err := w.output(dir, "apt-get", "indextargets", "--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages", "Origin: Debian")
	if err != nil {
		return err
	}
	lines := slices.Compact(slices.Sorted(strings.Lines(string(out))))
	if len(lines) == 0 {
		return errors.New("apt-get has no lists of Debian; apt-get update gets them")
	}
	if err := os.WriteFile(filepath.Join(dir, "sources.list"), []byte(strings.Join(lines, "")), 0o644); err != nil {
		return err
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	apt := func(args ...string) error {
		return w.install(dir, "apt-get", append([]string{
			"-qq", "-o", "Dir::Etc::SourceList=" + dir + "/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null",
			"-o", "Dir::State::Lists=" + dir + "/lists", "-o", "Dir::Cache=" + dir + "/cache", "-o", "APT::Sandbox::User=root",
		}, args...)...)
	}
	if err := apt("update"); err != nil {
		return err
	}
	if err := apt("source", "--download-only", "redis"); err != nil {
		return err
	}
	if err := w.install(dir, "tar", "xzf", "redis_"+redisVersion+".orig.tar.gz", name+"/tests"); err != nil {
		return err
	}
	// The tests of scripts run twice, the first time as functions.
	return w.install(dir, "sed", "-i", "1s/^foreach is_eval {0 1}/foreach is_eval 1/", name+"/tests/unit/scripting.tcl")
}

// runTcl runs units, each against a server of its own.
func runTcl(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	var all result
	for _, unit := range s.tests {
		res, err := s.runUnit(ctx, w, t, unit)
		if err != nil {
			return all, fmt.Errorf("unit %s: %w", unit, err)
		}
		all = all.merge(res)
	}
	return all, nil
}

func (s *suite) runUnit(ctx context.Context, w *workshop, t target, unit string) (res result, err error) {
	// The suite takes a port of its own, of the 32 below the base, which no client has.
	base := fmt.Sprint(20_000 + os.Getpid()%10_000)
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		return res, err
	}
	stop, err := t.start(addrs[0])
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	dir := filepath.Join(w.dir, "tcl", "redis-"+redisVersion)
	host, port, _ := strings.Cut(addrs[0], ":")
	args := append([]string{"tests/test_helper.tcl", "--single", "unit/" + unit, "--host", host, "--port", port, "--baseport", base}, tclOptions...)
	if unit == "slowlog" { // of DEBUG it needs SLEEP only
		args[slices.Index(args, "--tags")+1] = "-needs:repl -needs:save"
	}
	if t.name == "Headgate" {
		for _, a := range s.notRun {
			for _, name := range a.tests {
				if test, ok := strings.CutPrefix(name, unit+": "); ok {
					args = append(args, "--skiptest", "/"+expression(test))
				}
			}
		}
	}
	from := time.Now()
	out, err := w.test(ctx, dir, []string{"TERM=dumb"}, "tclsh", args...)
	if err != nil {
		return res, err
	}
	fmt.Fprintf(w.log, "%s: %v\n", unit, time.Since(from))
	return readTcl(unit, out)
}

// tclLine is a line of the suite's report about a test or a unit.
var tclLine = regexp.MustCompile(`^\[(ok|err|skip|TIMEOUT|exception|\d+/\d+ done)\]: (.*?)(?: \(\d+ ms\))?$`)

// readTcl reads the report of a unit. A test has the unit's name before its own,
// and a number where an earlier one is called the same.
func readTcl(unit string, text []byte) (result, error) {
	var res result
	seen := map[string]int{}
	done := false
	suffix := " in tests/unit/" + unit + ".tcl"
	for line := range strings.Lines(string(text)) {
		m := tclLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		what, name := m[1], m[2]
		if what == "err" {
			var ok bool
			if name, ok = strings.CutSuffix(name, suffix); !ok {
				return res, fmt.Errorf("it broke off: %s", name)
			}
		}
		seen[name]++
		full := unit + ": " + name
		if n := seen[name]; n > 1 {
			full = fmt.Sprintf("%s (%d)", full, n)
		}
		switch what {
		case "ok":
			res.passed = append(res.passed, full)
		case "err":
			res.failed = append(res.failed, full)
		case "skip":
			res.skipped = append(res.skipped, full)
		case "TIMEOUT", "exception":
			return res, fmt.Errorf("it broke off: %s", bytes.TrimSpace(text[max(0, len(text)-1000):]))
		default:
			done = true
		}
	}
	if !done || len(res.passed)+len(res.failed) == 0 {
		return res, fmt.Errorf("it has not ended:\n%s", text)
	}
	return res, nil
}
