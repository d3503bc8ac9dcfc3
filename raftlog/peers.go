package raftlog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/internal/boottime"
	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
)

const (
	pollInterval = time.Second            // between two polls of the peers
	meetInterval = 100 * time.Millisecond // while one of them has never answered
	pollTimeout  = 500 * time.Millisecond // for one answer
)

// PromoteLag is how many entries a node may be behind the leader and still count as caught
// up. It is about a second of full batches.
const PromoteLag = 256

// peers holds the last answer of every member. Each node asks all others. So a new leader
// knows at once which members have caught up, and a node without a leader still knows at
// which addresses its peers serve clients.
type peers struct {
	g *Group

	control atomic.Pointer[peer.Listener] // the group's, once it has started; it closes the lines

	asked chan struct{} // closed after the first round
	gone  atomic.Bool   // as of the last round, the peers know that this node was removed

	// mu guards the fields below.
	mu    sync.Mutex
	known map[raft.ServerID]*peerState
	lines map[raft.ServerID]*line

	// The indexes of the newest memberships with and without this node that peers have
	// reported.
	with, without uint64

	member bool // this process has seen the node in a membership of its log

	// Addresses of members that have moved: they do not answer at their recorded address,
	// and the membership does not know the new one yet.
	found map[raft.ServerID]string

	// The address of a peer that has a wrong address for this node; "" if there is none.
	misled string
}

// peerState is what is known of one other member.
type peerState struct {
	status  Status        // its last answer
	seen    time.Time     // when that came; zero = never
	up      bool          // the last question was answered
	rtt     time.Duration // of the last answer
	wall    int64         // its wall clock minus our time since boot: our wall clock may be set at any time
	lag     uint64        // entries behind this node's commit index when it asked
	lagTime time.Duration
	since   time.Time // since when it has been caught up; zero = it is not
	foreign bool      // it answered with data of another cluster
	lost    bool      // it answered with other data than the member's

	// The highest term and the last applied entry in all answers of the member with its
	// present data. The member has stored both durably.
	heldTerm, heldIndex uint64
}

func newPeers(g *Group) *peers {
	return &peers{g: g, known: make(map[raft.ServerID]*peerState), lines: make(map[raft.ServerID]*line), found: make(map[raft.ServerID]string), asked: make(chan struct{})}
}

// run polls until ctx ends, and promotes.
func (p *peers) run(ctx context.Context) {
	var next time.Time
	first := true
	for {
		if now := time.Now(); now.After(next) || p.strangers() {
			next = now.Add(untilBeat(p.g.cfg.Advertise, pollInterval) - meetInterval/2) // a beat may come early by rounding
			p.poll(ctx)
			if first {
				first = false
				close(p.asked)
			}
			p.promote(ctx)
			p.g.correctOwnAddr(ctx)
			p.tellAddr(ctx)
		}
		// Try this at every turn, so that a new cluster need not wait for the next poll.
		p.g.raise(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(untilBeat(p.g.cfg.Advertise, meetInterval)):
		}
	}
}

// strangers reports whether some other member has never answered.
func (p *peers) strangers() bool {
	servers, _ := p.g.configuration()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(servers, func(s raft.Server) bool {
		k := p.known[s.ID]
		return member.NodeOf(s.ID) != p.g.cfg.NodeID && (k == nil || k.seen.IsZero() && !k.foreign)
	})
}

// poll asks all other members at once.
func (p *peers) poll(ctx context.Context) {
	servers, _ := p.g.configuration()
	var wg sync.WaitGroup
	for _, s := range servers {
		if member.NodeOf(s.ID) != p.g.cfg.NodeID {
			wg.Go(func() { p.ask(ctx, s) })
		}
	}
	for _, addr := range p.elsewhere(servers) {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, pollTimeout)
			defer cancel()
			if s, err := p.g.Caller().Status(ctx, addr); err == nil {
				p.locate(&s, addr)
			}
		})
	}
	wg.Wait()
	servers, _ = p.g.configuration() // one may have been removed meanwhile
	p.mu.Lock()
	defer p.mu.Unlock()
	// A single peer that is behind may not know yet that this node was added.
	gone := p.without > max(p.with, p.g.membershipIndex())
	if gone && !p.gone.Load() {
		p.g.cfg.Logger.Error(member.ErrRemoved.Error())
	}
	p.gone.Store(gone)
	id := p.g.cur.Load().id
	in := slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id.Server() })
	p.member = p.member || in
	// A node that catches up first gets old memberships, without itself.
	if p.member || gone {
		if err := id.NoteRemoved(gone || !in); err != nil {
			p.g.cfg.Logger.Error("remember the removal of this node", "error", err)
		}
	}
	maps.DeleteFunc(p.known, func(id raft.ServerID, _ *peerState) bool {
		return !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id })
	})
	maps.DeleteFunc(p.lines, func(id raft.ServerID, l *line) bool {
		gone := !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id })
		if gone {
			go l.close()
		}
		return gone
	})
	maps.DeleteFunc(p.found, func(id raft.ServerID, addr string) bool {
		return !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id && string(s.Address) != addr })
	})
}

