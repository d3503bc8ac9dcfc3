package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// rooms are what the suites in other languages need: which packages are
// installed, and the contracts.
//
//go:embed node mocha python java ruby php
var rooms embed.FS

// workshop is the directory that libraries are installed and run in.
type workshop struct {
	dir string
	log io.Writer // takes what tests say beside their results

	installed map[string]bool // in this run
}

// openWorkshop makes the directory, and a new file log in it.
func openWorkshop(dir string) (*workshop, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	return &workshop{dir: dir, log: log, installed: map[string]bool{}}, nil
}

// fetchTimeout bounds one command that installs.
const fetchTimeout = 10 * time.Minute

// install runs a command in a directory of the workshop.
func (w *workshop) install(dir, program string, args ...string) error {
	_, err := w.output(dir, program, args...)
	return err
}

// output runs a command in a directory of the workshop and returns what it
// prints to its standard output.
func (w *workshop) output(dir, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GO111MODULE=on")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %q: %w\n%s%s", program, args, err, out, stderr.Bytes())
	}
	return out, nil
}

// test runs a command that tests, and returns what it prints to its standard
// output; the rest goes to the log. That tests fail is no error.
func (w *workshop) test(ctx context.Context, dir string, env []string, program string, args ...string) ([]byte, error) {
	fmt.Fprintf(w.log, "\n== %s %q\n", program, args)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GO111MODULE=on"), env...)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, w.log), w.log
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return stdout.Bytes(), fmt.Errorf("%s has not ended within %v", program, suiteTimeout)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return stdout.Bytes(), err
	}
	return stdout.Bytes(), nil
}

// path returns a directory of the workshop, which is made.
func (w *workshop) path(parts ...string) (string, error) {
	dir := filepath.Join(append([]string{w.dir}, parts...)...)
	return dir, os.MkdirAll(dir, 0o755)
}

// lay writes the files of a room of this package into a directory of the workshop, once
// in a run. It reports whether one of them was new.
func (w *workshop) lay(room, dir string) (changed bool, err error) {
	err = fs.WalkDir(rooms, room, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, strings.TrimPrefix(name, room))
		if e.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := rooms.ReadFile(name)
		if err != nil {
			return err
		}
		if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, content) {
			return nil
		}
		changed = true
		return os.WriteFile(target, content, 0o644)
	})
	return changed, err
}

// environment tells tests of the server, in the words that each of them reads.
func environment(addr string) []string {
	host, port, _ := net.SplitHostPort(addr) // an address of ours
	return []string{
		"DROPIN_HOST=" + host, "DROPIN_PORT=" + port,
		"REDIS=redis://" + addr,                    // pyrate-limiter
		"REDIS_HOST=" + host, "REDIS_PORT=" + port, // bottleneck
		"WALRUS_REDIS_HOST=" + host, "WALRUS_REDIS_PORT=" + port,
	}
}
