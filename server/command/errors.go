package command

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
)

// Errors of arguments. Texts carry their RESP prefix, as clients see them.
var (
	ErrSyntax     = errors.New("ERR syntax error")
	ErrNotInteger = errors.New("ERR value is not an integer or out of range")
	//lint:ignore ST1005 the text that every Redis client knows
	errOutOfMemory = errors.New("OOM command not allowed when used memory > 'maxmemory'.")
	errNotLeader   = errors.New("TRYAGAIN not the leader")
	errNotShared   = errors.New("CLUSTERDOWN no leader answers, and this command needs one")
)

// EngineError gives an error of the engine its RESP prefix, and Redis's text if there is
// one.
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

// ErrorClip is how many bytes an error message repeats of an argument.
const ErrorClip = 64

// Bounds of one call about commands: the reply about each name is long, and a pattern takes
// time.
const (
	MaxNames    = 1024
	MaxPatterns = 64

	ErrNames    = "ERR at most 1024 names in one call"
	ErrPatterns = "ERR at most 64 patterns in one call"
)
