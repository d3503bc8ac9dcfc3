package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
)

// releases are the executables that write a newer version of a format, and of those before it.
var releases = make([]build, len(cluster.Formats()))

// upgrade upgrades a cluster to one release after the other. Each release writes a further format in a version that those
// before it do not know. A node that meets it before it is upgraded must end and say so, again when it is started again,
// and must go on once it is upgraded, with all that it knew.
func upgrade(r *Run) error {
	var bins []string
	for _, f := range cluster.Formats() {
		bin, err := releases[f].get(r, fmt.Sprintf("release-%d", f), func(dir string) (string, error) { return cluster.BuildRelease(dir, f) })
		if err != nil {
			return err
		}
		bins = append(bins, bin)
	}
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	old := r.Bin
	var err error
	for i, f := range cluster.Formats() {
		if err == nil {
			r.wait(2 * time.Second)
			err = r.upgradeTo(f, old, bins[i])
		}
		old = bins[i]
	}
	r.wait(2 * time.Second)
	return r.finish(l, keys, err)
}

// upgradeTo upgrades a follower from old to bin, which changes a format, has the others meet it, and upgrades those.
func (r *Run) upgradeTo(f cluster.Format, old, bin string) error {
	leader, err := r.leader()
	if err != nil {
		return err
	}
	first, third := r.cluster.Nodes[(leader.Index+1)%3], r.cluster.Nodes[(leader.Index+2)%3]
	r.note("upgrade %s, a follower, to a release with another version of: %s", first.Name, f)
	if err := r.replace(first, bin); err != nil {
		return err
	}
	if f == cluster.Snapshot {
		err = r.downgrade(first, old, bin)
	} else {
		err = r.outdate(f, first, leader, third)
	}
	if err != nil {
		return err
	}
	for _, n := range []*cluster.Node{leader, third} {
		r.note("upgrade %s", n.Name)
		if err := r.replace(n, bin); err != nil {
			return err
		}
	}
	return nil
}

// replace restarts a node, unless it has ended, with another executable.
func (r *Run) replace(n *cluster.Node, bin string) error {
	if n.Running() {
		if err := r.stopNode(n); err != nil {
			return err
		}
	}
	n.Install(bin)
	return r.restart(n)
}

// outdate makes the newer node the leader, which writes what the others do not know.
func (r *Run) outdate(f cluster.Format, newer *cluster.Node, older ...*cluster.Node) error {
	at := r.now()
	var ends []int64
	for _, n := range older {
		end, err := n.LogLength()
		if err != nil {
			return err
		}
		ends = append(ends, end)
		r.down(n.Index)
	}
	r.note("%s is to lead", newer.Name)
	ctx, cancel := context.WithTimeout(context.Background(), failover)
	defer cancel()
	if err := r.cluster.Transfer(ctx, newer); err != nil {
		r.note("transfer: %v", err) // the others may have ended before they could say that they have handed over
	}
	for i, n := range older {
		if err := r.complains(n, f, ends[i]); err != nil {
			return err
		}
	}
	r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
	for _, n := range older {
		// With it the newer node may lead once more, until it ends.
		at := r.now()
		end, err := n.LogLength()
		if err == nil {
			err = n.Start()
		}
		if err == nil {
			err = r.complains(n, f, end)
		}
		if err != nil {
			return err
		}
		r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
	}
	r.harmed(r.now())
	return nil
}

// downgrade writes a snapshot on a node and starts it with an executable that does not know its version.
func (r *Run) downgrade(n *cluster.Node, old, bin string) error {
	if err := r.snapshot(n); err != nil {
		return err
	}
	if err := r.stopNode(n); err != nil {
		return err
	}
	end, err := n.LogLength()
	if err != nil {
		return err
	}
	n.Install(old)
	r.note("start %s as it was before", n.Name)
	if err := n.Start(); err != nil {
		return err
	}
	if err := r.complains(n, cluster.Snapshot, end); err != nil {
		return err
	}
	return r.replace(n, bin)
}

// complains checks that a node ends by itself and says, in its log beyond end, that it does not know a format's version.
func (r *Run) complains(n *cluster.Node, f cluster.Format, end int64) error {
	ended := n.Exited(failover)
	said, err := n.Logged(end, f.Complaint())
	r.expect(ended && said, "version", "%s, which met a newer %s, ended: %v, and said %q: %v", n.Name, f, ended, f.Complaint(), said)
	if !ended {
		err = errors.Join(err, n.Kill())
	}
	return err
}
