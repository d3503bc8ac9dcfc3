package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/raftlog"
)

// raised waits until all nodes have the newest feature level.
func (r *Run) raised() error {
	for deadline := time.Now().Add(failover); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		up := 0
		for _, n := range r.cluster.Nodes {
			if s, err := r.cluster.Status(n); err == nil && risen(&s) {
				up++
			}
		}
		if up == len(r.cluster.Nodes) {
			r.note("the level has risen")
			return nil
		}
	}
	return fmt.Errorf("the level has not risen after %v: %s", failover, r.cluster.Describe())
}

// risen reports whether a node knows the newest level, and nobody who holds it back.
func risen(s *raftlog.Status) bool {
	return s.Level > 0 && s.Level == s.NewestLevel && len(s.HeldBack) == 0
}

// heldBackBy checks that the leader says that a node, and no other, holds the level back, and why.
func (r *Run) heldBackBy(n *cluster.Node, why string) {
	var s raftlog.Status
	for deadline := time.Now().Add(failover); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		l := r.cluster.Leader()
		if l == nil {
			continue
		}
		var err error
		if s, err = r.cluster.Status(l); err == nil && heldBack(&s, n.Name, why) {
			r.expect(true, "version", "level %d of %d: %v", s.Level, s.NewestLevel, s.HeldBack[0])
			return
		}
	}
	r.expect(false, "version", "level %d of %d is held back by %v, want by %s, which %s", s.Level, s.NewestLevel, s.HeldBack, n.Name, why)
}

// heldBack reports whether a status names one node alone that holds the level back, for a reason that begins with why.
func heldBack(s *raftlog.Status, id, why string) bool {
	return s.Level < s.NewestLevel && len(s.HeldBack) == 1 && s.HeldBack[0].ID == id && strings.HasPrefix(s.HeldBack[0].Why, why)
}
