package raftlog

import (
	"context"
	"errors"
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

// join takes in a node that asks for it, or for which an operator asks. It may be known already, with its address changed,
// or its data lost. It must answer at its address, and its data must not be another cluster's.
func (g *Group) join(ctx context.Context, m memberArgs) error {
	if _, ok := g.Serving(); !ok {
		return ErrNotLeader
	}
	if err := CheckNodeID(m.ID); err != nil {
		return err
	}
	if m.ID == g.cfg.NodeID {
		if m.Addr == g.cfg.Advertise {
			return nil
		}
		return fmt.Errorf("%s is the id of the leader, at %s: %w", m.ID, g.cfg.Advertise, errTwice)
	}
	now, err := g.statusAt(ctx, m)
	if err != nil {
		return err
	}
	if g.cur.Load().id.foreign(now.ClusterID) {
		return fmt.Errorf("%w: wipe the data directory of %s first", ErrOtherCluster, m.ID)
	}
	servers, index := g.configuration()
	s, known := findServer(servers, m.ID)
	if known && string(s.Address) == m.Addr {
		return nil // if it has lost its data the poll of the peers finds out
	}
	if known {
		old, err := g.statusAt(ctx, memberArgs{ID: m.ID, Addr: string(s.Address)})
		if err == nil && old.DataID != now.DataID {
			return fmt.Errorf("%s is up at %s: %w", m.ID, s.Address, errTwice)
		}
		if g.peers.lost(m.ID, now.DataID) {
			return g.readmit(ctx, s, m.Addr)
		}
		if s.Suffrage == raft.Voter {
			return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
				return r.AddVoter(s.ID, raft.ServerAddress(m.Addr), index, enqueueTimeout)
			})
		}
	}
	g.cfg.Logger.Info("member joins", "member", m.ID, "addr", m.Addr)
	return g.addNonvoter(ctx, m.ID, m.Addr)
}

// errTwice explains why a node is not taken in.
var errTwice = errors.New("two nodes cannot have one id")

// statusAt asks a node for its status, and fails if another one answers.
func (g *Group) statusAt(ctx context.Context, m memberArgs) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	s, err := g.Caller().Status(ctx, m.Addr)
	if err != nil {
		return s, fmt.Errorf("ask %s: %w", m.ID, err)
	}
	if s.NodeID != m.ID {
		return s, fmt.Errorf("the node at %s is %s, not %s", m.Addr, s.NodeID, m.ID)
	}
	return s, nil
}

// readmit makes a member that lost its data begin again as a nonvoter, at addr. It must not keep its vote: it knows neither
// whom it voted for nor what it acknowledged.
func (g *Group) readmit(ctx context.Context, s raft.Server, addr string) error {
	g.cfg.Logger.Warn("member has lost its data; it gets its vote back when it has caught up", "member", s.ID)
	if s.Suffrage == raft.Voter {
		_, index := g.configuration()
		if err := g.change(ctx, func(r *raft.Raft) raft.IndexFuture { return r.DemoteVoter(s.ID, index, enqueueTimeout) }); err != nil {
			return err
		}
	}
	g.peers.forget(string(s.ID))
	if addr == string(s.Address) {
		return nil
	}
	return g.addNonvoter(ctx, string(s.ID), addr)
}
