package raftlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
)

const (
	foundInterval = 300 * time.Millisecond // between two attempts to join or to found
	askTimeout    = time.Second            // for another node's answer that it is there
	callTimeout   = 2 * time.Second        // of a single attempt

	// waitInterval is between two messages of a node that is part of no cluster yet, or whose peers are of another.
	waitInterval = 10 * time.Second

	// takeoverAfter is how long a node waits for each one of a lower id to propose a founding, before it does.
	takeoverAfter = 2 * time.Second

	// proposerSilent is how long a founder does not hear of the proposer before it asks the others.
	proposerSilent = 1500 * time.Millisecond

	// The proposer votes to abandon a founding that not all have accepted for that long; the others leave it some time.
	proposerPatience = 3 * time.Second
	founderPatience  = 6 * time.Second
)

// foundArgs are the arguments of the operation by which nodes that wait for a cluster present themselves, and talk about its
// founding.
type foundArgs struct {
	From presence `json:"from"`
	Word *word    `json:"word,omitempty"`
}

// foundAnswer answers in the same way.
type foundAnswer struct {
	Node   presence `json:"node"`
	Stages []stage  `json:"stages,omitempty"`
}

// convening is one node's attempt to become part of a cluster.
type convening struct {
	g     *Group
	ready time.Time // since when the node could propose a founding; zero = it cannot
	since time.Time // since when it has been bound to undecided
	to    string    // the founding that it is bound to
}

// found makes the node part of a cluster: it joins the one its peers belong to; or, when there is none, founds one with
// them. The same configuration serves first start, restart and growth, because joining comes first and a node with data
// founds nothing.
func (g *Group) found(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	c := convening{g: g}
	tell := time.Now().Add(waitInterval / 4)
	for !g.settled() {
		select {
		case <-ctx.Done():
			return
		case <-g.decided:
		case <-t.C:
		}
		answered, silent, failed := g.ask(ctx)
		joined, errs := g.tryJoin(ctx, answered)
		failed = append(failed, errs...)
		if !joined {
			failed = append(failed, c.step(ctx, answered, silent)...)
		} else if _, s, _ := g.cur.Load().id.bound(); s == unknown {
			return
		}
		if err := g.enter(ctx); err != nil {
			failed = append(failed, err)
		}
		if now := time.Now(); now.After(tell) && !g.settled() && ctx.Err() == nil {
			tell = now.Add(waitInterval)
			g.cfg.Logger.Warn("not part of the cluster yet", "why", errors.Join(failed...), "bootstrap_expect", g.cfg.BootstrapExpect)
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
			if errors.Is(err, peer.ErrSecret) {
				g.cfg.Logger.Warn("an address of join refuses this node, which goes on without it", "peer", addr, "error", err)
			}
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

// settled reports whether the node is a member under the address it advertises, or has nobody to ask.
func (g *Group) settled() bool {
	servers, _ := g.configuration()
	s, ok := findServer(servers, g.cfg.NodeID)
	if ok && string(s.Address) == g.cfg.Advertise {
		return true
	}
	return len(servers) > 0 && len(g.cfg.Join) == 0
}

// presence returns how the node presents itself.
func (g *Group) presence() presence {
	id := g.cur.Load().id
	token, _ := id.free()
	p := presence{
		founder: founder{ID: g.cfg.NodeID, Addr: g.cfg.Advertise, Data: id.data, Token: token},
		Expect:  g.cfg.BootstrapExpect,
		Cluster: id.clusterID(),
	}
	if p.Cluster == "" {
		p.Founding = id.founding()
	}
	return p
}

// ask presents the node to all others it knows an address of, and returns those that have answered, at the address that
// they advertise, how many of Config.Join have not, and why.
func (g *Group) ask(ctx context.Context) (answered []presence, silent int, failed []error) {
	addrs := g.roll.recent(time.Now())
	if f, _, _ := g.cur.Load().id.bound(); f != nil {
		for _, o := range f.Founders {
			addrs = append(addrs, o.Addr)
		}
	}
	addrs = append(addrs, g.cfg.Join...)
	slices.Sort(addrs)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == g.cfg.Advertise })
	answers, errs := make([]foundAnswer, len(addrs)), make([]error, len(addrs))
	own := foundArgs{From: g.presence()}
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			errs[i] = g.Call(ctx, addr, opFound, own, &answers[i])
		})
	}
	wg.Wait()
	nodes, reached := make(map[string]presence), make(map[string]bool) // by data
	for i, addr := range addrs {
		p := answers[i].Node
		if errs[i] == nil {
			errs[i] = member.CheckNodeID(p.ID)
		}
		switch {
		case errs[i] != nil:
			if slices.Contains(g.cfg.Join, addr) {
				silent++
				failed = append(failed, g.roll.name(addr, errs[i]))
			}
		case p.Data != own.From.Data:
			g.roll.note(p.ID, addr, p.Addr)
			nodes[p.Data] = p
			reached[p.Data] = reached[p.Data] || p.Addr == addr
		}
	}
	for data, p := range nodes {
		if reached[data] || p.Cluster != "" {
			answered = append(answered, p)
			continue
		}
		silent++
		failed = append(failed, fmt.Errorf("%s answers, but has not yet at %s, which it advertises", p.ID, p.Addr))
	}
	slices.SortFunc(answered, func(a, b presence) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Data, b.Data)) })
	return answered, silent, failed
}

