package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

var errSurvived = errors.New("SURVIVED: the test passes")

const (
	// buildTime bounds the build of a test binary.
	buildTime = 5 * time.Minute
	// soundTime bounds a test of the sources as they are. With a mutant it fails
	// if it takes slowdown times as long, and the runner's grace.
	soundTime = 2 * time.Minute
	slowdown  = 10
	// outputKept is how much of a test's output an error repeats, in bytes.
	outputKept = 2000
)

// runner runs mutations of the module in root. Its methods are safe for
// concurrent use.
type runner struct {
	root  string
	dir   string        // for what is built
	grace time.Duration // for a test that builds a program

	mu       sync.Mutex                        // guards binaries
	binaries map[string]func() (string, error) // by package: builds it once
}

func newRunner(root, dir string) *runner {
	return &runner{root: root, dir: dir, grace: time.Minute, binaries: make(map[string]func() (string, error))}
}

// run returns nil if m is killed.
func (r *runner) run(ctx context.Context, m *Mutation) error {
	dir, err := os.MkdirTemp(r.dir, "mutant")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return err
	}
	took, err := r.soundTest(ctx, m.TestPackage, m.Killed)
	if err != nil {
		return fmt.Errorf("without the edit: %w", err)
	}
	binary := filepath.Join(dir, "mutant.test")
	if err := r.build(ctx, binary, m.TestPackage, "-overlay", overlay); err != nil {
		return err
	}
	// Programs that the test builds are those of the mutant, too.
	switch err := r.test(ctx, binary, m.TestPackage, m.Killed, r.grace+slowdown*took, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay); {
	case err == nil:
		return errSurvived
	case errors.Is(err, errFailed):
		return nil
	default:
		return err
	}
}

// overlay writes the mutated source and the file that puts it in place.
func (r *runner) overlay(dir string, m *Mutation) (file string, err error) {
	original, source, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(original))
	if err := os.WriteFile(mutated, source, 0o600); err != nil {
		return "", err
	}
	replace := map[string]map[string]string{"Replace": {original: mutated}}
	data, err := json.Marshal(replace)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}

// soundTest returns how long a test takes on the sources as they are, or why
// it does not pass.
func (r *runner) soundTest(ctx context.Context, pkg, test string) (time.Duration, error) {
	r.mu.Lock()
	if r.binaries[pkg] == nil {
		r.binaries[pkg] = sync.OnceValues(func() (string, error) {
			binary := filepath.Join(r.dir, strings.ReplaceAll(pkg, "/", "_")+".test")
			return binary, r.build(ctx, binary, pkg)
		})
	}
	binary := r.binaries[pkg]
	r.mu.Unlock()
	path, err := binary()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = r.test(ctx, path, pkg, test, soundTime)
	return time.Since(begin), err
}

// build builds the test binary of a package.
func (r *runner) build(ctx context.Context, binary, pkg string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	// Without symbols it links in half the time.
	args = append([]string{"test", "-c", "-ldflags=-s -w", "-o", binary}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("does not compile: %w\n%s", err, clip(out))
	}
	return nil
}

var (
	// errFailed is the error of a test that has failed.
	errFailed = errors.New("the test fails")
	// failed is what a test that has failed writes. Else the binary itself has,
	// for goroutines that are left, say, which is not the test's doing.
	failed = regexp.MustCompile(`(?m)^(\s*--- FAIL: |panic: |fatal error: )`)
)

const (
	noTests  = "testing: warning: no tests to run"
	notBuilt = "build headgate: " // as subprocess.Build says
)

// test runs one test of a test binary, with env added to its environment. What
// the binary does before its tests, such as the build of a program, is no part of
// the timeout.
func (r *runner) test(ctx context.Context, binary, pkg, test string, timeout time.Duration, env ...string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTime+timeout)
	defer cancel()
	args := []string{"-test.run=^" + strings.ReplaceAll(test, "/", "$/^") + "$", "-test.timeout=" + timeout.String()}
	if r.hasRapid(ctx, binary) {
		// A failure need not be made small, nor remembered.
		args = append(args, "-rapid.shrinktime=0s", "-rapid.nofailfile")
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = filepath.Join(r.root, pkg)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err == nil && strings.Contains(text, noTests):
		return fmt.Errorf("there is no test %s", test)
	case err == nil:
		return nil
	case strings.Contains(text, notBuilt):
		return fmt.Errorf("a program of the test does not compile: %w\n%s", err, clip(out))
	case failed.MatchString(text):
		return fmt.Errorf("%w\n%s", errFailed, clip(out))
	default:
		return fmt.Errorf("the binary fails, and no test: %w\n%s", err, clip(out))
	}
}

// hasRapid reports whether a test binary takes rapid's flags.
func (r *runner) hasRapid(ctx context.Context, binary string) bool {
	out, _ := exec.CommandContext(ctx, binary, "-help").CombinedOutput() // its status is that of a mistake
	return strings.Contains(string(out), "-rapid.shrinktime")
}

// clip returns the end of a text.
func clip(b []byte) []byte { return b[max(0, len(b)-outputKept):] }
