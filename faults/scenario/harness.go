package scenario

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
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
		if err := r.awaitRole(n, "leading", "holding", "following"); err != nil {
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
	r.lose(t-int64(maxUnacked), t)
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

// killAndRestart kills a node, and starts it again when another one leads.
func (r *Run) killAndRestart(n *cluster.Node) error {
	if _, err := r.killAndElect(n); err != nil {
		return err
	}
	return r.restart(n)
}

// killLeader kills the leader, and starts it again when another one leads.
func (r *Run) killLeader() error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	return r.killAndRestart(n)
}

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
	if err := r.awaitRole(n, "leading", "holding", "stalled", "following"); err != nil {
		return err
	}
	r.up(n.Index)
	r.note("%s follows", n.Name)
	return nil
}

// transfer hands leadership to a node.
func (r *Run) transfer(n *cluster.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), failover)
	defer cancel()
	at := r.now()
	r.harmed(at)
	err := r.cluster.Transfer(ctx, n)
	if err == nil {
		_, err = r.leader()
	}
	r.planned = append(r.planned, oracle.Loss{From: at, To: r.now()})
	return err
}

// settle ends a scenario: nothing is offered any more, all links work, and all nodes must come to have the same table.
func (r *Run) settle() error {
	r.marks.close()
	r.cluster.Heal()
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	leader, err := r.leader()
	if err != nil {
		return err
	}
	if r.lossTimes, err = r.marks.losses(leader); err != nil {
		return err
	}
	f, err := r.compareTables(15 * time.Second)
	if err != nil {
		return err
	}
	r.tables = "equal"
	if !f.OK {
		r.tables = "**differ**"
	}
	if r.compared > 0 {
		f.Text += fmt.Sprintf(", and the same on all at %d times under way", r.compared)
	}
	r.add(f)
	return nil
}

// compareUnderWay has the load pause for a moment and compares what the nodes have made of it so far.
func (r *Run) compareUnderWay() error {
	if r.load == nil {
		return nil
	}
	r.load.Pause()
	r.marks.paused.Store(true)
	defer r.load.Resume()
	defer r.marks.paused.Store(false)
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	f, err := r.compareTables(10 * time.Second)
	if err != nil {
		return err
	}
	if !f.OK {
		f.Check = "under way"
		r.add(f)
	}
	r.compared++
	return nil
}

// compareTables compares the tables of all nodes, as of one time of the cluster's clock, until they are the same.
func (r *Run) compareTables(patience time.Duration) (oracle.Finding, error) {
	f := oracle.Finding{Check: "tables"}
	for deadline := time.Now().Add(patience); !f.OK && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		digests, err := r.cluster.Digests()
		if err != nil {
			return f, err
		}
		f.OK, f.Text = true, fmt.Sprintf("the same %d keys on every node, digest %.16s", digests[0].Keys, digests[0].Sum)
		for _, d := range digests {
			if d.Sum != digests[0].Sum {
				f.OK, f.Text = false, fmt.Sprintf("they differ: %+v", digests)
			}
		}
	}
	return f, nil
}

// measureGaps finds, for each harm, how long it took until a call that was sent after it was decided by the cluster.
func (r *Run) measureGaps() {
	for i, at := range r.harms {
		until := int64(history.Forever)
		if i+1 < len(r.harms) {
			until = r.harms[i+1]
		}
		first := int64(history.Forever)
		for j := range r.history.Calls {
			c := &r.history.Calls[j]
			if c.Start >= at && c.Start < until && c.End < first && !c.Local && (c.Outcome == history.Admitted || c.Outcome == history.Denied) {
				first = c.End
			}
		}
		if first != history.Forever {
			r.gaps = append(r.gaps, time.Duration(first-at))
		}
	}
}

// do executes one command on a node, patiently: right after a failover it may need a second try, so it must be one that
// changes nothing when it is executed twice.
func (r *Run) do(n *cluster.Node, args ...string) (resp.Reply, error) {
	var reply resp.Reply
	var err error
	for deadline := time.Now().Add(failover); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if reply, err = respclient.Do(n.Addr, patience, args...); err == nil {
			return reply, nil
		}
	}
	return reply, fmt.Errorf("%s on %s: %w", strings.Join(args, " "), n.Name, err)
}

// once executes one command on a node that must not be executed twice: it is sent again only where it certainly was not.
func (r *Run) once(n *cluster.Node, args ...string) (resp.Reply, error) {
	var reply resp.Reply
	var err error
	for deadline := time.Now().Add(failover); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		reply, err = respclient.Do(n.Addr, patience, args...)
		if err == nil || !strings.HasPrefix(reply.Error(), "CLUSTERDOWN") && !strings.HasPrefix(reply.Error(), "TRYAGAIN") {
			break
		}
	}
	return reply, err
}

// used is what a fixed window of a day, from its first use, has consumed, read with a limit above what it can be.
func (r *Run) used(n *cluster.Node, key string) (int64, error) {
	const above = 1_000_000
	reply, err := r.do(n, "RL.LIMIT", key, strconv.Itoa(above), "1d", "ALGORITHM", "fixed", "ALIGN", "first", "COST", "0")
	if err != nil {
		return 0, err
	}
	if len(reply.Elems) < 3 {
		return 0, fmt.Errorf("peek at %s: %d elements", key, len(reply.Elems))
	}
	return above - reply.Elems[2].Int, nil
}