// tryJoin asks each node that is in a cluster to be taken in, and tells whether one has. Without any it returns no error.
func (g *Group) tryJoin(ctx context.Context, answered []presence) (joined bool, failed []error) {
	id := g.cur.Load().id
	if id.removed.Load() {
		return false, []error{errRemoved}
	}
	f, s, _ := id.bound()
	for _, p := range answered {
		switch {
		case p.Cluster == "":
			continue
		case f != nil && p.Cluster != f.ID:
			failed = append(failed, fmt.Errorf("%v is in another cluster than the one that this node has agreed to found", p))
			continue
		case f != nil && s == founded:
			return true, nil // it is in it
		}
		cctx, cancel := context.WithTimeout(ctx, callTimeout)
		err := g.Call(cctx, p.Addr, opJoin, memberArgs{ID: g.cfg.NodeID, Addr: g.cfg.Advertise}, nil)
		cancel()
		if err == nil {
			g.cfg.Logger.Info("joined the cluster", "through", p.Addr)
			return true, nil
		}
		failed = append(failed, fmt.Errorf("join the cluster of %v: %w", p, err))
	}
	return false, failed
}

// step brings a founding forward, the one that the node is bound to, or one that it proposes. It returns what is in the way.
func (c *convening) step(ctx context.Context, answered []presence, silent int) (failed []error) {
	id := c.g.cur.Load().id
	_, free := id.free()
	if free && c.g.cfg.BootstrapExpect > 0 {
		if failed = c.propose(answered, silent); failed != nil {
			return failed
		}
	}
	f, s, said := id.bound()
	if f == nil {
		c.to = ""
		if free && c.g.cfg.BootstrapExpect == 0 {
			failed = foundsNone(answered)
		}
		return failed
	}
	now := time.Now()
	if c.to != f.ID {
		c.to, c.since = f.ID, now
	}
	mine, patience := f.Proposer == c.g.cfg.NodeID, founderPatience
	if mine {
		patience = proposerPatience
	}
	if s == accepted && now.Sub(c.since) >= patience {
		c.g.cfg.Logger.Warn("vote to abandon a founding that not all have accepted", "founding", id.waitsFor())
		if err := id.abandon(); err != nil {
			return []error{err}
		}
	}
	if mine || now.Sub(cmp.Or(said, c.since)) >= proposerSilent {
		failed = c.g.exchange(ctx, f)
	}
	if waits := id.waitsFor(); waits != "" {
		failed = append(failed, fmt.Errorf("a founding that this node has accepted is undecided: %s. Those may have founded the cluster: start them. Only if they are gone for good, wipe this node's data directory", waits))
	}
	return failed
}

// foundsNone tells what a node lacks that may found no cluster, and has none to join.
func foundsNone(answered []presence) (why []error) {
	for _, p := range answered {
		if p.Cluster == "" {
			why = append(why, fmt.Errorf("%v is in no cluster either", p))
		}
	}
	return append(why, errors.New("bootstrap-expect is 0, so that this node founds none: start the cluster that it is to join, or give all founders the same bootstrap-expect"))
}

