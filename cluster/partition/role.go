package partition

import "strconv"

// Role is what a node of a cluster may do.
type Role uint32

// The roles. Only Leading and Waiting decide.
const (
	// Starting has not replayed its log yet, and answers errors.
	Starting Role = iota
	// Leading decides. Replies leave at once unless they are durable.
	Leading
	// Waiting: the node decides, but its followers are behind, so every reply waits for its
	// commit.
	Waiting
	// Stalled: the node is leader, but its followers are so far behind that the failure
	// policy answers.
	Stalled
	// Following means that another node decides.
	Following
	// Orphaned means that no leader is known.
	Orphaned
	// Handover: no leader decides yet, but one soon will. The last leader has announced its
	// successor, or this node was elected and is not ready yet.
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

// Decides reports whether a node with this role decides.
func (r Role) Decides() bool { return r == Leading || r == Waiting }