// elsewhere returns addresses at which to look for a member that does not answer at its
// own: those of Config.Join, and the address that this node had before it moved.
func (p *peers) elsewhere(servers []raft.Server) (addrs []string) {
	own := p.g.cfg.Advertise
	p.mu.Lock()
	defer p.mu.Unlock()
	missing := false
	asked := []string{own}
	for _, s := range servers {
		if member.NodeOf(s.ID) == p.g.cfg.NodeID {
			addrs = append(addrs, string(s.Address))
			continue
		}
		k := p.known[s.ID]
		missing = missing || k == nil || !k.up
		asked = append(asked, p.place(s.ID, s.Address))
	}
	if !missing {
		return nil
	}
	addrs = append(addrs, p.g.cfg.Join...)
	slices.Sort(addrs)
	return slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return slices.Contains(asked, a) })
}

// locate notes at which address a member has answered, if that is not the address where it
// was asked last. The leader corrects the membership, but the member must find the leader
// first.
func (p *peers) locate(s *Status, addr string) {
	id := member.ServerID(s.NodeID, s.DataID)
	servers, _ := p.g.configuration()
	if s.NodeID == p.g.cfg.NodeID || s.ClusterID != p.g.cur.Load().id.Cluster() ||
		!slices.ContainsFunc(servers, func(m raft.Server) bool { return m.ID == id }) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.known[id]; k == nil || !k.up {
		p.found[id] = addr
	}
}

// where returns the address at which to reach a member: where it was found, or its
// recorded address.
func (p *peers) where(id raft.ServerID, recorded raft.ServerAddress) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.place(id, recorded)
}

// place is where, with mu held.
func (p *peers) place(id raft.ServerID, recorded raft.ServerAddress) string {
	return cmp.Or(p.found[id], string(recorded))
}

// tellAddr sends this node's address to the cluster if a peer has a wrong address for this
// node, or none. The leader cannot do this, because it does not reach this node.
func (p *peers) tellAddr(ctx context.Context) {
	p.mu.Lock()
	to := p.misled
	p.misled = ""
	p.mu.Unlock()
	if to == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inviteTimeout)
	defer cancel()
	err := p.g.Call(ctx, to, opJoin, memberArgs{ID: p.g.cfg.NodeID, Addr: p.g.cfg.Advertise}, nil)
	level := slog.LevelInfo
	if err != nil { // it will be tried again
		level = slog.LevelDebug
	}
	p.g.cfg.Logger.Log(ctx, level, "told the cluster the address of this node", "addr", p.g.cfg.Advertise, "error", err)
}

// line returns the line to a member.
func (p *peers) line(id raft.ServerID) *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines[id] == nil {
		p.lines[id] = new(line)
	}
	return p.lines[id]
}

// dial opens a control connection that is closed with the group. Raft may ask a peer before
// the group has started.
func (p *peers) dial(ctx context.Context, addr string) (net.Conn, error) {
	l := p.control.Load()
	if l == nil {
		return p.g.Caller().Dial(ctx, addr)
	}
	return l.Dial(ctx, "", "", addr)
}

