package redisserver

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Clock is the time of a server that StartStopped has started. It stands until
// it is set.
type Clock struct{ file string }

// StartStopped is Start of a server whose clock stands at now until it is set:
// what it answers then depends on nothing but its input. It takes libfaketime.
func StartStopped(now time.Time, args ...string) (*Server, *Clock, error) {
	libs, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil {
		return nil, nil, err
	}
	if len(libs) == 0 {
		return nil, nil, errors.New("libfaketime is not installed; make deps installs it")
	}
	dir, err := os.MkdirTemp("", "redis-clock")
	if err != nil {
		return nil, nil, err
	}
	c := &Clock{filepath.Join(dir, "now")}
	if err := c.Set(now); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	s, err := start("", []string{
		// The allocator of Debian's redis-server asks for the time before libfaketime
		// can answer; libc's does not.
		"LD_PRELOAD=" + libs[0] + ":libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "TZ=UTC",
	}, args)
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return s, c, nil
}

// Set sets the server's clock, to the microsecond.
func (c *Clock) Set(now time.Time) error {
	next := c.file + ".next"
	// The fraction is read as a floating-point number and cut off: half a
	// microsecond more gives the right one.
	now = now.UTC().Truncate(time.Microsecond).Add(500)
	if err := os.WriteFile(next, []byte(now.Format("2006-01-02 15:04:05.000000000")), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}

// Close removes the file of the clock, once the server has ended.
func (c *Clock) Close() error { return os.RemoveAll(filepath.Dir(c.file)) }
