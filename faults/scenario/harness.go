package scenario

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/internal/respclient"
)

const (
	// failover is how long a cluster may take to have a new leader. The goal is 3 s; the rest is for a busy machine.
	failover = 15 * time.Second
	// recovery is how long a node may take to follow again.
	recovery = 60 * time.Second
)

// build is an executable with changed sources, built once for all runs.
type build struct {
	once sync.Once
	bin  string
	err  error
}

// get builds the executable at first, into a directory beside those of the runs.
func (b *build) get(r *Run, name string, make func(dir string) (string, error)) (string, error) {
	b.once.Do(func() {
		dir := filepath.Join(filepath.Dir(r.Dir), name)
		if b.err = os.MkdirAll(dir, 0o755); b.err == nil {
			b.bin, b.err = make(dir)
		}
	})
	return b.bin, b.err
}

// start starts a cluster, of three nodes unless cfg says otherwise; args come last, and may override.
func (r *Run) start(cfg cluster.Config, args ...string) error {
	cfg.Dir, cfg.Nodes = r.Dir, cmp.Or(cfg.Nodes, 3)
	if cfg.Bin == "" {
		cfg.Bin = r.Bin
	}
	cfg.Args = append([]string{"--durability", r.Mode, "--max-unacked", maxUnacked.String(), "--on-failure", "closed"}, args...)
	cfg.Args = append(cfg.Args, r.Args...)
	c, err := cluster.New(cfg)
	r.cluster = c
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := r.awaitRole(n, "leading", "waiting", "following"); err != nil {
			return err
		}
	}
	leader, err := r.leader()
	if err != nil {
		return err
	}
	r.note("%s leads", leader.Name)
	r.marks = startMarks(r)
	return nil
}

// awaitRole waits until a node says that it has one of the roles.
func (r *Run) awaitRole(n *cluster.Node, roles ...string) error {
	role := ""
	for deadline := time.Now().Add(failover); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		reply, err := respclient.Do(n.Addr, time.Second, "INFO", "replication")
		if err != nil {
			return fmt.Errorf("role of %s: %w", n.Name, err)
		}
		_, role, _ = strings.Cut(reply.Str, "headgate_role:")
		if role, _, _ = strings.Cut(role, "\r\n"); slices.Contains(roles, role) {
			return nil
		}
	}
	return fmt.Errorf("%s is %s after %v", n.Name, role, failover)
}

// dial is where clients reach a node of the cluster.
func (r *Run) dial(node int) string { return r.cluster.Nodes[node].Addr }

// leader waits for a leader and returns it.
func (r *Run) leader(without ...*cluster.Node) (*cluster.Node, error) {
	return r.cluster.AwaitLeader(failover, without...)
}

// harmed notes that what was done just now may have cost the cluster its leader.
func (r *Run) harmed(at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.harms = append(r.harms, at)
}

// kill kills a node that may lead.
func (r *Run) kill(n *cluster.Node) error {
	r.note("kill %s", n.Name)
	leads := r.cluster.Leader() == n
	r.down(n.Index)
	if leads {
		r.marks.killed(r.now())
	}
	if err := n.Kill(); err != nil {
		return err
	}
	t := r.now()
	r.loseOf(n.Name, t-int64(maxUnacked), t)
	r.harmed(t)
	return nil
}

// killAndElect kills a node, and returns which of the others leads next.
func (r *Run) killAndElect(n *cluster.Node) (*cluster.Node, error) {
	if err := r.kill(n); err != nil {
		return nil, err
	}
	next, err := r.leader(n)
	if err == nil {
		r.note("%s leads", next.Name)
	}
	return next, err
}

// killAndRestart kills a node, and starts it again when some other node leads.
func (r *Run) killAndRestart(n *cluster.Node) error {
	if _, err := r.killAndElect(n); err != nil {
		return err
	}
	return r.restart(n)
}

// killLeader kills the leader, and starts it again when some other node leads. Of several groups, each has its turn: the
// load has keys of all.
func (r *Run) killLeader() error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	if group := r.turn % max(r.cluster.Groups, 1); group > 0 {
		// The leader may be going home just now.
		ctx, cancel := context.WithTimeout(context.Background(), recovery)
		defer cancel()
		led := func() bool { n = r.cluster.LeaderOf(group); return n != nil }
		if err := poll.Until(ctx, 10*time.Millisecond, led); err != nil {
			return fmt.Errorf("group %d has lost its leader: %w", group, err)
		}
		r.note("%s leads group %d", n.Name, group)
	}
	r.turn += groupStep
	return r.killAndRestart(n)
}

// groupStep is from the group whose leader is killed to the next one: 5 and 12 have no common factor, and neighbours have
// different leaders.
const groupStep = 5

// restart starts a node again and waits until the cluster has settled with it.
func (r *Run) restart(n *cluster.Node) error {
	r.note("start %s", n.Name)
	if err := n.Start(); err != nil {
		return err
	}
	if err := n.Await(); err != nil {
		return err
	}
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	if err := r.awaitRole(n, "leading", "waiting", "stalled", "following"); err != nil {
		return err
	}
	r.up(n.Index)
	r.note("%s follows", n.Name)
	return nil
}

// lead makes a node the leader, and reports whether it was not.
func (r *Run) lead(n *cluster.Node) (changed bool, err error) {
	l, err := r.leader()
	if err != nil || l == n {
		return false, err
	}
	r.note("%s is to lead", n.Name)
	return true, r.transfer(n)
}

// transfer hands leadership to a node.
func (r *Run) transfer(n *cluster.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), failover)
	defer cancel()
	at := r.now()
	r.harmed(at)
	err := r.handOver(ctx, n)
	if err == nil {
		_, err = r.leader()
	}
	r.planned = append(r.planned, oracle.Loss{From: at, To: r.now()})
	return err
}

// handOver has a node made the leader. Who led may have lost that just then, on a busy machine: it is asked again.
func (r *Run) handOver(ctx context.Context, n *cluster.Node) error {
	for {
		err := r.cluster.Transfer(ctx, n)
		if err == nil || r.cluster.Leader() == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not come to lead: %w", n.Name, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// stopNode stops a node in order, which loses nothing in any mode, and waits for the next leader.
func (r *Run) stopNode(n *cluster.Node) error {
	r.note("stop %s", n.Name)
	at := r.now()
	r.harmed(at)
	r.down(n.Index)
	if err := n.Stop(); err != nil {
		return err
	}
	_, err := r.leader(n)
	r.planned = append(r.planned, oracle.Loss{From: at, To: r.now()})
	return err
}

// snapshot has a node write a snapshot, and waits for it.
func (r *Run) snapshot(n *cluster.Node) error {
	before, err := r.cluster.Status(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	if err := r.cluster.Snapshot(ctx, n); err != nil {
		return err
	}
	after, err := r.cluster.Status(n)
	if err == nil && after.SnapshotIndex <= before.SnapshotIndex {
		err = fmt.Errorf("no snapshot after index %d", before.SnapshotIndex)
	}
	return err
}
