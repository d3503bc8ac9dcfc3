package command

import "github.com/headgate-io/headgate/policy"

// Headless is how a command that asks limits is answered without a leader.
type Headless struct {
	// Failure is the failure policy that the call or its policy chooses.
	Failure policy.Failure
	// Backstop is how many times its limits `open` admits; 0 means the node's backstop.
	Backstop int64
	// Prompt reports whether the node may answer when the leader is late: the call asks for
	// no commit, gives nothing back and forces nothing.
	Prompt bool
}
