package raftlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	foundInterval = 300 * time.Millisecond // between two attempts to join or to found
	callTimeout   = time.Second            // of a single attempt
)

// founders collects the nodes that wait to found a cluster together.
type founders struct {
	// mu guards addrs.
	mu    sync.Mutex
	addrs map[string]string // by node id
}

// found makes the node part of a cluster: it joins the one its peers belong to; or, when there is none, founds one with
// them. The same configuration serves first start, restart and growth, because joining comes first and a node with data
// founds nothing.
func (g *Group) found(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for !g.settled() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if g.tryJoin(ctx) {
			return
		}
		if g.cfg.BootstrapExpect > 0 && g.empty() {
			g.tryFound(ctx)
		}
		t.Reset(foundInterval)
	}
}

// empty reports whether the node is part of no cluster.
func (g *Group) empty() bool {
	servers, _ := g.configuration()
	return len(servers) == 0
}

// settled reports whether the node is a member under the address it advertises, or has nobody to ask.
func (g *Group) settled() bool {
	servers, _ := g.configuration()
	s, ok := findServer(servers, g.cfg.NodeID)
	if ok && string(s.Address) == g.cfg.Advertise {
		return true
	}
	return len(servers) > 0 && len(g.cfg.Join) == 0
}

// tryJoin asks each peer to be taken in.
func (g *Group) tryJoin(ctx context.Context) bool {
	m := memberArgs{ID: g.cfg.NodeID, Addr: g.cfg.Advertise}
	for _, addr := range g.cfg.Join {
		if addr == g.cfg.Advertise {
			continue
		}
		cctx, cancel := context.WithTimeout(ctx, callTimeout)
		err := g.Call(cctx, addr, opJoin, m, nil)
		cancel()
		if err == nil {
			g.cfg.Logger.Info("joined the cluster", "through", addr)
			return true
		}
		if !errors.Is(err, ErrNotLeader) {
			g.cfg.Logger.Debug("join", "through", addr, "error", err)
		}
	}
	return false
}

// tryFound tells all peers, itself included, that this node waits.
func (g *Group) tryFound(ctx context.Context) {
	m := memberArgs{ID: g.cfg.NodeID, Addr: g.cfg.Advertise}
	if err := g.notified(ctx, m); err != nil {
		g.cfg.Logger.Warn("found a cluster", "error", err)
	}
	for _, addr := range g.cfg.Join {
		if addr == g.cfg.Advertise {
			continue
		}
		cctx, cancel := context.WithTimeout(ctx, callTimeout)
		if err := g.Call(cctx, addr, opNotify, m, nil); err != nil {
			g.cfg.Logger.Debug("notify", "peer", addr, "error", err)
		}
		cancel()
	}
}

// notified counts a waiting node. When all expected ones are known, the one with the lowest id founds the cluster: were
// each to do it with the ids it has heard of, two different clusters could begin.
func (g *Group) notified(ctx context.Context, m memberArgs) error {
	if g.cfg.BootstrapExpect == 0 || !g.empty() {
		return nil
	}
	f := &g.founders
	f.mu.Lock()
	if f.addrs == nil {
		f.addrs = make(map[string]string)
	}
	f.addrs[m.ID] = m.Addr
	var conf raft.Configuration
	for id, addr := range f.addrs {
		conf.Servers = append(conf.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(addr)})
	}
	f.mu.Unlock()
	if len(conf.Servers) < g.cfg.BootstrapExpect {
		return nil
	}
	slices.SortFunc(conf.Servers, func(a, b raft.Server) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if string(conf.Servers[0].ID) != g.cfg.NodeID {
		return nil
	}
	err := await(ctx, func() raft.Future { return g.raft().BootstrapCluster(conf) })
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap: %w", err)
	}
	if err == nil {
		g.cfg.Logger.Info("founded a cluster", "voters", len(conf.Servers))
	}
	return nil
}
