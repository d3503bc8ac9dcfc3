package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// lineFile is a file that lines are added to.
type lineFile struct {
	parameter string // that names it
	name      string
	log       *slog.Logger

	// mu guards what follows.
	mu   sync.Mutex
	file *os.File
	torn bool // the file ends within a line
}

var _ io.Writer = (*lineFile)(nil)

// openLines opens the file of a parameter.
func openLines(parameter, name string, log *slog.Logger) (*lineFile, error) {
	f := &lineFile{parameter: parameter, name: name, log: log}
	file, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", parameter, err)
	}
	f.file, f.torn = file, isTorn(name)
	return f, nil
}

// open opens the file of the name. It returns an error for a named pipe that nobody
// reads, instead of waiting for a reader.
func (f *lineFile) open() (*os.File, error) {
	return os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
}

// isTorn reports whether a file ends within a line, as a full disk or a crash leaves it.
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

// Write adds a line. A line without room on the disk is an error, and the part of it
// in the file becomes a line of its own.
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

// reload opens the name again, which may belong to another file now. It does
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
