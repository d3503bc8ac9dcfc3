package history

import "time"

// Policy is a policy that a run has checks of. Its versions differ in the amounts
// of its limits alone.
type Policy struct {
	Name   string
	Limits []PolicyLimit

	// Sync: every answer waits until its effect is on a majority of nodes, whatever
	// the mode of the run.
	Sync bool
}

// PolicyLimit is one limit of a policy.
type PolicyLimit struct {
	Name      string
	By        string // user, team, or empty for one counter of all
	Algorithm Algorithm
	Period    time.Duration
}

// Caller is who a check is about.
type Caller struct {
	Policy     string
	User, Team string
	Option     string // SYNC, ASYNC or empty
}

// Of is the value of an attribute by which a limit counts.
func (c *Caller) Of(by string) string {
	switch by {
	case "user":
		return c.User
	case "team":
		return c.Team
	}
	return ""
}

// EditKind is what an edit does.
type EditKind uint8

const (
	// SetPolicy makes Text the policy if its version is Base, Rollback the text of an
	// earlier version.
	SetPolicy EditKind = iota
	Rollback
	// SetOverride gives User another amount in the limit by user, until Until if that
	// is not 0; DeleteOverride ends that.
	SetOverride
	DeleteOverride
	// Forget forgets what a policy has counted, as FLUSHALL does, and makes no version.
	Forget
)

var editNames = [...]string{"set", "rollback", "override", "end override", "forget"}

func (k EditKind) String() string { return editNames[k] }

// OfVersion reports whether the edit makes a version of the policy.
func (k EditKind) OfVersion() bool { return k == SetPolicy || k == Rollback }

// Edit is one change of a policy, or of an override. Times are as in Call.
type Edit struct {
	Kind       EditKind
	Policy     string
	Start, End int64

	// Outcome is Admitted if it was made, Refused if it certainly was not, and Unknown
	// if nobody could find out. Acknowledged: its own reply has said that it was made;
	// else it was seen later.
	Outcome      Outcome
	Acknowledged bool

	// Of a version.
	Base, Version uint64 // that it was for, and that it led to
	Text          string
	Amounts       []int32 // by limit; of an override the one of its limit
	Resets        bool    // what was consumed is forgotten

	// Of an override.
	User  string
	Until int64 // ns since the start of the run, 0 for good
}

// Sight is a version that was read, with its text.
type Sight struct {
	At      int64
	Policy  string
	Version uint64
	Text    string
}
