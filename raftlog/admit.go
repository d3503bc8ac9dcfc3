package raftlog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
)

// join adds a node that asks to join, or that an operator names. The node may already be a
// member, with a new address or without its data. It must answer at its address, and must
// not have data of another cluster.
func (g *Group) join(ctx context.Context, m memberArgs) error {
	if _, ok := g.Serving(); !ok {
		return ErrNotLeader
	}
	if err := member.CheckNodeID(m.ID); err != nil {
		return err
	}
	if m.ID == g.cfg.NodeID {
		if m.Addr == g.cfg.Advertise {
			return nil
		}
		return fmt.Errorf("%s is the id of the leader, at %s: %w", m.ID, g.cfg.Advertise, member.ErrTwice)
	}
	if _, full := g.DiskFull(); full {
		return ErrDiskFull
	}
	// An added node must be able to read what is written from now on. So hold the feature
	// level until the node is added.
	if !g.admission.acquire(ctx) {
		return ctx.Err()
	}
	defer g.admission.release()
	now, err := g.statusAt(ctx, m)
	if err != nil {
		return err
	}
	if err := g.admits(&now); err != nil {
		return err
	}
	if err := member.SameGroups(now.NodeID, now.Groups, g.cfg.Groups); err != nil {
		return err
	}
	if now.Within != g.cfg.Within {
		return fmt.Errorf("%w: group 0 of %s is in another one", ErrOtherCluster, m.ID)
	}
	if g.cur.Load().id.Foreign(now.ClusterID) {
		return fmt.Errorf("%w: wipe the data directory of %s first", ErrOtherCluster, m.ID)
	}
	servers, _ := g.configuration()
	id := member.ServerID(m.ID, now.DataID)
	s, known := findServer(servers, m.ID)
	if known && string(s.Address) != m.Addr {
		old, err := g.statusAt(ctx, memberArgs{ID: m.ID, Addr: string(s.Address)})
		if err == nil && (old.DataID != now.DataID || old.Addr != now.Addr) {
			return fmt.Errorf("%s is up at %s: %w", m.ID, s.Address, member.ErrTwice)
		}
	}
	if now.ClusterID == "" {
		if err := g.invite(ctx, m); err != nil {
			return err
		}
	}
	if !known {
		g.cfg.Logger.Info("member joins", "member", m.ID, "addr", m.Addr)
		return g.addNonvoter(ctx, id, m.Addr)
	}
	if err := g.vacate(ctx, m.ID, m.Addr); err != nil {
		return err
	}
	switch {
	case s.ID != id:
		return g.readmit(ctx, s, id, m.Addr)
	case string(s.Address) == m.Addr:
		return nil
	}
	return g.readdress(ctx, s, m.Addr)
}

// inviteTimeout bounds the wait for the answer of a node that is being added.
const inviteTimeout = 2 * time.Second

// invite tells an empty node which cluster it is about to join. Until then it ignores
// every leader.
func (g *Group) invite(ctx context.Context, m memberArgs) error {
	ctx, cancel := context.WithTimeout(ctx, inviteTimeout)
	defer cancel()
	if err := g.Call(ctx, m.Addr, opAdopt, adoptArgs{m.ID, g.cur.Load().id.Cluster()}, nil); err != nil {
		return fmt.Errorf("add %s: %w", m.ID, err)
	}
	return nil
}

// adoptArgs are the arguments of the operation by which a leader adds a node to its
// cluster.
type adoptArgs struct {
	ID      string `json:"id"` // of the node
	Cluster string `json:"cluster"`
}

// adopted makes this node, which holds nothing, part of the cluster of the calling
// leader.
func (g *Group) adopted(raw json.RawMessage) error {
	var args adoptArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return fmt.Errorf("arguments of %s: %w", opAdopt, err)
	}
	if args.ID != g.cfg.NodeID || args.Cluster == "" || len(args.Cluster) > member.MaxRandomID {
		return fmt.Errorf("this node is %s, not %s, which cluster %q wants to add", g.cfg.NodeID, args.ID, args.Cluster)
	}
	err := g.cur.Load().id.Adopt(args.Cluster)
	g.convener.Wake()
	return err
}

// statusAt asks the node at an address for its status. It fails if another node answers.
func (g *Group) statusAt(ctx context.Context, m memberArgs) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	s, err := g.Caller().Status(ctx, m.Addr)
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrSilent, m.ID, err)
	}
	if s.NodeID != m.ID {
		return s, fmt.Errorf("the node at %s is %s, not %s", m.Addr, s.NodeID, m.ID)
	}
	return s, nil
}

// readmit makes a node that has lost its data a nonvoter at addr. It first removes the
// former member, because the node no longer knows its votes and what it has acknowledged.
// If the leader fails between the two steps, the node asks to join again. The caller holds
// admission.
func (g *Group) readmit(ctx context.Context, was raft.Server, id raft.ServerID, addr string) error {
	g.cfg.Logger.Warn("member has lost its data; it gets its vote back when it has caught up", "member", member.NodeOf(id))
	servers, index := g.configuration()
	if s, known := findServer(servers, member.NodeOf(id)); known && s.ID == was.ID {
		err := g.change(ctx, func(r *raft.Raft) raft.IndexFuture { return r.RemoveServer(was.ID, index, enqueueTimeout) })
		if err != nil {
			return err
		}
	}
	return g.addNonvoter(ctx, id, addr)
}
