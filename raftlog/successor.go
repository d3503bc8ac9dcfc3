package raftlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
)

// Successor is a voter that may become leader. It has just answered.
type Successor struct {
	server raft.Server
	named  bool // the caller has chosen it
}

// ID returns the id of the voter's node.
func (s Successor) ID() string { return member.NodeOf(s.server.ID) }

// Successor asks a voter whether it can become leader: the voter with the given id or, if
// id is empty, the reachable voter that has the most of the log. A handover calls it first,
// while decisions still go on.
func (g *Group) Successor(ctx context.Context, id string) (Successor, error) {
	target, err := g.peers.transferTarget(ctx, id)
	return Successor{target, id != ""}, err
}

// transferTarget chooses the next leader: the given member, or the voter that has the most
// of the log. The next leader must answer now. Raft would also offer leadership to a dead
// node, and accept nothing until that times out.
func (p *peers) transferTarget(ctx context.Context, id string) (raft.Server, error) {
	servers, _ := p.g.configuration()
	if id != "" {
		s, ok := findServer(servers, id)
		if !ok {
			return raft.Server{}, fmt.Errorf("%w: %s", ErrUnknownMember, id)
		}
		if s.Suffrage != raft.Voter {
			return raft.Server{}, fmt.Errorf("member %s has no vote", id)
		}
		servers = []raft.Server{s}
	}
	p.mu.Lock()
	last := make(map[raft.ServerID]uint64)
	for id, k := range p.known {
		last[id] = k.status.LastIndex
	}
	p.mu.Unlock()
	slices.SortFunc(servers, func(a, b raft.Server) int { return cmp.Compare(last[b.ID], last[a.ID]) })
	for _, s := range servers {
		if member.NodeOf(s.ID) == p.g.cfg.NodeID || s.Suffrage != raft.Voter {
			continue
		}
		if p.ask(ctx, s) {
			return s, nil
		}
	}
	return raft.Server{}, ErrNoTarget
}

// caughtUp returns the node that should become leader. It is called when nothing is
// proposed any more. The result is next or, if next is empty, another voter that has
// acknowledged the last entry. The reason: Raft sends the last entry to a node, and on
// another connection tells the node to stand for election. If the node does not have the
// entry yet, it gets no vote except its own, and the cluster has no leader for an
// election timeout. If no voter has the entry after an election timeout, caughtUp
// returns next.
func (g *Group) caughtUp(ctx context.Context, next Successor) raft.Server {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Timeouts.Election)
	defer cancel()
	in := g.cur.Load()
	last, term := in.raft.LastIndex(), in.raft.CurrentTerm()
	candidates := []raft.Server{next.server}
	if servers, _ := g.configuration(); !next.named {
		candidates = append(candidates, servers...)
	}
	target := next.server
	// After an error, the target stays next.
	_ = g.poll(ctx, func() bool {
		i := slices.IndexFunc(candidates, func(s raft.Server) bool {
			return s.Suffrage == raft.Voter && in.trans.acks.have(s.ID, term, last)
		})
		if i >= 0 {
			target = candidates[i]
		}
		return i >= 0
	})
	return target
}

// acks are what members have acknowledged of this node's log in the term that it leads.
type acks struct {
	// mu guards the fields below.
	mu   sync.Mutex
	term uint64
	last map[raft.ServerID]uint64 // the last entry
}

// note learns from the answer to an append.
func (a *acks) note(id raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	if !resp.Success {
		return
	}
	last := req.PrevLogEntry
	if n := len(req.Entries); n > 0 {
		last = req.Entries[n-1].Index
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil || req.Term > a.term {
		a.term, a.last = req.Term, make(map[raft.ServerID]uint64)
	}
	if req.Term == a.term {
		a.last[id] = max(a.last[id], last)
	}
}

// have reports whether a member has acknowledged an entry in a term.
func (a *acks) have(id raft.ServerID, term, index uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term == term && a.last[id] >= index
}

// Prepare makes this node, which is about to become leader, open as many connections to all
// other members as a leader uses. So votes and the first entry need not wait for a
// connection. It returns when that is done, or when ctx is done.
func (g *Group) Prepare(ctx context.Context) {
	if !g.preparing.CompareAndSwap(false, true) {
		return
	}
	in := g.cur.Load()
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(in.id.Server()), Addr: in.trans.EncodePeer(in.id.Server(), in.trans.LocalAddr())}
	done := make(chan struct{})
	g.wg.Go(func() {
		defer close(done)
		defer g.preparing.Store(false)
		var wg sync.WaitGroup
		servers, _ := g.configuration()
		for _, s := range servers {
			if s.ID == in.id.Server() {
				continue
			}
			for range raftPool {
				wg.Go(func() {
					// A member answers an append of term 0, which changes nothing. If it
					// cannot be sent, the next user of the connection notices.
					_ = in.trans.AppendEntries(s.ID, s.Address, &raft.AppendEntriesRequest{RPCHeader: header}, &raft.AppendEntriesResponse{})
				})
			}
		}
		wg.Wait()
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}
