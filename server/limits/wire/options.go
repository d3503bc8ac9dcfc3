package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of options.
var (
	errSync = errors.New("ERR SYNC and ASYNC exclude each other")
	errFail = errors.New("ERR FAIL must be open, closed or local")
)

// GivenTwice returns the error for an option that is given twice.
func GivenTwice(name string) error { return fmt.Errorf("ERR syntax error, %s is given twice", name) }

// SetSync sets the mode of SYNC or ASYNC, which exclude each other.
func SetSync(mode *command.SyncMode, m command.SyncMode) error {
	if *mode != command.SyncDefault && *mode != m {
		return errSync
	}
	*mode = m
	return nil
}

// ParseFailure reads the argument of FAIL.
func ParseFailure(b []byte) (policy.Failure, error) {
	switch {
	case command.EqualFold(b, "open"):
		return policy.FailOpen, nil
	case command.EqualFold(b, "closed"):
		return policy.FailClosed, nil
	case command.EqualFold(b, "local"):
		return policy.FailLocal, nil
	}
	return policy.FailServer, errFail
}

// SaysHeadless reports whether an argument may say how to answer the call without a
// leader. It runs for every forwarded command, and rules out nearly all of them.
func SaysHeadless(args [][]byte) bool {
	return slices.ContainsFunc(args, func(a []byte) bool {
		switch len(a) {
		case len("fail"): // also SYNC
			return a[0] == '-' || command.EqualFold(a, "fail") || command.EqualFold(a, "sync")
		case len("force"):
			return a[0] == '-' || command.EqualFold(a, "force")
		}
		return len(a) > 1 && a[0] == '-'
	})
}
