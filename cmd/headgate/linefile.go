package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// lineFile is a file to which lines are appended.
type lineFile struct {
	parameter string // the parameter that names the file
	name      string
	log       *slog.Logger

	// mu guards the fields below.
	mu   sync.Mutex
	file *os.File
	torn bool // the file ends in the middle of a line
}

var _ io.Writer = (*lineFile)(nil)

// openLines opens the file that a parameter names.
func openLines(parameter, name string, log *slog.Logger) (*lineFile, error) {
	f := &lineFile{parameter: parameter, name: name, log: log}
	file, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", parameter, err)
	}
	f.file, f.torn = file, isTorn(name)
	return f, nil
}

// open opens the file. For a named pipe that nobody reads, it returns an error and does not
// wait for a reader.
func (f *lineFile) open() (*os.File, error) {
	return os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
}

// isTorn reports whether a file ends in the middle of a line, as after a crash or on a full
// disk.
func isTorn(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write appends a line. If the disk has no room for the line, Write returns an error, and
// the written part becomes a line of its own.
func (f *lineFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.torn {
		if _, err := f.file.WriteString("\n"); err != nil {
			return 0, err
		}
		f.torn = false
	}
	n, err := f.file.Write(line)
	if err != nil {
		f.torn = n > 0
	}
	return n, err
}

// reload opens the file again, because its name may now belong to another file. It does
// nothing on a nil lineFile.
func (f *lineFile) reload() {
	if f == nil {
		return
	}
	file, err := f.open()
	if err != nil {
		f.log.Error("open "+f.parameter+" again", "error", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file.Close()
	f.file, f.torn = file, isTorn(f.name)
}
