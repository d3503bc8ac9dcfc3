package raftlog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// serverID is what Raft calls a member: the node's id and that of its data. A node that has lost its data is another member,
// which nobody has listed: it gets no request that is meant for the one before (transport), does not stand for election, and
// is granted no vote, until a leader has taken it in. So what the lost data has acknowledged or voted counts for nobody else.
func serverID(node, data string) raft.ServerID { return raft.ServerID(node + "=" + data) }

// nodeOf returns the node's id in a member's.
func nodeOf(id raft.ServerID) string {
	node, _, _ := strings.Cut(string(id), "=")
	return node
}

// dataOf returns the id of a member's data.
func dataOf(id raft.ServerID) string {
	_, data, _ := strings.Cut(string(id), "=")
	return data
}

// checkServers refuses a membership that does not tell which data a member has: builds before serverID wrote such.
func checkServers(servers []raft.Server) error {
	for _, s := range servers {
		if dataOf(s.ID) == "" {
			return fmt.Errorf("%w: membership of an older format, which does not name the data of %s; "+wipe, ErrVersion, s.ID)
		}
	}
	return nil
}

// configuration returns the latest membership, and the index of the latest committed one, for a change that must not
// overtake another. The slice is a copy: what Raft returns is its own.
func (g *Group) configuration() (servers []raft.Server, committed uint64) {
	f := g.raft().GetConfiguration() // answered from memory, never blocks
	if f.Error() != nil {
		return nil, 0
	}
	return slices.Clone(f.Configuration().Servers), g.membershipIndex()
}

// membershipIndex returns the index of the latest membership that is committed.
func (g *Group) membershipIndex() uint64 {
	return max(g.fsm.membership.Load(), g.cur.Load().snaps.membership.Load())
}

// findServer returns the member of a node, whatever data it has.
func findServer(servers []raft.Server, node string) (raft.Server, bool) {
	for _, s := range servers {
		if nodeOf(s.ID) == node {
			return s, true
		}
	}
	return raft.Server{}, false
}

// change runs one membership change on the serving leader.
func (g *Group) change(ctx context.Context, f func(r *raft.Raft) raft.IndexFuture) error {
	if _, ok := g.Serving(); !ok {
		return ErrNotLeader
	}
	r := g.raft()
	return notLeader(await(ctx, func() raft.IndexFuture { return f(r) }))
}

// addNonvoter makes a node follow. Unless it is configured as a nonvoter, it gets a vote once it has kept up for
// Config.PromoteAfter: raft's AddVoter counts a new voter at once, and an empty one would hold up every commit.
func (g *Group) addNonvoter(ctx context.Context, id raft.ServerID, addr string) error {
	servers, index := g.configuration()
	for _, s := range servers {
		if string(s.Address) == addr && s.ID != id {
			return fmt.Errorf("address %s belongs to member %s; remove that first", addr, nodeOf(s.ID))
		}
	}
	return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
		return r.AddNonvoter(id, raft.ServerAddress(addr), index, enqueueTimeout)
	})
}

// Promote gives a member its vote now, however far behind it is.
func (g *Group) Promote(ctx context.Context, id string) error {
	servers, index := g.configuration()
	s, ok := findServer(servers, id)
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnknownMember, id)
	}
	return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
		return r.AddVoter(s.ID, s.Address, index, enqueueTimeout)
	})
}
