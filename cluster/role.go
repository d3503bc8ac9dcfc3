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

// situation is what determines a node's role.
type situation struct {
	leader, leaderAddr string        // whom Raft believes to lead, or empty
	serving            bool          // this node decides
	unacked            time.Duration // while it decides: the age of the oldest uncommitted effect
	doubtful           bool          // while it decides: it was paused and has not heard from a majority since
	resumed            time.Time     // when a pause last ended; not set again for a while
	caughtUp           bool          // the start-up replay is done
	awaitsFirst        bool          // this node's group 0, which has scripts and policies, has not caught up since the start; see firstWait
	leaving            bool          // this node is handing its leadership over
	ousted             bool          // this node was deposed, and Raft has not named a leader since

	pinned string // the node that an operator has made leader; see bringHome

	// A leader has announced that it hands over or stops. Commands wait for the next
	// leader.
	handoverFrom  string
	handoverUntil time.Time

	heard time.Time // when this node last heard from the leader that Raft knew before
	last  LeaderChange
	// served is the last leader that this node knew to decide. It was known from known to
	// since, which is zero while it is known. announced reports that this leader announced a
	// handover.
	served       string
	known, since time.Time
	announced    bool
}

// LeaderChange is a change of a group's leader, as a node has seen it.
type LeaderChange struct {
	At       time.Time // when the node knew that the next leader decides; zero if there was no change
	From, To string
	Planned  bool          // the leader From has announced the handover
	Without  time.Duration // how long no leader decided, as far as the node knows
}

// overdue reports whether the replies of a node that decides have waited for too long. A
// pause of the process is no sign that the followers are slow, so its time does not count.
func (s *situation) overdue(now time.Time) bool {
	return min(s.unacked, now.Sub(s.resumed)) > replyTimeout
}

