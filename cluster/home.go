package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/raftlog"
)

const (
	// homeAfter is how long the home of a group must have been ready to lead it before it
	// gets the leadership.
	homeAfter = 10 * time.Second
	// homeInterval is the time between two looks, and so between two handovers.
	homeInterval = 500 * time.Millisecond
	// homeTimeout bounds one handover.
	homeTimeout = 5 * time.Second
)

// home returns the voter that should lead a group. The groups are dealt out to the voters
// in the order of their ids, so each of n voters is the home of every n-th group. ready
// reports whether that voter answers and has caught up, also in group 0 (first), which has
// the policies. It is false while another node waits for its vote: with it, the homes change,
// and a new leader would make that node wait again. id is empty if there are no voters.
func home(group int, t, first *partition.Topology) (id string, ready bool) {
	var voters []*partition.TopologyNode
	waits := false
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Voter {
			voters = append(voters, n)
		}
		waits = waits || n.Waits && n.Alive
	}
	if len(voters) == 0 {
		return "", false
	}
	slices.SortFunc(voters, func(a, b *partition.TopologyNode) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	id = voters[group%len(voters)].ID
	return id, !waits && caughtUp(t, id) && caughtUp(first, id)
}

// caughtUp reports whether a node answers and has caught up in a group.
func caughtUp(t *partition.Topology, id string) bool {
	return slices.ContainsFunc(t.Nodes, func(n partition.TopologyNode) bool {
		return n.ID == id && n.Alive && n.LagEntries <= raftlog.PromoteLag
	})
}

// bringHome hands the groups that this node leads to their homes, one after the other, until
// ctx ends. It leaves a group where an operator's transfer has put it.
func (n *Node) bringHome(ctx context.Context) {
	since := make([]time.Time, len(n.groups)) // when a group's home became ready, while this node leads the group
	t := time.NewTicker(homeInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, moved := time.Now(), false
		first := n.groups[0].Topology()
		for i, g := range n.groups {
			top := g.Topology()
			to, ready := home(i, &top, &first)
			switch {
			case !ready, to == top.Self, !g.deciding(), g.pinned():
				since[i] = time.Time{}
			case since[i].IsZero():
				since[i] = now
			case now.Sub(since[i]) >= n.homeAfter && !moved:
				since[i], moved = time.Time{}, true // the next try is homeAfter later
				g.log.Info("leadership goes home", "to", to)
				handover, cancel := context.WithTimeout(ctx, homeTimeout)
				if err := g.Handover(handover, to); err != nil && g.deciding() { // else another node leads
					g.log.Warn("leadership stays", "error", err)
				}
				cancel()
			}
		}
	}
}

// pin notes that an operator has chosen the leader of the group. The choice holds until
// another node leads.
func (g *Group) pin(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.situation.pinned = id
}

// pinned reports whether an operator has chosen this node as leader.
func (g *Group) pinned() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.situation.pinned == g.node.cfg.NodeID
}
