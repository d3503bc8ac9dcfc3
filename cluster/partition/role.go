package partition

import "strconv"

// Role is what a node of a cluster may do.
type Role uint32

// The roles. Only Leading and Waiting decide.
const (
	// Starting: the node has not replayed its log yet; it answers errors.
	Starting Role = iota
	// Leading: decides; replies leave at once unless they are durable.
	Leading
	// Waiting: decides, but its followers are behind: every reply waits for
	// its commit.
	Waiting
	// Stalled: the leader, but its followers are so far behind that the
	// failure policy answers.
	Stalled
	// Following: another node decides.
	Following
	// Orphaned: no leader is known.
	Orphaned
	// Handover: no leader, but the last one has said that another follows.
	Handover
)

// String returns the role in lower case.
func (r Role) String() string {
	names := []string{"starting", "leading", "waiting", "stalled", "following", "orphaned", "handover"}
	if int(r) < len(names) {
		return names[r]
	}
	return "role " + strconv.Itoa(int(r))
}

// Decides reports whether a node of this role decides.
func (r Role) Decides() bool { return r == Leading || r == Waiting }
