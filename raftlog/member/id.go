package member

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/raft"
)

// MaxNodeID is the length of the longest node id, in bytes.
const MaxNodeID = 64

// MaxRandomID is the length, in bytes, of the longest id of a cluster or of data that is
// read from a peer.
const MaxRandomID = 64

// Errors that say why a node is not accepted as a peer or not added, and why data is not
// accepted.
var (
	// ErrOtherCluster is returned to a node with data of another cluster. Wipe the data
	// before the node can join.
	ErrOtherCluster = errors.New("data of another cluster")

	// ErrOtherNode is returned when data belongs to a node of another id.
	ErrOtherNode = errors.New("data directory of another node")

	// ErrCorrupt is returned for data that cannot be read.
	ErrCorrupt = errors.New("corrupt data")

	// ErrTwice explains why a node is not added.
	ErrTwice = errors.New("two nodes cannot have the same id")

	// ErrRemoved is what a removed node reports about itself.
	ErrRemoved = errors.New("this node has been removed from the cluster; stop the node, or wipe its data directory and start it again, so that it joins")

	// ErrGroups is returned when a node has another number of groups than its cluster.
	ErrGroups = errors.New("all nodes of a cluster have the same number of groups")

	// ErrOtherData is returned to a node that expects data that this node has lost.
	ErrOtherData = errors.New("this node does not have the data that the peer expects")
)

// CheckNodeID returns an error unless id is 1 to MaxNodeID printable ASCII
// characters without spaces, commas and =.
func CheckNodeID(id string) error {
	if id == "" || len(id) > MaxNodeID || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' || c == ',' || c == '=' }) {
		return fmt.Errorf("node id %q: want 1 to %d printable ASCII characters without spaces, commas and =", id, MaxNodeID)
	}
	return nil
}

// GroupsError is an ErrGroups that says which node has how many groups.
type GroupsError struct {
	ID     string
	Theirs int // how many that node has
	Own    int // how many this node has
}

func (e *GroupsError) Error() string {
	return fmt.Sprintf("%v: %s has %d, and this node has %d", ErrGroups, e.ID, e.Theirs, e.Own)
}

func (e *GroupsError) Unwrap() error { return ErrGroups }

// SameGroups returns a GroupsError if the node with the given id has another number of
// groups than this one. For a node of a build without groups, theirs is 0, which means 1.
func SameGroups(id string, theirs, own int) error {
	if theirs, own = max(theirs, 1), max(own, 1); theirs != own {
		return &GroupsError{id, theirs, own}
	}
	return nil
}

// ServerID returns Raft's name for a member: the node's id and the id of its data. A node
// that has lost its data is a different member, which is not in the membership. Until a
// leader has added it, it gets no requests for the former member, does not stand for
// election, and gets no votes. So what the lost data has acknowledged or voted counts only
// for the former member.
func ServerID(node, data string) raft.ServerID { return raft.ServerID(node + "=" + data) }

// NodeOf returns the node's id in a member's id.
func NodeOf(id raft.ServerID) string {
	node, _, _ := strings.Cut(string(id), "=")
	return node
}

// DataOf returns the id of a member's data.
func DataOf(id raft.ServerID) string {
	_, data, _ := strings.Cut(string(id), "=")
	return data
}
