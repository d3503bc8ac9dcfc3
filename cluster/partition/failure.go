package partition

import (
	"errors"
	"fmt"
)

// ErrUncertain answers a command that may or may not have been executed: its effect may
// be lost, or survive in the next leader's log. Its text is a RESP error.
var ErrUncertain = errors.New("UNCERTAIN the decision may have been taken")

// ErrUnverified is an ErrUncertain without a loss: no majority has confirmed in time that
// this node still leads.
var ErrUnverified = fmt.Errorf("%w", ErrUncertain)

// ErrUnstored answers a decision that is in force, but only in the memory of one node,
// because its disk is full. Nothing is lost while the node runs.
var ErrUnstored error = unstored{}

type unstored struct{}

func (unstored) Error() string {
	return "UNCERTAIN this was decided in memory only: the disk of this node is full"
}
func (unstored) Unwrap() error { return ErrUnverified }

// OnFailure says what answers while no leader does.
type OnFailure uint8

const (
	// FailClosed answers CLUSTERDOWN to commands that were certainly not executed,
	// and UNCERTAIN to the rest.
	FailClosed OnFailure = iota
	// FailOpen answers every call of a limit as if the limit were full, up to a multiple
	// of it (Config.Backstop), and flags the answer as degraded. It counts as if counters
	// were absent. Other commands get the answers of FailClosed.
	FailOpen
	// FailLocal decides limits on this node's share, and flags the answers as degraded.
	// It counts on this node's copies of counters. Everything else, such as refunds and
	// slots, gets the answers of FailClosed.
	FailLocal
)

// RESP errors of a node that has executed none of the forwarded commands.
const (
	// TextNotLeader: another node may lead.
	TextNotLeader = "TRYAGAIN not the leader"
	// TextHandover: another node is about to lead.
	TextHandover = "TRYAGAIN the next leader is not there yet"
	// TextClosing is the last word on a stream: no command without reply has
	// been executed.
	TextClosing = "CLOSING this node stops"
)
