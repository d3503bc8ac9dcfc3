package cluster

import (
	"errors"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
)

// These errors are returned by DialLeader.
var (
	errNoLeader    = errors.New("no leader is known")
	errNotStarted  = errors.New("this node has not opened its log yet")
	errLeadsItself = errors.New("this node is the leader")
)

// Roles names the roles.
func Roles() []string {
	names := make([]string, 0, partition.Handover+1)
	for r := partition.Starting; r <= partition.Handover; r++ {
		names = append(names, r.String())
	}
	return names
}

// situation is what a node's role follows from.
type situation struct {
	leader, leaderAddr string        // whom Raft believes to lead; empty for nobody
	serving            bool          // this node decides
	unacked            time.Duration // while it does: the age of the oldest effect not committed
	doubtful           bool          // while it does: it was paused, and has not heard from a majority since
	caughtUp           bool          // the start-up replay is done
	leaving            bool          // this node is handing its leadership over
	ousted             bool          // this node has been deposed, and Raft has not said since who leads

	// A leader has announced its stop: commands wait for the next one.
	handoverFrom  string
	handoverUntil time.Time
}

// role is the server's view of s.
func (s *situation) role(self string, maxUnacked time.Duration, now time.Time) partition.Role {
	awaited := now.Before(s.handoverUntil)
	switch {
	case s.leaving:
		return partition.Handover
	case s.serving && (s.doubtful || s.unacked > maxUnacked):
		return partition.Stalled
	case s.serving && s.unacked > maxUnacked/2:
		return partition.Waiting
	case s.serving:
		return partition.Leading
	case s.leader == self && !s.ousted:
		// Elected: it serves when the log of its predecessors is applied, or
		// loses its lease.
		return partition.Handover
	case awaited && (s.leader == "" || s.leader == s.handoverFrom):
		return partition.Handover
	case !s.caughtUp:
		return partition.Starting
	case s.leader != "" && s.leader != self:
		return partition.Following
	}
	return partition.Orphaned
}

// publishRole makes Role return what follows from the situation. It must be
// called with mu held.
func (n *Node) publishRole() {
	n.role.Store(uint32(n.situation.role(n.cfg.NodeID, n.cfg.MaxUnacked, time.Now())))
}

// Role implements partition.Replication. The engine is sealed before anything is
// taken back, so the seal counts before Raft's state does. A leader whose own
// pulse has stopped, because the process was paused or starved, may have been
// replaced: it is stalled until it has asked. After a suspension of the whole
// machine, which Go's clock does not see, that begins with the next pulse,
// pulseInterval or idleInterval later.
func (n *Node) Role() partition.Role {
	r := partition.Role(n.role.Load())
	switch {
	case !r.Decides():
	case n.engine.Sealed():
		return partition.Following
	case n.sinceBeat() > n.cfg.MaxUnacked:
		return partition.Stalled
	}
	return r
}

// sinceBeat is how long ago pulse last looked.
func (n *Node) sinceBeat() time.Duration {
	return time.Since(n.started) - time.Duration(n.beaten.Load())
}

// led is called by the machine, under the log's mutex.
func (n *Node) led() {
	n.beaten.Store(int64(time.Since(n.started)))
	n.mu.Lock()
	s := &n.situation
	s.serving, s.unacked, s.doubtful, s.ousted = true, 0, false, false
	s.handoverUntil = time.Time{}
	n.finishStart()
	n.publishRole()
	n.mu.Unlock()
	ring(n.paced)
	ring(n.changed)
}

// deposed is called by the ledger, under the log's mutex.
func (n *Node) deposed(upTo uint64) {
	n.mu.Lock()
	// Commands that wait for a next leader wait for long, and a leader without
	// followers has nobody to hand over to.
	n.situation.serving, n.situation.ousted = false, true
	n.publishRole()
	n.mu.Unlock()
	n.front.Release(upTo, partition.ErrUncertain)
	n.front.Deposed()
	ring(n.changed)
}

// finishStart must be called with mu held.
func (n *Node) finishStart() {
	if !n.situation.caughtUp {
		n.situation.caughtUp = true
		close(n.caughtUp)
	}
}

// leaderChanged is called by the group when it knows another leader, or none.
func (n *Node) leaderChanged(id, addr string) {
	n.mu.Lock()
	s := &n.situation
	s.leader, s.leaderAddr, s.ousted = id, addr, false
	if id != "" && id != s.handoverFrom {
		s.handoverUntil = time.Time{}
	}
	n.publishRole()
	n.mu.Unlock()
	ring(n.changed)
	n.log.Info("leader", "id", id, "addr", addr)
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
