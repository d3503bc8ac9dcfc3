// Package secret keeps the secrets that nodes share up to date with their file. New
// connections use a changed file within a second; existing connections stay open. If a
// changed file cannot be used, the secrets in force stay, and the error is logged.
package secret

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// FileName is the name of the secret that a node without others makes in its data
// directory.
const FileName = "peer.secret"

// Bounds of a secret, in bytes.
const (
	minLength = 16
	maxLength = 1 << 10
)

// maxLines bounds the secrets in a file. The node connects with the first; it also accepts
// the second, while secrets are being replaced.
const maxLines = 2

// maxFile is longer than every valid file, in bytes.
const maxFile = maxLines*maxLength + 1<<10

// Permissions that a secret's file must not give.
const (
	othersMay = 0o077
	groupRead = 0o040
)

// checkEvery is the shortest time between two reads of the file.
const checkEvery = time.Second

// File is a file of secrets that may change.
type File struct {
	name    string
	log     *slog.Logger
	current atomic.Pointer[[][]byte]

	// mu guards the fields below.
	mu      sync.Mutex
	checked time.Time
	failure string // error of the last look, which has been logged
}

// Open reads a file. Its errors name the file.
func Open(name string, log *slog.Logger) (*File, error) {
	secrets, err := read(name)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, log: log, checked: time.Now()}
	f.current.Store(&secrets)
	return f, nil
}

// Secrets returns the secrets of the file, in its state of at most checkEvery ago. The node
// connects with the first. The caller must not modify them.
func (f *File) Secrets() [][]byte {
	if f.mu.TryLock() {
		if time.Since(f.checked) >= checkEvery {
			f.look()
		}
		f.mu.Unlock()
	}
	return *f.current.Load()
}

// Reload reads the file now.
func (f *File) Reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = ""
	f.look()
}

// look reads the file and updates the secrets. The caller holds mu.
func (f *File) look() {
	f.checked = time.Now()
	secrets, err := read(f.name)
	switch {
	case err == nil:
		f.failure = ""
		if !slices.EqualFunc(secrets, *f.current.Load(), bytes.Equal) {
			f.current.Store(&secrets)
			f.log.Info("peer secret loaded", "file", f.name, "accepted", len(secrets))
		}
	case err.Error() != f.failure:
		f.failure = err.Error()
		f.log.Error("peer secret not usable, the previous one stays in force", "error", err)
	}
}

// read returns the secrets of a file.
func read(name string) ([][]byte, error) {
	// Check this before the file is opened, because opening a pipe may block forever.
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("peer secret %s is not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read peer secret: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read peer secret: %w", err)
	}
	mode := info.Mode().Perm()
	if owner, known := ownerOf(info); known && exposed(mode, owner, os.Geteuid()) {
		return nil, fmt.Errorf("peer secret %s has mode %#o, so that others may read or write it: chmod 600 %[1]s", name, mode)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read peer secret: %w", err)
	}
	secrets, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("peer secret %s: %w", name, err)
	}
	return secrets, nil
}

// exposed reports whether users other than the user of this process may read or write a
// file. A file of root may be readable by its group, because otherwise a process of another
// user could not read it. Kubernetes mounts secrets like that (fsGroup).
func exposed(mode os.FileMode, owner, user int) bool {
	if owner == 0 && user != 0 {
		mode &^= groupRead
	}
	return mode&othersMay != 0
}

// parse returns the secrets in the text of a file.
func parse(text []byte) (secrets [][]byte, err error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
			continue
		case len(line) < minLength || len(line) > maxLength:
			return nil, fmt.Errorf("a secret of %d bytes: want %d to %d", len(line), minLength, maxLength)
		case len(secrets) == maxLines:
			return nil, fmt.Errorf("more than %d lines", maxLines)
		}
		secrets = append(secrets, bytes.Clone(line))
	}
	if len(secrets) == 0 {
		return nil, errors.New("the file is empty")
	}
	return secrets, nil
}

// Create makes a file with a random secret that only the file's owner may read. If a file of
// that name exists, Create does nothing.
func Create(name string) (err error) {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Write the whole file under another name first, so that a crash leaves no half-written
	// secret.
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("make peer secret: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
			err = fmt.Errorf("make peer secret: %w", err)
		}
	}()
	_, err = io.WriteString(file, rand.Text()+rand.Text()+"\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
