package partition

import (
	"errors"
	"fmt"
)

// ErrUncertain is the reply to a command that may or may not have been executed. Its effect
// may be lost, or may survive in the next leader's log. Its text is a RESP error.
var ErrUncertain = errors.New("UNCERTAIN the decision may have been taken")

// ErrUnverified is an ErrUncertain where nothing is known to be lost: no majority has
// confirmed in time that this node is still leader.
var ErrUnverified = fmt.Errorf("%w", ErrUncertain)

// ErrUndone is the reply to a command whose decision was undone: the leader was replaced
// before a majority had the decision. The command has changed nothing. A message that its
// script has published was sent.
var ErrUndone = errors.New("TRYAGAIN the leader changed before the decision was stored")

// ErrUnstored is the reply to a decision that is in force, but only in the memory of one
// node, because the node's disk is full. Nothing is lost while the node runs.
var ErrUnstored error = unstored{}

type unstored struct{}

func (unstored) Error() string {
	return "UNCERTAIN this was decided in memory only: the disk of this node is full"
}
func (unstored) Unwrap() error { return ErrUnverified }

// OnFailure says what answers while no leader does.
type OnFailure uint8

const (
	// FailClosed replies CLUSTERDOWN to commands that were certainly not executed, and
	// UNCERTAIN to other commands.
	FailClosed OnFailure = iota
	// FailOpen answers each call of a limit as if the limit had no charges, up to a
	// multiple of the limit (Config.Backstop). Its answers say that they are degraded. It
	// runs commands about counters as if no counter existed. Other commands get the answers
	// of FailClosed.
	FailOpen
	// FailLocal decides limits on this node's share of them. Its answers say that they are
	// degraded. It runs commands about counters on this node's copies. All other commands,
	// such as refunds and those about slots, get the answers of FailClosed.
	FailLocal
)

// RESP errors of a node that has executed none of the forwarded commands.
const (
	// TextNotLeader: another node may lead.
	TextNotLeader = "TRYAGAIN not the leader"
	// TextHandover: another node is about to lead.
	TextHandover = "TRYAGAIN the next leader is not there yet"
	// TextClosing is the last message on a stream. It says that no command without a reply
	// has been executed.
	TextClosing = "CLOSING this node stops"
)