// ask updates what is known of one member. It reports whether the member has answered,
// with the data of its membership.
func (p *peers) ask(ctx context.Context, srv raft.Server) bool {
	id, addr := member.NodeOf(srv.ID), p.where(srv.ID, srv.Address)
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	commit := p.g.raft().CommitIndex()
	clock, _, _ := p.g.keptClock()
	l := p.line(srv.ID)
	begin, boot := time.Now(), boottime.Now()
	s, err := l.status(ctx, Caller{Dial: p.dial}, addr)
	end := time.Now()
	switch {
	case err == nil && s.NodeID == id:
		p.learn(&s, addr)
	case err == nil:
		p.locate(&s, addr)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[srv.ID]
	if k == nil {
		k = &peerState{}
		p.known[srv.ID] = k
	}
	k.up = err == nil && s.NodeID == id
	if k.up && p.g.cur.Load().id.Foreign(s.ClusterID) {
		k.up = false
		if !k.foreign {
			p.g.cfg.Logger.Error("member holds data of another cluster; wipe its data directory", "member", id, "addr", addr)
		}
		k.foreign = true
	} else if k.up {
		k.foreign = false
	}
	if (!k.up || s.DataID != member.DataOf(srv.ID)) && p.found[srv.ID] == addr {
		delete(p.found, srv.ID)
	}
	if !k.up {
		k.since = time.Time{}
		return false
	}
	k.status, k.seen, k.rtt = s, end, end.Sub(begin)
	if _, serving := p.g.Serving(); s.Serving && !serving {
		p.g.keeper.unset.Store(s.ClockUnset)
	}
	k.lag, k.lagTime = 0, 0
	if s.AppliedIndex < commit {
		k.lag = commit - s.AppliedIndex
		if s.Clock > 0 {
			k.lagTime = max(0, time.Duration(clock-s.Clock))
		}
	}
	k.wall = s.Wall - boot - int64(k.rtt/2)
	if k.lost = s.DataID != member.DataOf(srv.ID); k.lost {
		return false
	}
	k.heldTerm, k.heldIndex = max(k.heldTerm, s.Term), max(k.heldIndex, s.AppliedIndex)
	return true
}

// learn takes from a peer's answer two facts that this node cannot find out alone: that
// this node was removed while it heard nobody, and that its data is an older copy.
func (p *peers) learn(s *Status, addr string) {
	in := p.g.cur.Load()
	if in.id.Cluster() == "" || s.ClusterID != in.id.Cluster() {
		return
	}
	i := slices.IndexFunc(s.Members, func(m Member) bool { return m.ID == in.id.Node() && m.DataID == in.id.Data() })
	p.mu.Lock()
	if i < 0 {
		p.without = max(p.without, s.MembershipIndex)
	} else {
		p.with = max(p.with, s.MembershipIndex)
		if s.MembershipIndex >= p.g.membershipIndex() && s.Members[i].Addr != p.g.cfg.Advertise {
			p.misled = addr
		}
	}
	p.mu.Unlock()
	if i < 0 {
		return
	}
	m := s.Members[i]
	if last, term := in.raft.LastIndex(), in.raft.CurrentTerm(); m.HeldIndex > last || m.HeldTerm > term {
		p.g.halt(fmt.Errorf("%w: %s has seen this node at entry %d and term %d, but this node now has %d entries and term %d; "+disk.Wipe,
			ErrSetBack, s.NodeID, m.HeldIndex, m.HeldTerm, last, term))
	}
}

// removed reports whether this node knows that it is no longer a member.
func (g *Group) removed() bool {
	servers, _ := g.configuration()
	in := g.cur.Load()
	return g.peers.gone.Load() || len(servers) > 0 && !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == in.id.Server() })
}

// promote gives a vote to every nonvoter that wants one and has kept up for long enough.
// It takes the vote from members that have lost their data.
func (p *peers) promote(ctx context.Context) {
	if _, ok := p.g.Serving(); !ok {
		return
	}
	servers, _ := p.g.configuration()
	last := p.g.raft().LastIndex()
	var ready []string
	var lost []memberArgs
	p.mu.Lock()
	for _, s := range servers {
		k := p.known[s.ID]
		switch {
		case k == nil || !k.up:
			continue
		case k.lost:
			lost = append(lost, memberArgs{ID: member.NodeOf(s.ID), Addr: string(s.Address)})
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
			ready = append(ready, member.NodeOf(s.ID))
		}
	}
	p.mu.Unlock()
	for _, m := range lost {
		cctx, cancel := context.WithTimeout(ctx, controlTimeout)
		if err := p.g.join(cctx, m); err != nil {
			p.g.cfg.Logger.Warn("readmit", "member", m.ID, "error", err)
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
