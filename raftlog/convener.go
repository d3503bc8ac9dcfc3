package raftlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// strangerInterval is the time between two messages about a peer of another cluster.
const strangerInterval = 10 * time.Second

// convenerNode is the group in the form that the convener calls.
type convenerNode struct{ g *Group }

var _ member.Node = convenerNode{}

// Identity implements member.Node.
func (n convenerNode) Identity() *member.Identity { return n.g.cur.Load().id }

// Settled implements member.Node. It reports whether there is nothing more to do: the node
// is a member under the address that it advertises, or it has no other node to ask.
func (n convenerNode) Settled() bool {
	servers, _ := n.g.configuration()
	s, ok := findServer(servers, n.g.cfg.NodeID)
	if ok && string(s.Address) == n.g.cfg.Advertise {
		return true
	}
	return len(servers) > 0 && len(n.g.cfg.Join) == 0
}

// Greet implements member.Node.
func (n convenerNode) Greet(ctx context.Context, addr string, g member.Greeting) (a member.Answer, err error) {
	err = n.g.Call(ctx, addr, opFound, g, &a)
	return a, err
}

// Join implements member.Node.
func (n convenerNode) Join(ctx context.Context, addr string) error {
	return n.g.Call(ctx, addr, opJoin, memberArgs{ID: n.g.cfg.NodeID, Addr: n.g.cfg.Advertise}, nil)
}

// Bootstrap implements member.Node.
func (n convenerNode) Bootstrap(ctx context.Context, members raft.Configuration) error {
	err := await(ctx, func() raft.Future { return n.g.raft().BootstrapCluster(members) })
	if errors.Is(err, raft.ErrCantBootstrap) {
		return nil // an attempt that seemed to fail has begun it
	}
	return err
}

// convene makes the node part of a cluster. Then it looks for peers of another cluster.
func (g *Group) convene(ctx context.Context) {
	settled, err := g.convener.Run(ctx)
	if err != nil {
		g.halt(err)
	}
	if settled {
		g.lookAtPeers(ctx)
	}
}

// greeted answers a node that waits for a cluster.
func (g *Group) greeted(raw json.RawMessage) (a member.Answer, err error) {
	var args member.Greeting
	if err := json.Unmarshal(raw, &args); err != nil {
		return a, fmt.Errorf("arguments of %s: %w", opFound, err)
	}
	return g.convener.Answer(args)
}

// lookAtPeers reports which addresses in Config.Join belong to another cluster, until each
// has answered. If a node was first started without its peers, it has founded its own
// cluster, and does not join theirs.
func (g *Group) lookAtPeers(ctx context.Context) {
	t := time.NewTicker(strangerInterval)
	defer t.Stop()
	for left := slices.Clone(g.cfg.Join); len(left) > 0; {
		left = slices.DeleteFunc(left, func(addr string) bool {
			cctx, cancel := context.WithTimeout(ctx, pollTimeout)
			defer cancel()
			s, err := g.Caller().Status(cctx, addr)
			if errors.Is(err, peer.ErrSecret) {
				g.cfg.Logger.Warn("a node named in join refuses this node; this node continues without that address", "peer", addr, "error", err)
			}
			if err != nil {
				return false
			}
			foreign := g.cur.Load().id.Foreign(s.ClusterID)
			if foreign {
				g.cfg.Logger.Error("a peer belongs to another cluster; to join that cluster, wipe this node's data directory", "peer", addr)
			}
			return !foreign
		})
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
