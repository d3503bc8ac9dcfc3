package command

import "github.com/headgate-io/headgate/policy"

// Headless is how a command that asks limits is answered while no leader does.
type Headless struct {
	// Failure is what the call or its policy says.
	Failure policy.Failure
	// Backstop is how many times its limits on-failure open admits of the call; 0 is
	// what the node says.
	Backstop int64
	// Prompt reports whether the node may answer when the leader is late: the call
	// asks for no commit, gives nothing back and forces nothing.
	Prompt bool
}
