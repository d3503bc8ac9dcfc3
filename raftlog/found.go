package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	foundInterval = 300 * time.Millisecond // between two attempts to join or to found
	callTimeout   = 2 * time.Second        // of a single attempt

	// waitInterval is between two messages of a node that is part of no cluster yet, or whose peers are of another.
	waitInterval = 10 * time.Second

	// founderGone is how long a waiting node is not heard of before another one may have its id.
	founderGone = 30 * time.Second

	// maxFounders bounds the nodes that are remembered as waiting.
	maxFounders = 256
)

// founders collects the nodes that wait to found a cluster together.
type founders struct {
	// mu guards known.
	mu    sync.Mutex
	known map[string]founder // by node id
}

type founder struct {
	addr  string
	data  string
	heard time.Time
}

// found makes the node part of a cluster: it joins the one its peers belong to; or, when there is none, founds one with
// them. The same configuration serves first start, restart and growth, because joining comes first and a node with data
// founds nothing.
func (g *Group) found(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	tell := time.Now().Add(waitInterval / 4)
	for !g.settled() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		failed := g.tryJoin(ctx)
		if failed == nil {
			return
		}
		if g.cfg.BootstrapExpect > 0 && g.empty() {
			failed = append(failed, g.tryFound(ctx)...)
		}
		if now := time.Now(); now.After(tell) && !g.settled() && ctx.Err() == nil {
			tell = now.Add(waitInterval)
			g.cfg.Logger.Warn("not part of the cluster yet", "why", errors.Join(failed...), "founders_known", g.founders.count(), "bootstrap_expect", g.cfg.BootstrapExpect)
		}
		t.Reset(foundInterval)
	}
	g.lookAtPeers(ctx)
}

// lookAtPeers reports, until each has answered, which addresses of Config.Join are those of another cluster: a node that was
// started alone before it was told of its peers has founded its own, and does not join theirs.
func (g *Group) lookAtPeers(ctx context.Context) {
	t := time.NewTicker(waitInterval)
	defer t.Stop()
	for left := slices.Clone(g.cfg.Join); len(left) > 0; {
		left = slices.DeleteFunc(left, func(addr string) bool {
			cctx, cancel := context.WithTimeout(ctx, pollTimeout)
			defer cancel()
			s, err := g.Caller().Status(cctx, addr)
			if err != nil {
				return false
			}
			foreign := g.cur.Load().id.foreign(s.ClusterID)
			if foreign {
				g.cfg.Logger.Error("a peer belongs to another cluster than this node; to join it, wipe this node's data directory", "peer", addr)
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

// tryJoin asks each peer to be taken in. It returns why none has, nil when one has.
func (g *Group) tryJoin(ctx context.Context) (failed []error) {
	for _, addr := range g.cfg.Join {
		if addr == g.cfg.Advertise {
			continue
		}
		err := g.callPeer(ctx, addr, opJoin)
		if err == nil {
			g.cfg.Logger.Info("joined the cluster", "through", addr)
			return nil
		}
		failed = append(failed, err)
	}
	if failed == nil {
		failed = []error{errors.New("there is no other node to join")}
	}
	return failed
}

// tryFound tells all peers, itself included, that this node waits.
func (g *Group) tryFound(ctx context.Context) (failed []error) {
	if err := g.notified(ctx, g.member()); err != nil {
		failed = append(failed, fmt.Errorf("found a cluster: %w", err))
	}
	for _, addr := range g.cfg.Join {
		if addr == g.cfg.Advertise {
			continue
		}
		var down *net.OpError // tryJoin has told that
		if err := g.callPeer(ctx, addr, opNotify); err != nil && !errors.As(err, &down) && !errors.Is(err, ErrNoAnswer) {
			failed = append(failed, err)
		}
	}
	return failed
}

// callPeer executes an operation on this node as a member, at a peer.
func (g *Group) callPeer(ctx context.Context, addr, op string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return g.Call(ctx, addr, op, g.member(), nil)
}

// member is this node, as it asks to be one.
func (g *Group) member() memberArgs {
	return memberArgs{ID: g.cfg.NodeID, Addr: g.cfg.Advertise, Data: g.cur.Load().id.data}
}

// add notes a waiting node and returns all that are known. Two nodes of one id are an error.
func (f *founders) add(m memberArgs, now time.Time) ([]raft.Server, error) {
	if err := CheckNodeID(m.ID); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = make(map[string]founder)
	}
	if k, known := f.known[m.ID]; known && k.addr != m.Addr && now.Sub(k.heard) < founderGone {
		return nil, fmt.Errorf("%s waits at %s and at %s: %w", m.ID, k.addr, m.Addr, errTwice)
	}
	if _, known := f.known[m.ID]; !known && len(f.known) >= maxFounders {
		return nil, fmt.Errorf("%d nodes wait already", maxFounders)
	}
	f.known[m.ID] = founder{m.Addr, m.Data, now}
	var servers []raft.Server
	for id, k := range f.known {
		servers = append(servers, raft.Server{Suffrage: raft.Voter, ID: serverID(id, k.data), Address: raft.ServerAddress(k.addr)})
	}
	slices.SortFunc(servers, func(a, b raft.Server) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return servers, nil
}

func (f *founders) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.known)
}

// notified counts a waiting node. When all expected ones are known, the one with the lowest id founds the cluster: were
// each to do it with the ids it has heard of, two different clusters could begin.
func (g *Group) notified(ctx context.Context, m memberArgs) error {
	if g.cfg.BootstrapExpect == 0 || !g.empty() {
		return nil
	}
	servers, err := g.founders.add(m, time.Now())
	if err != nil || len(servers) < g.cfg.BootstrapExpect || nodeOf(servers[0].ID) != g.cfg.NodeID {
		return err
	}
	if err := g.cur.Load().id.found(); err != nil {
		return err
	}
	err = await(ctx, func() raft.Future { return g.raft().BootstrapCluster(raft.Configuration{Servers: servers}) })
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap: %w", err)
	}
	if err == nil {
		g.cfg.Logger.Info("founded a cluster", "voters", len(servers))
	}
	return nil
}
