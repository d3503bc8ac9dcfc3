package raftlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"
)

// configuration returns the latest membership and its index, for a change that must not overtake another one. The slice
// is a copy: what Raft returns is its own.
func (g *Group) configuration() ([]raft.Server, uint64) {
	f := g.raft().GetConfiguration() // answered from memory, never blocks
	if f.Error() != nil {
		return nil, 0
	}
	return slices.Clone(f.Configuration().Servers), f.Index()
}

func findServer(servers []raft.Server, id string) (raft.Server, bool) {
	for _, s := range servers {
		if string(s.ID) == id {
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
func (g *Group) addNonvoter(ctx context.Context, id, addr string) error {
	if id == "" || len(id) > MaxNodeID || addr == "" {
		return fmt.Errorf("member needs an id of at most %d bytes and an address", MaxNodeID)
	}
	servers, index := g.configuration()
	for _, s := range servers {
		if string(s.Address) == addr && string(s.ID) != id {
			return fmt.Errorf("address %s belongs to member %s; remove that first", addr, s.ID)
		}
	}
	return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
		return r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), index, enqueueTimeout)
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

// Remove takes a member out of the cluster. The removed node goes on running, follows nobody, and never stands for
// election: it may be replaying an old removal, and must not act on it.
func (g *Group) Remove(ctx context.Context, id string) error {
	servers, index := g.configuration()
	if _, ok := findServer(servers, id); !ok {
		return fmt.Errorf("%w: %s", ErrUnknownMember, id)
	}
	return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
		return r.RemoveServer(raft.ServerID(id), index, enqueueTimeout)
	})
}

// join takes in a node that asks for it. It may be known already, with its address changed; whether it has lost its data
// the poll of the peers finds out.
func (g *Group) join(ctx context.Context, m memberArgs) error {
	if _, ok := g.Serving(); !ok {
		return ErrNotLeader
	}
	servers, index := g.configuration()
	s, known := findServer(servers, m.ID)
	switch {
	case known && string(s.Address) == m.Addr:
		return nil
	case known && s.Suffrage == raft.Voter:
		return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
			return r.AddVoter(s.ID, raft.ServerAddress(m.Addr), index, enqueueTimeout)
		})
	}
	g.cfg.Logger.Info("member joins", "member", m.ID, "addr", m.Addr)
	return g.addNonvoter(ctx, m.ID, m.Addr)
}

// readmit makes a member that lost its data begin again as a nonvoter. It must not keep its vote: it knows neither whom it
// voted for nor what it acknowledged.
func (g *Group) readmit(ctx context.Context, id, addr string) error {
	g.cfg.Logger.Warn("member has lost its data; it gets its vote back when it has caught up", "member", id)
	if err := g.Remove(ctx, id); err != nil {
		return err
	}
	g.peers.forget(id)
	return g.addNonvoter(ctx, id, addr)
}
