// Package cluster runs real headgate processes on loopback addresses and breaks them on purpose. It kills, pauses and
// restarts them, cuts and delays the links between them, and damages their files.
//
// Every connection that one node opens to another passes two proxies of this process. The first, a front, is the
// address that the node advertises. It finds out which process has dialled, and hands the connection to that link's own
// proxy. That one can cut, hold or delay it. Clients connect to the nodes directly.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	headgate "github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/internal/subprocess"
	"github.com/headgate-io/headgate/raftlog"
)

// statusTimeout bounds one question to a node.
const statusTimeout = 300 * time.Millisecond

// snapshotTimeout bounds an answer about a snapshot, which comes every few seconds.
const snapshotTimeout = 10 * time.Second

// Config describes a cluster.
type Config struct {
	Bin   string
	Dir   string   // for logs and data
	Nodes int      // that found the cluster
	Args  []string // further arguments of headgate serve

	// Data returns the data directory of a node, if it is not to be one below Dir.
	Data func(node int) string

	// Clocks are the wall clocks of the nodes, if Bin is from BuildSkewed.
	Clocks []*Clock

	// Syncs are the disks' speeds, if Bin is from BuildSlow.
	Syncs []*Sync

	// PeerTLS has the nodes, and the runner, speak TLS with each other.
	PeerTLS bool

	// Founders is how many nodes found the cluster, and After when each is started: the others join. Without them, all do,
	// at once.
	Founders int
	After    []time.Duration

	// Powers are the nodes' disks, if Bin is from BuildRecorded. The nodes make their data directories below them.
	Powers []*Power
}

// Cluster is a running cluster.
type Cluster struct {
	Nodes  []*Node
	Groups int // Raft groups

	cfg    Config
	join   string
	client *headgate.Client
	ca     *authority // nil without PeerTLS
	ports  sync.Map   // Ports of each node, by its address

	sockets sockets
}

// Ports are addresses of a node's other fronts.
type Ports struct{ Cluster, HTTP, GRPC string }

// Ports are those of the node that has an address of the Redis protocol. It may be
// called by any goroutine.
func (c *Cluster) Ports(addr string) Ports {
	p, _ := c.ports.Load(addr)
	ports, _ := p.(Ports)
	return ports
}

// Node is one of its processes.
type Node struct {
	*Process
	Index int
	Data  string // directory
	Peer  string // address of its peer port, not proxied
	ports Ports
	front *front

	retired bool // it is no member any more
}

// New starts a cluster and waits until it serves.
func New(cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg, client: headgate.NewClient(headgate.Dialer(nil), nil)}
	if cfg.PeerTLS {
		ca, err := newAuthority(cfg.Dir)
		if err != nil {
			return c, err
		}
		c.ca, c.client = ca, headgate.NewClient(headgate.Dialer(ca.client), nil)
	}
	for range cfg.Nodes {
		if err := c.reserve(); err != nil {
			return c, err
		}
	}
	var peers []string
	for _, n := range c.Nodes {
		peers = append(peers, n.front.Addr())
	}
	c.join = strings.Join(peers, ",")
	for _, n := range c.Nodes {
		if err := c.arguments(n, cmp.Or(cfg.Founders, cfg.Nodes)); err != nil {
			return c, err
		}
	}
	if err := c.startAll(); err != nil {
		return c, err
	}
	if _, err := c.AwaitLeader(startTimeout); err != nil {
		return c, err
	}
	for _, s := range c.statuses(0) {
		c.Groups = max(c.Groups, s.Groups)
	}
	_, err := c.AwaitLeader(startTimeout)
	return c, err
}

