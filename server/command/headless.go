package command

import "github.com/headgate-io/headgate/policy"

// Headless says how a node answers a command that asks limits while there is no leader.
type Headless struct {
	// Failure is the failure policy that the call or the call's policy chooses.
	Failure policy.Failure
	// Backstop multiplies a limit: without a leader, `open` admits this many times the
	// limit. 0 means the node's setting `backstop`.
	Backstop int64
	// Prompt reports whether the node may answer itself when the leader is late. It may if
	// the call asks for no commit and does not give anything back or force a charge.
	Prompt bool
	// NoShare reports that this node must not decide on its share of the limits (`local`): it
	// then answers as with `closed`.
	NoShare bool
}