// role returns the server's view of s.
func (s *situation) role(self string, maxUnacked time.Duration, now time.Time) partition.Role {
	awaited := now.Before(s.handoverUntil)
	switch {
	case s.leaving, s.serving && s.awaitsFirst:
		return partition.Handover
	case s.serving && (s.doubtful || s.unacked > maxUnacked):
		return partition.Stalled
	case s.serving && s.unacked > maxUnacked/2:
		return partition.Waiting
	case s.serving:
		return partition.Leading
	case s.leader == self && !s.ousted:
		// This node was elected. It decides when it has applied the log of the earlier
		// leaders, unless it loses its lease first.
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

// note notes who leads, and what a change of the leader took. is is the node's role.
func (s *situation) note(is partition.Role, self string, now time.Time) {
	leader := ""
	switch is {
	case partition.Leading, partition.Waiting:
		leader = self
	case partition.Following, partition.Starting:
		leader = s.leader
	}
	if leader == "" {
		if s.served != "" && s.since.IsZero() {
			s.since = s.silent(now)
		}
		s.announced = s.announced || s.leaving || s.handoverFrom == s.served && now.Before(s.handoverUntil)
		return
	}
	if leader == s.served && s.since.IsZero() {
		return
	}
	if s.served != "" && leader != s.served {
		if s.since.IsZero() { // Raft knew no leader for too short a time to tell
			s.since = s.silent(now)
		}
		s.last = LeaderChange{now, s.served, leader, s.announced, now.Sub(s.since)}
	}
	s.served, s.known, s.since, s.announced = leader, now, time.Time{}, false
}

// silent returns since when the leader served does not decide, if this node finds out now.
func (s *situation) silent(now time.Time) time.Time {
	if s.heard.After(s.known) {
		return s.heard
	}
	return now
}

// publishRole makes Role return what the situation determines. The caller holds mu.
func (g *Group) publishRole() {
	now := time.Now()
	is := g.situation.role(g.node.cfg.NodeID, g.node.cfg.MaxUnacked, now)
	g.situation.note(is, g.node.cfg.NodeID, now)
	g.role.Store(uint32(is))
}

// LeaderChange returns the last change of the leader that this node has seen.
func (g *Group) LeaderChange() LeaderChange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.situation.last
}

// Role implements partition.Replication. If the engine is sealed, the node does not
// decide, even if Raft says that it leads, because the engine is sealed before anything
// is undone. If a leader's own pulse has stopped, because the process was paused or got
// no processor, other nodes may have replaced the leader. Its role is then Stalled until
// it has asked the other nodes. Go's clock does not show a suspension of the whole
// machine; in that case the role is Stalled from the next pulse on.
func (g *Group) Role() partition.Role {
	r := partition.Role(g.role.Load())
	switch {
	case !r.Decides():
	case g.engine.Sealed():
		return partition.Following
	case g.sinceBeat() > g.node.cfg.MaxUnacked:
		return partition.Stalled
	}
	return r
}

// led is called by the machine, under the log's mutex.
func (g *Group) led() {
	g.alive()
	g.mu.Lock()
	s := &g.situation
	s.serving, s.unacked, s.doubtful, s.ousted = true, 0, false, false
	s.handoverUntil = time.Time{}
	if s.awaitsFirst {
		time.AfterFunc(firstWait, g.stopAwaiting)
	}
	g.finishStart()
	g.publishRole()
	g.mu.Unlock()
	ring(g.node.paced)
	ring(g.changed)
}

// deposed is called by the ledger, under the log's mutex.
func (g *Group) deposed(upTo uint64) {
	g.mu.Lock()
	// Commands that wait for the next leader may wait long, and a leader without followers
	// cannot hand over.
	g.situation.serving, g.situation.ousted = false, true
	g.publishRole()
	g.mu.Unlock()
	time.AfterFunc(outcomeWait, func() { g.front.Release(upTo, partition.ErrUncertain) })
	g.front.Recheck()
	g.front.Deposed()
	ring(g.changed)
}

// outcomeWait is how long a deposed leader's replies wait for their outcome, which the next
// leader's log tells. A node that is cut off does not hear of it.
const outcomeWait = 500 * time.Millisecond

// ended is called by the ledger, under the log's mutex: the outcome of a lost term is
// known, as far as it ever will be.
func (g *Group) ended(upTo uint64, undone bool) {
	err := partition.ErrUncertain
	if undone {
		err = partition.ErrUndone
	}
	g.front.Release(upTo, err)
}

// firstWait is how long the leader of another group waits for group 0 of its node. After that
// it decides without: a broken link between this node and the leader of group 0 must not stop
// other groups.
const firstWait = 3 * time.Second

// stopAwaiting lets the group decide, whether or not group 0 has caught up.
func (g *Group) stopAwaiting() {
	g.mu.Lock()
	g.situation.awaitsFirst = false
	g.publishRole()
	g.mu.Unlock()
	ring(g.changed)
}

// finishStart ends the start-up replay. If it is that of group 0, the groups that this node
// leads may decide. The caller holds mu.
func (g *Group) finishStart() {
	if g.situation.caughtUp {
		return
	}
	g.situation.caughtUp = true
	close(g.caughtUp)
	if g.id > 0 {
		return
	}
	for _, other := range g.node.groups {
		if other != g {
			other.stopAwaiting()
		}
	}
}

// leaderChanged is called by the group when it knows another leader, or none. heard is when
// it last heard from the leader before.
func (g *Group) leaderChanged(id, addr string, heard time.Time) {
	g.mu.Lock()
	s := &g.situation
	s.leader, s.leaderAddr, s.heard, s.ousted = id, addr, heard, false
	if id != "" && id != s.pinned {
		s.pinned = ""
	}
	if id != "" && id != s.handoverFrom {
		s.handoverUntil = time.Time{}
	}
	g.publishRole()
	g.mu.Unlock()
	ring(g.changed)
	g.log.Info("leader", "id", id, "addr", addr)
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
