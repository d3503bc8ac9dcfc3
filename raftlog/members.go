package raftlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
)

// checkServers refuses a membership that does not name each member's data, as builds
// before serverID wrote it.
func checkServers(servers []raft.Server) error {
	for _, s := range servers {
		if member.DataOf(s.ID) == "" {
			return fmt.Errorf("%w: membership of an older format, which does not name the data of %s; "+disk.Wipe, ErrVersion, s.ID)
		}
	}
	return nil
}

// configuration returns the latest membership, and the index of the latest committed one.
// With the index, a change cannot overtake another change. The slice is a copy, because
// Raft owns its result.
func (g *Group) configuration() (servers []raft.Server, committed uint64) {
	f := g.raft().GetConfiguration() // answered from memory, never blocks
	if f.Error() != nil {
		return nil, 0
	}
	return slices.Clone(f.Configuration().Servers), g.membershipIndex()
}

// membershipIndex returns the index of the latest membership that is committed.
func (g *Group) membershipIndex() uint64 {
	return max(g.fsm.membership.Load(), g.cur.Load().snaps.Membership())
}

// findServer returns the member of a node. It does not compare the ids of the data.
func findServer(servers []raft.Server, node string) (raft.Server, bool) {
	for _, s := range servers {
		if member.NodeOf(s.ID) == node {
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
	if _, full := g.DiskFull(); full {
		return ErrDiskFull
	}
	r := g.raft()
	return notLeader(await(ctx, func() raft.IndexFuture { return f(r) }))
}

// addNonvoter adds a node as a follower without a vote. Unless the node is configured as a
// nonvoter, it gets a vote when it has kept up for Config.PromoteAfter. Raft's AddVoter
// would count a voter without data at once, which would delay every commit.
func (g *Group) addNonvoter(ctx context.Context, id raft.ServerID, addr string) error {
	servers, index := g.configuration()
	for _, s := range servers {
		if string(s.Address) == addr && s.ID != id {
			return fmt.Errorf("address %s belongs to member %s; remove that first", addr, member.NodeOf(s.ID))
		}
	}
	return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
		return r.AddNonvoter(id, raft.ServerAddress(addr), index, enqueueTimeout)
	})
}

// Promote gives a member its vote now, even if it is far behind.
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

// correctOwnAddr makes this leader put its own address into the membership, if the
// membership has a different address for it. No other node can do so.
func (g *Group) correctOwnAddr(ctx context.Context) {
	if _, ok := g.Serving(); !ok {
		return
	}
	self, addr := g.cur.Load().id.Server(), g.cfg.Advertise
	servers, _ := g.configuration()
	i := slices.IndexFunc(servers, func(s raft.Server) bool { return s.ID == self })
	if _, full := g.DiskFull(); i < 0 || string(servers[i].Address) == addr || full {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	now, err := g.statusAt(ctx, memberArgs{ID: g.cfg.NodeID, Addr: addr})
	if err == nil && now.DataID != member.DataOf(self) {
		err = member.ErrTwice
	}
	if err == nil {
		err = g.vacate(ctx, g.cfg.NodeID, addr)
	}
	if err == nil {
		err = g.readdress(ctx, servers[i], addr)
	}
	g.cfg.Logger.Info("the leader's own address is corrected", "was", servers[i].Address, "is", addr, "error", err)
}

// nowhere is the start of the recorded address of a member whose address now belongs to
// another member. It has no port, so nobody dials it. The member's id makes it unique.
const nowhere = "unknown-address-of-"

// vacate takes an address away from the member that is recorded for it, because another
// node answers there. Raft refuses a membership in which an address occurs twice. When the
// first member returns, it reports its new address to the leader or to peers.
func (g *Group) vacate(ctx context.Context, node, addr string) error {
	servers, _ := g.configuration()
	for _, s := range servers {
		if string(s.Address) == addr && member.NodeOf(s.ID) != node {
			g.cfg.Logger.Warn("a member answers at the address of another member; the other member has no address until it reports a new one", "member", node, "addr", addr, "other", member.NodeOf(s.ID))
			return g.readdress(ctx, s, nowhere+member.NodeOf(s.ID))
		}
	}
	return nil
}

// readdress changes the address of a member.
func (g *Group) readdress(ctx context.Context, s raft.Server, addr string) error {
	_, index := g.configuration()
	return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
		if s.Suffrage == raft.Voter {
			return r.AddVoter(s.ID, raft.ServerAddress(addr), index, enqueueTimeout)
		}
		return r.AddNonvoter(s.ID, raft.ServerAddress(addr), index, enqueueTimeout)
	})
}
