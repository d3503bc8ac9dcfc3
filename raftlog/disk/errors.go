package disk

import (
	"errors"

	"github.com/headgate-io/headgate/raftlog/member"
)

// ErrCorrupt is returned for a file that is damaged, incomplete or of an older format.
var ErrCorrupt = member.ErrCorrupt

// ErrGap is returned when the log does not continue the newest readable snapshot.
var ErrGap = errors.New("log does not continue the newest snapshot")

// ErrLocked is returned when another process has the directory open.
var ErrLocked = errors.New("data directory is in use by another process")

// ErrDisk is passed to the log's fatal function when a write fails.
var ErrDisk = errors.New("log cannot be written")
