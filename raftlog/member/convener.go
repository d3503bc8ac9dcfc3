package member

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// AttemptInterval is the time between two attempts to join or to found.
const AttemptInterval = 300 * time.Millisecond

const (
	askTimeout  = time.Second     // for another node's answer to a greeting
	callTimeout = 2 * time.Second // of a single attempt

	// waitingInterval is the time between two messages of a node that is in no cluster
	// yet.
	waitingInterval = 10 * time.Second

	// takeoverAfter is how long a node waits, for each node with a lower id, until that
	// node proposes a founding. After that it proposes one itself.
	takeoverAfter = 2 * time.Second

	// proposerSilent is how long a founder hears nothing from the proposer before it asks
	// the others.
	proposerSilent = 1500 * time.Millisecond

	// How long the proposer waits for all to accept before it votes to abandon the
	// founding. The other founders wait longer.
	proposerPatience = 3 * time.Second
	founderPatience  = 6 * time.Second
)

// Greeting is the message by which nodes that wait for a cluster introduce themselves, and
// talk about its founding.
type Greeting struct {
	From presence `json:"from"`
	Word *word    `json:"word,omitempty"`
}

// Answer answers a Greeting.
type Answer struct {
	Node   presence `json:"node"`
	Stages []stage  `json:"stages,omitempty"`
}

// Node is what a Convener needs from its node.
type Node interface {
	// Identity returns the node's present identity, which a restart of Raft replaces.
	Identity() *Identity

	// Settled reports whether there is nothing more to do: the node is a member under the
	// address that it advertises, or it has no other node to ask.
	Settled() bool

	// Greet presents the node to the node at addr.
	Greet(ctx context.Context, addr string, g Greeting) (Answer, error)

	// Join asks the node at addr, and its leader, to add this node.
	Join(ctx context.Context, addr string) error

	// Bootstrap begins the log with a membership. It returns nil if there already is a
	// log.
	Bootstrap(ctx context.Context, members raft.Configuration) error
}

// ConvenerConfig configures a Convener.
type ConvenerConfig struct {
	NodeID string
	Addr   string   // the address that the node advertises
	Join   []string // addresses of other nodes; the node's own may be among them
	Expect int      // how many founders a cluster has; 0: this node never founds one
	Groups int      // how many groups the cluster has
	Within string   // the id of the cluster of the node's group 0; "" for group 0
	Logger *slog.Logger
}

// Convener makes a node part of a cluster. The node joins the cluster of its peers or, if
// there is none, founds one with them. It tries to join first, and a node with data founds
// nothing. So the same configuration is right for the first start, a restart and growth.
type Convener struct {
	cfg  ConvenerConfig
	node Node
	roll roll
	wake chan struct{} // capacity 1

	// The fields below belong to Run.
	readySince time.Time // since when the node could propose a founding; zero = it cannot
	boundSince time.Time // since when the node has been bound to an undecided founding
	boundTo    string    // the id of that founding
}

// NewConvener returns a Convener for a node.
func NewConvener(cfg ConvenerConfig, n Node) *Convener {
	return &Convener{cfg: cfg, node: n, wake: make(chan struct{}, 1)}
}

// Run tries until the node is a member, or until ctx ends. It returns true if the node has
// settled, and false if a leader is about to add it. The error is ErrGroups if there is a
// cluster, and it has another number of groups.
func (c *Convener) Run(ctx context.Context) (settled bool, err error) {
	t := time.NewTimer(0)
	defer t.Stop()
	tell := time.Now().Add(waitingInterval / 4)
	for !c.node.Settled() {
		select {
		case <-ctx.Done():
			return false, nil
		case <-c.wake:
		case <-t.C:
		}
		answered, silent, failed := c.ask(ctx)
		for _, p := range answered {
			if p.Cluster != "" {
				if err := SameGroups(p.ID, p.Groups, c.cfg.Groups); err != nil {
					return false, err
				}
			}
		}
		joined, errs := c.tryJoin(ctx, answered)
		failed = append(failed, errs...)
		if !joined {
			failed = append(failed, c.step(ctx, answered, silent)...)
		} else if _, s, _ := c.node.Identity().bound(); s == unknown {
			return false, nil
		}
		if err := c.enter(ctx); err != nil {
			failed = append(failed, err)
		}
		if now := time.Now(); now.After(tell) && !c.node.Settled() && ctx.Err() == nil {
			tell = now.Add(waitingInterval)
			c.cfg.Logger.Warn("not part of the cluster yet", "why", errors.Join(failed...), "bootstrap_expect", c.cfg.Expect)
		}
		t.Reset(AttemptInterval)
	}
	return true, nil
}

