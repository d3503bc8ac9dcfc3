package raftlog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	pollInterval = time.Second            // between two looks at the peers, give or take a fifth: not all nodes at once
	meetInterval = 100 * time.Millisecond // as long as one of them has never answered
	pollTimeout  = 500 * time.Millisecond // for one answer
)

// PromoteLag is how many entries behind the leader a node may be and still count as caught up: about a second's worth
// of full batches.
const PromoteLag = 256

// peers knows what every member last said about itself. Each node asks all others, so that a new leader knows at once
// who has caught up, and a node without a leader still knows where its peers serve clients.
type peers struct {
	g *Group

	// mu guards what follows.
	mu    sync.Mutex
	known map[string]*peer // by node id
}

// peer is one other member.
type peer struct {
	status  Status        // its last answer
	seen    time.Time     // when that came; zero = never
	up      bool          // the last question was answered
	rtt     time.Duration // of the last answer
	skew    time.Duration // its wall clock minus ours
	lag     uint64        // entries behind what this node knew as committed when it asked
	lagTime time.Duration
	since   time.Time // since when it has been caught up; zero = it is not
	dataID  string    // of its first answer; a change means that it lost its data
	foreign bool      // it answered with data of another cluster
}

func newPeers(g *Group) *peers { return &peers{g: g, known: make(map[string]*peer)} }

// run polls until ctx ends, and promotes.
func (p *peers) run(ctx context.Context) {
	t := time.NewTicker(meetInterval)
	defer t.Stop()
	var next time.Time
	for {
		if now := time.Now(); now.After(next) || p.strangers() {
			next = now.Add(pollInterval*4/5 + rand.N(pollInterval*2/5))
			p.poll(ctx)
			p.promote(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// strangers reports whether some other member has never answered.
func (p *peers) strangers() bool {
	servers, _ := p.g.configuration()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(servers, func(s raft.Server) bool {
		k := p.known[string(s.ID)]
		return string(s.ID) != p.g.cfg.NodeID && (k == nil || k.seen.IsZero() && !k.foreign)
	})
}

// poll asks all other members at once.
func (p *peers) poll(ctx context.Context) {
	servers, _ := p.g.configuration()
	var wg sync.WaitGroup
	members := make(map[string]bool)
	for _, s := range servers {
		if string(s.ID) != p.g.cfg.NodeID {
			members[string(s.ID)] = true
			wg.Go(func() { p.ask(ctx, string(s.ID), string(s.Address)) })
		}
	}
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.known, func(id string, _ *peer) bool { return !members[id] })
}

// ask updates what is known of one member and reports whether it answered.
func (p *peers) ask(ctx context.Context, id, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	commit := p.g.raft().CommitIndex()
	clock, _ := p.g.clockNow()
	begin := time.Now()
	s, err := p.g.Caller().Status(ctx, addr)
	end := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[id]
	if k == nil {
		k = &peer{}
		p.known[id] = k
	}
	k.up = err == nil && s.NodeID == id
	if k.up && p.g.cur.Load().id.foreign(s.ClusterID) {
		k.up = false
		if !k.foreign {
			p.g.cfg.Logger.Error("member holds data of another cluster; wipe its data directory", "member", id, "addr", addr)
		}
		k.foreign = true
	} else if k.up {
		k.foreign = false
	}
	if !k.up {
		k.since = time.Time{}
		return false
	}
	k.status, k.seen, k.rtt = s, end, end.Sub(begin)
	k.lag, k.lagTime = 0, 0
	if s.AppliedIndex < commit {
		k.lag = commit - s.AppliedIndex
		if s.Clock > 0 {
			k.lagTime = max(0, time.Duration(clock-s.Clock))
		}
	}
	k.skew = time.Unix(0, s.Wall).Sub(begin.Add(k.rtt / 2))
	if k.dataID == "" {
		k.dataID = s.DataID
	}
	return true
}

// promote gives a vote to every nonvoter that wants one and has kept up for long enough, and takes it from members that
// lost their data.
func (p *peers) promote(ctx context.Context) {
	if _, ok := p.g.Serving(); !ok {
		return
	}
	servers, _ := p.g.configuration()
	last := p.g.raft().LastIndex()
	var ready []string
	var lost []raft.Server
	p.mu.Lock()
	for _, s := range servers {
		k := p.known[string(s.ID)]
		switch {
		case k == nil || !k.up:
			continue
		case k.dataID != k.status.DataID:
			lost = append(lost, s)
			continue
		case s.Suffrage == raft.Voter || !k.status.WantsVote:
			continue
		}
		if k.status.AppliedIndex+PromoteLag < last {
			k.since = time.Time{}
			continue
		}
		if k.since.IsZero() {
			k.since = time.Now()
		}
		if time.Since(k.since) >= p.g.cfg.PromoteAfter {
			ready = append(ready, string(s.ID))
		}
	}
	p.mu.Unlock()
	for _, s := range lost {
		cctx, cancel := context.WithTimeout(ctx, controlTimeout)
		if err := p.g.readmit(cctx, s, string(s.Address)); err != nil {
			p.g.cfg.Logger.Warn("readmit", "member", s.ID, "error", err)
		}
		cancel()
	}
	for _, id := range ready {
		cctx, cancel := context.WithTimeout(ctx, controlTimeout)
		err := p.g.Promote(cctx, id)
		cancel()
		p.g.cfg.Logger.Info("member has caught up and gets a vote", "member", id, "error", err)
	}
}

// transferTarget chooses who is to lead: the given member, or the most caught-up voter. It must answer now: Raft offers
// leadership to a dead node as readily, and accepts nothing until that has timed out.
func (p *peers) transferTarget(ctx context.Context, id string) (Member, error) {
	servers, _ := p.g.configuration()
	if id != "" {
		s, ok := findServer(servers, id)
		if !ok {
			return Member{}, fmt.Errorf("%w: %s", ErrUnknownMember, id)
		}
		if s.Suffrage != raft.Voter {
			return Member{}, fmt.Errorf("member %s has no vote", id)
		}
		servers = []raft.Server{s}
	}
	p.mu.Lock()
	last := make(map[raft.ServerID]uint64)
	for id, k := range p.known {
		last[raft.ServerID(id)] = k.status.LastIndex
	}
	p.mu.Unlock()
	slices.SortFunc(servers, func(a, b raft.Server) int { return cmp.Compare(last[b.ID], last[a.ID]) })
	for _, s := range servers {
		if string(s.ID) == p.g.cfg.NodeID || s.Suffrage != raft.Voter {
			continue
		}
		if p.ask(ctx, string(s.ID), string(s.Address)) {
			return Member{ID: string(s.ID), Addr: string(s.Address)}, nil
		}
	}
	return Member{}, ErrNoTarget
}

// lost reports whether a member, known by another name of its data, has lost that.
func (p *peers) lost(id, dataID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[id]
	return k != nil && k.dataID != "" && k.dataID != dataID
}

func (p *peers) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, id)
}
