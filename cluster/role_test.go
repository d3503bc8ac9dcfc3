package cluster

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
)

func TestRole(t *testing.T) {
	now := time.Unix(1000, 0)
	later, past := now.Add(time.Second), now.Add(-time.Nanosecond)
	const limit = 100 * time.Millisecond
	for _, c := range []struct {
		name string
		s    situation
		want partition.Role
	}{
		{"nothing known", situation{}, partition.Starting},
		{"leader known, replay not done", situation{leader: "n2"}, partition.Starting},
		{"following", situation{leader: "n2", caughtUp: true}, partition.Following},
		{"leader lost", situation{caughtUp: true}, partition.Orphaned},
		{"elected", situation{leader: "self", caughtUp: true}, partition.Handover},
		{"deposed, and Raft has not said so", situation{leader: "self", ousted: true, caughtUp: true}, partition.Orphaned},
		{"deposed in a handover", situation{leader: "self", ousted: true, handoverFrom: "self", handoverUntil: later, caughtUp: true}, partition.Handover},
		{"serving", situation{leader: "self", serving: true, caughtUp: true}, partition.Leading},
		{"serving before Raft says so", situation{serving: true, caughtUp: true}, partition.Leading},
		{"serving without the first group", situation{leader: "self", serving: true, caughtUp: true, awaitsFirst: true}, partition.Handover},
		{"half of the limit", situation{serving: true, unacked: limit / 2}, partition.Leading},
		{"above half", situation{serving: true, unacked: limit/2 + 1}, partition.Waiting},
		{"the limit", situation{serving: true, unacked: limit}, partition.Waiting},
		{"above the limit", situation{serving: true, unacked: limit + 1}, partition.Stalled},
		{"paused", situation{serving: true, doubtful: true, caughtUp: true}, partition.Stalled},
		{"handing over", situation{leader: "self", serving: true, leaving: true, unacked: time.Hour}, partition.Handover},
		{"announced", situation{leader: "n2", handoverFrom: "n2", handoverUntil: later, caughtUp: true}, partition.Handover},
		{"announced, leader gone", situation{handoverFrom: "n2", handoverUntil: later, caughtUp: true}, partition.Handover},
		{"announced, next leader", situation{leader: "n3", handoverFrom: "n2", handoverUntil: later, caughtUp: true}, partition.Following},
		{"announced in vain", situation{leader: "n2", handoverFrom: "n2", handoverUntil: past, caughtUp: true}, partition.Following},
		{"announced, nobody came", situation{handoverFrom: "n2", handoverUntil: past, caughtUp: true}, partition.Orphaned},
	} {
		require.Equal(t, c.want, c.s.role("self", limit, now), c.name)
	}
	require.Equal(t, []string{"starting", "leading", "waiting", "stalled", "following", "orphaned", "handover"}, Roles())
}

// A node that has just started leads a group before its group 0 has caught up. It would not
// know scripts that were loaded long ago. So commands wait.
func TestGroupsDecideWhenTheFirstHasCaughtUp(t *testing.T) {
	n := &Node{cfg: Config{NodeID: "self", MaxUnacked: time.Hour}, started: time.Now(), paced: make(chan struct{}, 1)}
	for id := range uint32(2) {
		n.groups = append(n.groups, &Group{
			node: n, id: id, engine: engine.New(engine.Config{}), caughtUp: make(chan struct{}), changed: make(chan struct{}, 1),
			situation: situation{awaitsFirst: id > 0},
		})
	}
	first, other := n.groups[0], n.groups[1]
	other.led()
	require.Equal(t, partition.Handover, other.Role())
	first.mu.Lock()
	first.finishStart() // as a follower
	first.mu.Unlock()
	require.Equal(t, partition.Leading, other.Role())
}

// If group 0 does not catch up, a group waits for firstWait only.
func TestGroupsDoNotAwaitTheFirstForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{cfg: Config{NodeID: "self", MaxUnacked: time.Hour}, started: time.Now(), paced: make(chan struct{}, 1)}
		g := &Group{
			node: n, id: 1, engine: engine.New(engine.Config{}), caughtUp: make(chan struct{}), changed: make(chan struct{}, 1),
			situation: situation{awaitsFirst: true},
		}
		g.led()
		time.Sleep(firstWait - time.Millisecond)
		require.Equal(t, partition.Handover, g.Role())
		time.Sleep(time.Second)
		require.Equal(t, partition.Leading, g.Role())
	})
}