// presence returns how the node presents itself.
func (c *Convener) presence() presence {
	id := c.node.Identity()
	token, _ := id.free()
	p := presence{
		founder: founder{ID: c.cfg.NodeID, Addr: c.cfg.Addr, Data: id.data, Token: token},
		Expect:  c.cfg.Expect,
		Groups:  c.cfg.Groups,
		Within:  c.cfg.Within,
		Cluster: id.Cluster(),
	}
	if p.Cluster == "" {
		p.Founding = id.Founding()
	}
	return p
}

// ask introduces the node to all other nodes whose address it knows. It returns the nodes
// that have answered at the address that they advertise, and how many addresses of
// Config.Join have not answered, and why.
func (c *Convener) ask(ctx context.Context) (answered []presence, silent int, failed []error) {
	addrs := c.roll.recent(time.Now())
	if f, _, _ := c.node.Identity().bound(); f != nil {
		for _, o := range f.Founders {
			addrs = append(addrs, o.Addr)
		}
	}
	addrs = append(addrs, c.cfg.Join...)
	slices.Sort(addrs)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == c.cfg.Addr })
	answers, errs := make([]Answer, len(addrs)), make([]error, len(addrs))
	own := Greeting{From: c.presence()}
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			answers[i], errs[i] = c.node.Greet(ctx, addr, own)
		})
	}
	wg.Wait()
	nodes, reached := make(map[string]presence), make(map[string]bool) // by the id of their data
	for i, addr := range addrs {
		p := answers[i].Node
		if errs[i] == nil {
			errs[i] = CheckNodeID(p.ID)
		}
		switch {
		case errs[i] != nil:
			if slices.Contains(c.cfg.Join, addr) {
				silent++
				failed = append(failed, c.roll.name(addr, errs[i]))
			}
		case p.Within != own.From.Within:
			failed = append(failed, fmt.Errorf("group 0 of %v is in another cluster, or in none yet", p))
		case p.Data != own.From.Data:
			c.roll.note(p.ID, addr, p.Addr)
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
		failed = append(failed, fmt.Errorf("%s answers, but not yet at %s, the address that it advertises", p.ID, p.Addr))
	}
	slices.SortFunc(answered, func(a, b presence) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Data, b.Data)) })
	return answered, silent, failed
}

// tryJoin asks each node that is in a cluster to add this one, and reports whether one
// has. If no node is in a cluster, it returns no error.
func (c *Convener) tryJoin(ctx context.Context, answered []presence) (joined bool, failed []error) {
	id := c.node.Identity()
	if id.Removed() {
		return false, []error{ErrRemoved}
	}
	f, s, _ := id.bound()
	for _, p := range answered {
		switch {
		case p.Cluster == "":
			continue
		case f != nil && p.Cluster != f.ID:
			failed = append(failed, fmt.Errorf("%v is not in the cluster that this node has agreed to found", p))
			continue
		case f != nil && s == founded:
			return true, nil // it is a member
		}
		cctx, cancel := context.WithTimeout(ctx, callTimeout)
		err := c.node.Join(cctx, p.Addr)
		cancel()
		if err == nil {
			c.cfg.Logger.Info("joined the cluster", "through", p.Addr)
			return true, nil
		}
		failed = append(failed, fmt.Errorf("join the cluster of %v: %w", p, err))
	}
	return false, failed
}

// step advances a founding: the founding to which the node is bound, or one that the node
// proposes. It returns the reason why the founding cannot advance.
func (c *Convener) step(ctx context.Context, answered []presence, silent int) (failed []error) {
	id := c.node.Identity()
	_, free := id.free()
	if free && c.cfg.Expect > 0 {
		if failed = c.propose(answered, silent); failed != nil {
			return failed
		}
	}
	f, s, heard := id.bound()
	if f == nil {
		c.boundTo = ""
		if free && c.cfg.Expect == 0 {
			failed = foundsNone(answered)
		}
		return failed
	}
	now := time.Now()
	if c.boundTo != f.ID {
		c.boundTo, c.boundSince = f.ID, now
	}
	mine, patience := f.Proposer == c.cfg.NodeID, founderPatience
	if mine {
		patience = proposerPatience
	}
	if s == accepted && now.Sub(c.boundSince) >= patience {
		c.cfg.Logger.Warn("vote to abandon a founding that some founders have not accepted", "founding", id.waitsFor())
		if err := id.abandon(); err != nil {
			return []error{err}
		}
	}
	if mine || now.Sub(cmp.Or(heard, c.boundSince)) >= proposerSilent {
		failed = c.exchange(ctx, f)
	}
	if waits := id.waitsFor(); waits != "" {
		failed = append(failed, fmt.Errorf("this node has agreed to found a cluster, and does not know whether the cluster was founded: %s. Start all founders. Only if they are gone for good, wipe this node's data directory", waits))
	}
	return failed
}

