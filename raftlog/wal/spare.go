package wal

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	// spareName is the file that is to become the next segment.
	spareName = "spare"

	// sparePause is between the chunks of a spare: they are in no hurry, and other writes wait behind each for the disk.
	sparePause = 25 * time.Millisecond
)

var errStopped = errors.New("stopped")

// spares prepares the file of the next segment in the background, zeros and synced, so that appends seldom have to write
// zeros themselves: a chunk takes the disk milliseconds. Without a spare, because it was not ready or the disk is full,
// the log goes on as it is. The caller serialises its methods.
type spares struct {
	path string
	room int64
	sync func(*os.File) error
	stop chan struct{}

	// done receives the file begun last, nil if that failed; it is nil when there is none.
	done chan *os.File
}

func newSpares(dir string, size int64, sync func(*os.File) error) *spares {
	return &spares{
		path: filepath.Join(dir, spareName),
		room: roundUp(size, chunk),
		sync: sync,
		stop: make(chan struct{}),
	}
}

// begin starts to prepare a file, unless there is one.
func (p *spares) begin() {
	if p.done != nil {
		return
	}
	done := make(chan *os.File, 1)
	p.done = done
	go func() {
		f, err := p.prepare()
		if err != nil {
			f = nil
		}
		done <- f
	}()
}

// prepare makes the file. One that it cannot finish it removes.
func (p *spares) prepare() (*os.File, error) {
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	for at := int64(0); at < p.room && err == nil; at += chunk {
		if at > 0 {
			err = p.pause()
		}
		if err == nil {
			err = extend(f, at, at+chunk, p.sync)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(p.path))
	}
	return f, nil
}

func (p *spares) pause() error {
	select {
	case <-time.After(sparePause):
		return nil
	case <-p.stop:
		return errStopped
	}
}

// take returns the file if it is ready, else nil.
func (p *spares) take() *os.File {
	select {
	case f := <-p.done:
		p.done = nil
		return f
	default:
		return nil
	}
}

// close ends the preparation and removes the file.
func (p *spares) close() error {
	close(p.stop)
	if p.done == nil {
		return nil
	}
	f := <-p.done
	p.done = nil
	if f == nil {
		return nil
	}
	return errors.Join(f.Close(), os.Remove(p.path))
}