// propose proposes a founding, if enough nodes wait for one and none of a lower id does it.
func (c *convening) propose(answered []presence, silent int) (failed []error) {
	own, id := c.g.presence(), c.g.cur.Load().id
	set, before, failed := founders(own, answered, silent)
	if set == nil {
		c.ready = time.Time{}
		return failed
	}
	now := time.Now()
	if c.ready.IsZero() {
		c.ready = now
	}
	if wait := time.Duration(before) * takeoverAfter; now.Sub(c.ready) < wait {
		return append(failed, fmt.Errorf("%s is to found the cluster", answered[0].ID))
	}
	c.ready = time.Time{}
	if err := id.propose(founding{ID: rand.Text(), Proposer: own.ID, Founders: set}); err != nil {
		return append(failed, fmt.Errorf("propose to found a cluster: %w", err))
	}
	return nil
}

// exchange tells the other founders what this node knows, and hears what they do, until that changes nothing.
func (g *Group) exchange(ctx context.Context, f *founding) (failed []error) {
	id := g.cur.Load().id
	for before := unknown; ; {
		_, now, _ := id.bound()
		stages := id.say(f)
		if stages == nil || now == before {
			return failed
		}
		before, failed = now, nil
		args := foundArgs{From: g.presence(), Word: &word{Founding: *f, From: g.cfg.NodeID, Stages: stages}}
		errs := make([]error, len(f.Founders))
		var wg sync.WaitGroup
		for i, o := range f.Founders {
			if o.ID != g.cfg.NodeID {
				wg.Go(func() { errs[i] = g.tell(ctx, f, o, args) })
			}
		}
		if now == founded {
			if err := g.enter(ctx); err != nil { // the others meanwhile hear of it
				failed = append(failed, err)
			}
		}
		wg.Wait()
		failed = append(failed, slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
	}
}

// tell tells one founder what this node knows, and hears what it does.
func (g *Group) tell(ctx context.Context, f *founding, to founder, args foundArgs) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var a foundAnswer
	if err := g.Call(ctx, to.Addr, opFound, args, &a); err != nil {
		return fmt.Errorf("founder %s: %w", to.ID, err)
	}
	if a.Node.Data != to.Data {
		return fmt.Errorf("founder %s has lost its data, and knows no more what it has agreed to", to.ID)
	}
	_, err := g.cur.Load().id.hear(word{Founding: *f, From: to.ID, Stages: a.Stages}, g.cfg.BootstrapExpect)
	return err
}

// heard answers a node that presents itself, and may have something to say about a founding.
func (g *Group) heard(raw json.RawMessage) (foundAnswer, error) {
	var args foundArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return foundAnswer{}, fmt.Errorf("arguments of %s: %w", opFound, err)
	}
	if err := member.CheckNodeID(args.From.ID); err != nil {
		return foundAnswer{}, err
	}
	if args.From.ID != g.cfg.NodeID {
		g.roll.note(args.From.ID, args.From.Addr)
	}
	if args.Word == nil {
		return foundAnswer{Node: g.presence()}, nil
	}
	id := g.cur.Load().id
	stages, err := id.hear(*args.Word, g.cfg.BootstrapExpect)
	if f, s, _ := id.bound(); f == nil || s == founded {
		g.stir()
	}
	return foundAnswer{Node: g.presence(), Stages: stages}, err
}

// stir makes the node look at once at what it has heard.
func (g *Group) stir() {
	select {
	case g.decided <- struct{}{}:
	default:
	}
}

// enter makes the node part of the cluster that has been founded. Every founder puts the same configuration at the beginning
// of its log, so that it takes no particular one to begin.
func (g *Group) enter(ctx context.Context) error {
	id := g.cur.Load().id
	f, s, _ := id.bound()
	if f == nil || s != founded {
		return nil
	}
	var conf raft.Configuration
	for _, o := range f.Founders {
		conf.Servers = append(conf.Servers, raft.Server{Suffrage: raft.Voter, ID: member.ServerID(o.ID, o.Data), Address: raft.ServerAddress(o.Addr)})
	}
	err := id.enter(f, func() error {
		err := await(ctx, func() raft.Future { return g.raft().BootstrapCluster(conf) })
		if errors.Is(err, raft.ErrCantBootstrap) {
			return nil // it has, in an attempt that seemed to fail
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("found the cluster: %w", err)
	}
	g.cfg.Logger.Info("founded a cluster", "voters", len(f.Founders), "proposed_by", f.Proposer)
	return nil
}