// startAll starts the first nodes, each at its time.
func (c *Cluster) startAll() error {
	begun := time.Now()
	order := slices.Clone(c.Nodes)
	after := func(n *Node) time.Duration {
		if n.Index < len(c.cfg.After) {
			return c.cfg.After[n.Index]
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b *Node) int { return cmp.Compare(after(a), after(b)) })
	for _, n := range order {
		time.Sleep(after(n) - time.Since(begun))
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Add starts one more node, which joins the cluster.
func (c *Cluster) Add() (*Node, error) {
	if err := c.reserve(); err != nil {
		return nil, err
	}
	n := c.Nodes[len(c.Nodes)-1]
	if err := c.arguments(n, 0); err != nil {
		return nil, err
	}
	return n, n.Start()
}

// reserve gives a further node its addresses, and links to and from the others.
func (c *Cluster) reserve() error {
	i := len(c.Nodes)
	n := &Node{Index: i, Process: &Process{Name: "n" + strconv.Itoa(i+1), bin: c.cfg.Bin}}
	n.Log = filepath.Join(c.cfg.Dir, n.Name+".log")
	n.Data = filepath.Join(c.cfg.Dir, n.Name)
	if c.cfg.Data != nil {
		n.Data = c.cfg.Data(i)
	}
	if i < len(c.cfg.Clocks) {
		n.env = []string{skewFile + "=" + c.cfg.Clocks[i].path}
	}
	if i < len(c.cfg.Syncs) {
		n.env = append(n.env, slowFile+"="+c.cfg.Syncs[i].path)
	}
	if i < len(c.cfg.Powers) {
		n.Data = filepath.Join(c.cfg.Powers[i].Root, "new", "data")
		n.env = append(n.env, recordRoot+"="+c.cfg.Powers[i].Root)
	} else if err := os.MkdirAll(n.Data, 0o755); err != nil {
		return err
	}
	addrs, err := subprocess.Addrs(host(), 5)
	if err != nil {
		return err
	}
	n.Addr, n.Peer, n.ports = addrs[0], addrs[1], Ports{addrs[2], addrs[3], addrs[4]}
	c.ports.Store(n.Addr, n.ports)
	if n.front, err = newFront(n, &c.sockets); err != nil {
		return err
	}
	for _, o := range c.Nodes {
		if err := errors.Join(n.front.link(o), o.front.link(n)); err != nil {
			return err
		}
	}
	c.Nodes = append(c.Nodes, n)
	return nil
}

// arguments sets the command line of a node; expect is 0 for one that joins later.
func (c *Cluster) arguments(n *Node, expect int) error {
	n.args = []string{
		"serve", "--node-id", n.Name, "--data-dir", n.Data, "--listen", n.Addr, "--cluster-listen", n.ports.Cluster, "--http-listen", n.ports.HTTP, "--grpc-listen", n.ports.GRPC,
		"--peer-listen", n.Peer, "--peer-advertise", n.front.Addr(), "--join", c.join, "--log-format", "json",
	}
	if expect > 0 {
		n.args = append(n.args, "--bootstrap-expect", strconv.Itoa(expect))
	}
	if c.ca != nil {
		var hosts []string
		for _, addr := range []string{n.Peer, n.front.Addr()} {
			h, _, err := net.SplitHostPort(addr)
			if err != nil {
				return err
			}
			hosts = append(hosts, h)
		}
		files, err := c.ca.issue(n.Name, hosts...)
		if err != nil {
			return err
		}
		n.args = append(n.args, "--peer-tls-cert", files.cert, "--peer-tls-key", files.key, "--peer-tls-ca", filepath.Join(c.ca.dir, caFile))
	}
	n.args = append(n.args, c.cfg.Args...)
	return nil
}

// Close kills all nodes and closes the proxies.
func (c *Cluster) Close() {
	c.Stop()
	for _, n := range c.Nodes {
		n.front.Close()
	}
}

// Members are the nodes that are members.
func (c *Cluster) Members() []*Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Node) bool { return n.retired })
}

// Status asks a node for its status in group 0.
func (c *Cluster) Status(n *Node) (raftlog.Status, error) { return c.status(n, 0) }

