package command

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
)

// Errors of arguments. Their texts begin with the RESP code that clients see.
var (
	ErrSyntax     = errors.New("ERR syntax error")
	ErrNotInteger = errors.New("ERR value is not an integer or out of range")
	//lint:ignore ST1005 the text that every Redis client knows
	errOutOfMemory = errors.New("OOM command not allowed when used memory > 'maxmemory'.")
	errNotLeader   = errors.New("TRYAGAIN not the leader")
	errNotShared   = errors.New("CLUSTERDOWN no leader answers, and this command needs one")
)

// EngineError returns an error of the engine with its RESP code in front, and with Redis's
// text if Redis has such an error.
func EngineError(err error) error {
	switch {
	case errors.Is(err, engine.ErrWrongType):
		return errors.New("WRONGTYPE " + err.Error())
	case errors.Is(err, engine.ErrFull):
		return errOutOfMemory
	case errors.Is(err, engine.ErrSealed): // a connection forwards the command instead, if it can
		return errNotLeader
	case errors.Is(err, engine.ErrNotLocal):
		return errNotShared
	case errors.Is(err, engine.ErrKeyTooLong):
		return errors.New("ERR key is longer than 64 KiB")
	}
	return errors.New("ERR " + err.Error())
}

// ErrInvalidExpire returns Redis's error for the time of an expiry.
func ErrInvalidExpire(command string) error {
	return errors.New("ERR invalid expire time in '" + command + "' command")
}

// ErrorClip is the most bytes of an argument that an error message repeats.
const ErrorClip = 64

// Bounds of one call of COMMAND. The reply about each name is long, and a pattern takes
// time.
const (
	MaxNames    = 1024
	MaxPatterns = 64

	ErrNames    = "ERR at most 1024 names in one call"
	ErrPatterns = "ERR at most 64 patterns in one call"
)