// A leader that has lost its followers hands over to nobody, also before Raft
// reports the loss of leadership. Otherwise one command that saw a handover
// would make all commands of the next second wait for handover-wait.
func TestADeposedLeaderHandsOverToNobody(t *testing.T) {
	n := &Node{cfg: Config{NodeID: "self", MaxUnacked: time.Hour}, started: time.Now(), paced: make(chan struct{}, 1)}
	g := &Group{
		node: n, engine: engine.New(engine.Config{}), log: slog.New(slog.DiscardHandler),
		front: silentFront{}, caughtUp: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	g.leaderChanged("self", "", time.Time{})
	g.led()
	g.deposed(0)
	require.Equal(t, partition.Orphaned, g.Role())
	g.leaderChanged("", "", time.Time{})
	require.Equal(t, partition.Orphaned, g.Role())
	g.leaderChanged("self", "", time.Time{})
	require.Equal(t, partition.Handover, g.Role(), "elected again")
	g.led()
	g.deposed(0)
	g.leaderChanged("n2", "", time.Time{})
	require.Equal(t, partition.Following, g.Role())
}

// silentFront has no connections.
type silentFront struct{ Front }

func (silentFront) Release(uint64, error) {}
func (silentFront) Deposed()              {}
func (silentFront) Recheck()              {}

// A leader that hands over before this node knows that it leads is waited for
// all the same.
func TestHandoverOfALeaderNotKnownYet(t *testing.T) {
	n := &Node{cfg: Config{NodeID: "self", HandoverWait: time.Minute}}
	g := &Group{node: n, log: slog.New(slog.DiscardHandler), changed: make(chan struct{}, 1)}
	g.situation.caughtUp = true
	g.leaderChanged("n1", "", time.Time{})
	_, err := g.announced(t.Context(), []byte(`{"from":"n2"}`))
	require.NoError(t, err)
	require.Equal(t, partition.Following, g.Role())
	g.leaderChanged("", "", time.Time{})
	require.Equal(t, partition.Handover, g.Role())
	g.leaderChanged("n2", "", time.Time{})
	require.Equal(t, partition.Handover, g.Role())
	g.leaderChanged("n3", "", time.Time{})
	require.Equal(t, partition.Following, g.Role())
	g.leaderChanged("", "", time.Time{})
	require.Equal(t, partition.Orphaned, g.Role())
}

// The engine knows first that this node leads no more.
func TestASealedEngineDoesNotLead(t *testing.T) {
	e := engine.New(engine.Config{})
	replica := e.Replicate(ledger.New(ledger.Hooks{}))
	for _, role := range []partition.Role{partition.Leading, partition.Waiting} {
		g := &Group{node: &Node{cfg: Config{MaxUnacked: time.Hour}, started: time.Now()}, engine: e}
		g.role.Store(uint32(role))
		require.Equal(t, partition.Following, g.Role())
		replica.Lead(e.Now())
		require.Equal(t, role, g.Role())
		replica.Depose()
	}
}

// A change of the leader is noted with how long this node knew no leader, and with whether it
// was announced. A leader that comes back is no change.
func TestLeaderChange(t *testing.T) {
	now := time.Unix(1000, 0)
	step := func(s *situation, after time.Duration) {
		now = now.Add(after)
		s.note(s.role("self", time.Second, now), "self", now)
	}
	s := &situation{}
	step(s, 0)
	s.leader = "n3"
	step(s, time.Second)
	require.Zero(t, s.last, "the first leader is no change")
	s.leader = "n2"
	step(s, time.Second)
	require.Equal(t, LeaderChange{now, "n3", "n2", false, 0}, s.last, "while this node starts")
	s.caughtUp = true
	step(s, time.Second)

	s.handoverFrom, s.handoverUntil = "n2", now.Add(time.Second)
	step(s, time.Millisecond)
	s.leader, s.handoverUntil = "self", time.Time{}
	step(s, 7*time.Millisecond)
	s.serving = true
	step(s, 5*time.Millisecond)
	require.Equal(t, LeaderChange{now, "n2", "self", true, 12 * time.Millisecond}, s.last, "planned")

	s.leaving = true
	step(s, time.Second)
	s.leaving = false
	step(s, time.Second)
	require.Equal(t, "n2", s.last.From, "a handover that failed is no change")

	s.serving, s.ousted = false, true
	step(s, time.Second)
	s.leader, s.ousted = "n3", false
	step(s, 300*time.Millisecond)
	require.Equal(t, LeaderChange{now, "self", "n3", false, 300 * time.Millisecond}, s.last, "elected")

	s.leader = ""
	step(s, time.Second)
	s.leader = "n3"
	step(s, time.Second)
	require.Equal(t, "self", s.last.From, "n3 leads again")

	// Raft finds out late that a leader is silent, and may know the next at once.
	s.heard = now.Add(400 * time.Millisecond)
	s.leader = ""
	step(s, 1400*time.Millisecond)
	s.leader = "n2"
	step(s, 20*time.Millisecond)
	require.Equal(t, LeaderChange{now, "n3", "n2", false, 1020 * time.Millisecond}, s.last, "silent")
	s.heard = now.Add(100 * time.Millisecond)
	s.leader = "n3"
	step(s, time.Second)
	require.Equal(t, LeaderChange{now, "n2", "n3", false, 900 * time.Millisecond}, s.last, "silent, then at once the next")
	s.leader = "n2"
	step(s, time.Second)
	require.Equal(t, LeaderChange{now, "n3", "n2", false, 0}, s.last, "what was heard of earlier leaders does not count")

	// A leader that is stalled does not decide.
	s.leader, s.serving = "self", true
	step(s, time.Second)
	s.doubtful = true
	step(s, time.Second)
	s.leader, s.serving, s.doubtful = "n3", false, false
	step(s, time.Second)
	require.Equal(t, LeaderChange{now, "self", "n3", false, time.Second}, s.last, "stalled")
}