func (c *Cluster) status(n *Node, group int) (raftlog.Status, error) {
	if !n.responsive() {
		return raftlog.Status{}, fmt.Errorf("%s is not running", n.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	s, err := c.client.Of(group).Status(ctx, n.Peer)
	if err != nil {
		return raftlog.Status{}, fmt.Errorf("status of %s: %w", n.Name, err)
	}
	return s, nil
}

// statuses asks all nodes about a group; those that do not answer have an empty status.
func (c *Cluster) statuses(group int) []raftlog.Status {
	out := make([]raftlog.Status, len(c.Nodes))
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		wg.Go(func() { out[i], _ = c.status(n, group) })
	}
	wg.Wait()
	return out
}

// Leader is the leader of group 0, which decides the checks of policies, or nil.
func (c *Cluster) Leader() *Node { return c.LeaderOf(0) }

// LeaderOf is the node that serves as leader of a group in the highest term, or nil.
func (c *Cluster) LeaderOf(group int) *Node {
	var leader *Node
	var term uint64
	for i, s := range c.statuses(group) {
		if s.Serving && s.Term > term {
			leader, term = c.Nodes[i], s.Term
		}
	}
	return leader
}

// AwaitLeader waits until one of the nodes, not among those left out, serves as leader of each group. It returns the
// leader of group 0.
func (c *Cluster) AwaitLeader(timeout time.Duration, without ...*Node) (*Node, error) {
	deadline := time.Now().Add(timeout)
	for g := max(c.Groups, 1) - 1; ; g-- {
		l, err := c.awaitLeaderOf(g, deadline, without)
		if err != nil || g == 0 {
			return l, err
		}
	}
}

func (c *Cluster) awaitLeaderOf(group int, deadline time.Time, without []*Node) (*Node, error) {
	for first := true; first || time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		first = false
		if l := c.LeaderOf(group); l != nil && !slices.Contains(without, l) {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no leader of group %d in time: %s", group, c.describe(group))
}

// AwaitVote waits until the leader of each group counts the vote of a node, or no longer does.
func (c *Cluster) AwaitVote(n *Node, vote bool, timeout time.Duration) error {
	group := max(c.Groups, 1) - 1
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for ; c.hasVote(n, group, vote); group-- {
			if group == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: vote in group %d is not %v after %v: %s", n.Name, group, vote, timeout, c.describe(group))
}

// hasVote reports whether a group has a leader, and this leader counts the vote of a node if and only if vote is true.
func (c *Cluster) hasVote(n *Node, group int, vote bool) bool {
	leader := c.LeaderOf(group)
	if leader == nil {
		return false
	}
	s, err := c.status(leader, group)
	return err == nil && slices.ContainsFunc(s.Members, func(m raftlog.Member) bool { return m.ID == n.Name && m.Voter == vote })
}

// AwaitSettled waits until the running nodes agree on a leader and have applied all that it had committed a moment ago,
// in each group.
func (c *Cluster) AwaitSettled(timeout time.Duration) error {
	group := max(c.Groups, 1) - 1
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for ; c.settled(group); group-- {
			if group == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("group %d is not settled after %v: %s", group, timeout, c.describe(group))
}

// settled reports whether a group has a leader and all running nodes follow it closely.
func (c *Cluster) settled(group int) bool {
	leader := c.LeaderOf(group)
	if leader == nil {
		return false
	}
	l, err := c.status(leader, group)
	if err != nil || !l.Serving {
		return false
	}
	// The nodes of a group with little to do learn of a commit up to half a second late.
	for range 15 {
		if c.follow(group, l.NodeID, l.CommitIndex) {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// follow reports whether all running nodes follow the leader, and have applied the log up to index.
func (c *Cluster) follow(group int, leader string, index uint64) bool {
	for i, s := range c.statuses(group) {
		if c.Nodes[i].Running() && !c.Nodes[i].retired && (s.LeaderID != leader || s.AppliedIndex < index) {
			return false
		}
	}
	return true
}

// Describe is one line about every node in group 0.
func (c *Cluster) Describe() string { return c.describe(0) }

func (c *Cluster) describe(group int) string {
	var b strings.Builder
	for i, s := range c.statuses(group) {
		n := c.Nodes[i]
		switch {
		case !n.Running():
			fmt.Fprintf(&b, "%s: down; ", n.Name)
		case s.NodeID == "":
			fmt.Fprintf(&b, "%s: silent; ", n.Name)
		default:
			fmt.Fprintf(&b, "%s: %s term %d leader %q commit %d applied %d %s; ", n.Name, s.State, s.Term, s.LeaderID, s.CommitIndex, s.AppliedIndex, s.Halted)
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// Digest is what a node's table is: two nodes with the same keys in the same states have the same Sum.
type Digest struct {
	Node string
	Keys int64
	Sum  string
}

// Digests asks all nodes for the digest of their own tables, as of one time of the cluster clock.
func (c *Cluster) Digests() ([]Digest, error) {
	out := make([]Digest, 0, len(c.Nodes))
	args := []string{"DEBUG", "DIGEST"}
	for _, n := range c.Nodes {
		if n.retired {
			continue
		}
		r, err := respclient.Do(n.Addr, 10*time.Second, args...)
		if err != nil {
			return nil, fmt.Errorf("digest of %s: %w", n.Name, err)
		}
		if len(r.Elems) != 6 {
			return nil, fmt.Errorf("digest of %s: %d elements, want three pairs", n.Name, len(r.Elems))
		}
		out = append(out, Digest{n.Name, r.Elems[3].Int, r.Elems[1].Str})
		if len(args) == 2 {
			args = append(args, "AT", strconv.FormatInt(r.Elems[5].Int, 10))
		}
	}
	return out, nil
}

// link sets the faults of the connections that one node opens to another.
func (c *Cluster) link(from, to *Node, f linkfault.Faults) { to.front.links[from.Index].Set(f) }

// Lose loses everything that one node sends to another, on the connections of both; the other direction works.
func (c *Cluster) Lose(from, to *Node) {
	c.link(from, to, linkfault.Faults{ToTarget: linkfault.Flow{Hold: true}})
	c.link(to, from, linkfault.Faults{FromTarget: linkfault.Flow{Hold: true}})
}

// Both sets the faults of both directions between two nodes.
func (c *Cluster) Both(a, b *Node, f linkfault.Faults) {
	c.link(a, b, f)
	c.link(b, a, f)
}

// Isolate sets the faults between a node and all others.
func (c *Cluster) Isolate(n *Node, f linkfault.Faults) {
	for _, o := range c.Nodes {
		if o != n {
			c.Both(n, o, f)
		}
	}
}

// Heal ends all faults of links.
func (c *Cluster) Heal() {
	for _, n := range c.Nodes {
		for _, p := range n.front.links {
			p.Set(linkfault.Faults{})
		}
	}
}

// Snapshot has a node write a snapshot.
func (c *Cluster) Snapshot(ctx context.Context, n *Node) error {
	s, err := c.client.Snapshot(ctx, n.Peer, snapshotTimeout, func(raftlog.SnapshotRun) {})
	if err == nil && s.Error != "" {
		err = errors.New(s.Error)
	}
	return err
}

// Transfer hands leadership to a node.
func (c *Cluster) Transfer(ctx context.Context, to *Node) error {
	return c.client.Transfer(ctx, to.Peer, to.Name)
}