// foundsNone says what is missing for a node that must not found a cluster and has none
// to join.
func foundsNone(answered []presence) (why []error) {
	for _, p := range answered {
		if p.Cluster == "" {
			why = append(why, fmt.Errorf("%v is also in no cluster", p))
		}
	}
	return append(why, errors.New("bootstrap-expect is 0, so this node founds no cluster: start the cluster that this node should join, or give all founders the same bootstrap-expect"))
}

// propose proposes a founding, if enough nodes wait for one and no node of a lower id
// proposes it.
func (c *Convener) propose(answered []presence, silent int) (failed []error) {
	own, id := c.presence(), c.node.Identity()
	set, before, failed := founders(own, answered, silent)
	if set == nil {
		c.readySince = time.Time{}
		return failed
	}
	now := time.Now()
	if c.readySince.IsZero() {
		c.readySince = now
	}
	if wait := time.Duration(before) * takeoverAfter; now.Sub(c.readySince) < wait {
		return append(failed, fmt.Errorf("waiting for %s to propose the cluster", answered[0].ID))
	}
	c.readySince = time.Time{}
	if err := id.propose(founding{ID: rand.Text(), Proposer: own.ID, Founders: set, Groups: own.Groups}); err != nil {
		return append(failed, fmt.Errorf("propose to found a cluster: %w", err))
	}
	return nil
}

// exchange tells the other founders what this node knows, and hears what they know, until
// nothing changes.
func (c *Convener) exchange(ctx context.Context, f *founding) (failed []error) {
	id := c.node.Identity()
	for before := unknown; ; {
		_, now, _ := id.bound()
		stages := id.say(f)
		if stages == nil || now == before {
			return failed
		}
		before, failed = now, nil
		args := Greeting{From: c.presence(), Word: &word{Founding: *f, From: c.cfg.NodeID, Stages: stages}}
		errs := make([]error, len(f.Founders))
		var wg sync.WaitGroup
		for i, o := range f.Founders {
			if o.ID != c.cfg.NodeID {
				wg.Go(func() { errs[i] = c.tell(ctx, f, o, args) })
			}
		}
		if now == founded {
			if err := c.enter(ctx); err != nil { // meanwhile the others hear of it
				failed = append(failed, err)
			}
		}
		wg.Wait()
		failed = append(failed, slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
	}
}

// tell tells one founder what this node knows, and hears what the founder knows.
func (c *Convener) tell(ctx context.Context, f *founding, to founder, args Greeting) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a, err := c.node.Greet(ctx, to.Addr, args)
	if err != nil {
		return fmt.Errorf("founder %s: %w", to.ID, err)
	}
	if a.Node.Data != to.Data {
		return fmt.Errorf("founder %s has lost its data, and so does not know what it agreed to", to.ID)
	}
	_, err = c.node.Identity().hear(word{Founding: *f, From: to.ID, Stages: a.Stages}, c.cfg.Expect)
	return err
}

// Answer answers a node that introduces itself and may bring news about a founding.
func (c *Convener) Answer(args Greeting) (Answer, error) {
	if err := CheckNodeID(args.From.ID); err != nil {
		return Answer{}, err
	}
	if args.From.ID != c.cfg.NodeID {
		c.roll.note(args.From.ID, args.From.Addr)
	}
	if args.Word == nil {
		return Answer{Node: c.presence()}, nil
	}
	id := c.node.Identity()
	stages, err := id.hear(*args.Word, c.cfg.Expect)
	if f, s, _ := id.bound(); f == nil || s == founded {
		c.Wake()
	}
	return Answer{Node: c.presence(), Stages: stages}, err
}

// Wake makes the node handle at once what it has heard.
func (c *Convener) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// enter makes the node part of the founded cluster. Every founder begins its log with the
// same configuration. So any of them may do so first.
func (c *Convener) enter(ctx context.Context) error {
	id := c.node.Identity()
	f, s, _ := id.bound()
	if f == nil || s != founded {
		return nil
	}
	var conf raft.Configuration
	for _, o := range f.Founders {
		conf.Servers = append(conf.Servers, raft.Server{Suffrage: raft.Voter, ID: ServerID(o.ID, o.Data), Address: raft.ServerAddress(o.Addr)})
	}
	if err := id.enter(f, func() error { return c.node.Bootstrap(ctx, conf) }); err != nil {
		return fmt.Errorf("found the cluster: %w", err)
	}
	c.cfg.Logger.Info("founded a cluster", "voters", len(f.Founders), "proposed_by", f.Proposer)
	return nil
}
