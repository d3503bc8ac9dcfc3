package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// workshop is the directory that libraries are installed and run in.
type workshop struct {
	dir string

	installed map[string]bool // in this run
}

// fetchTimeout bounds one command that installs.
const fetchTimeout = 10 * time.Minute

// install runs a command in a directory of the workshop, which is made.
func (w *workshop) install(dir, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GO111MODULE=on")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", program, args, err, out)
	}
	return nil
}

// test runs a command that tests, and returns what it prints to its standard
// output; the rest goes to the file stderr. That tests fail is no error.
func (w *workshop) test(ctx context.Context, dir string, env []string, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GO111MODULE=on"), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err := os.WriteFile(filepath.Join(w.dir, "stderr"), stderr.Bytes(), 0o644); err != nil {
		return out, err
	}
	if ctx.Err() != nil {
		return out, fmt.Errorf("%s has not ended within %v", program, suiteTimeout)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return out, err
	}
	return out, nil
}

// done notes that what is named has been installed in this run.
func (w *workshop) done(name string) {
	if w.installed == nil {
		w.installed = map[string]bool{}
	}
	w.installed[name] = true
}

// path returns a directory of the workshop, which is made.
func (w *workshop) path(parts ...string) (string, error) {
	dir := filepath.Join(append([]string{w.dir}, parts...)...)
	return dir, os.MkdirAll(dir, 0o755)
}

// lay writes the files of a room of this package into a directory of the
// workshop, once in a run, and reports whether one of them was new.
func (w *workshop) lay(room, dir string) (changed bool, err error) {
	entries, err := rooms.ReadDir(room)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		content, err := rooms.ReadFile(room + "/" + e.Name())
		if err != nil {
			return false, err
		}
		target := filepath.Join(dir, e.Name())
		old, err := os.ReadFile(target)
		if err == nil && string(old) == string(content) {
			continue
		}
		changed = true
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return false, err
		}
	}
	return changed, nil
}
