package raftlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/internal/diskspace"
	"github.com/headgate-io/headgate/raftlog/clock"
	"github.com/headgate-io/headgate/raftlog/member"
)

// clockPatience bounds how long an elected leader waits for a majority's reports of the
// clock.
const clockPatience = 3 * time.Second

// clockReport returns this node's own report.
func (g *Group) clockReport() clock.Report {
	r := clock.Report{Wall: g.clocks.Wall()}
	r.Now, r.Term, r.Kept = g.keptClock()
	if s, ok := g.clocks.Last(); ok {
		r.Saved, r.Offset, r.SavedWall = true, s.Offset(), s.Wall
	}
	return r
}

// resumption is the cluster clock at a moment, from the voters' reports. A leader that has
// heard no other leader since its start continues the clock from it.
type resumption struct {
	clock, at int64 // at the time of this boot
	known     bool  // otherwise clock is the last value in the log
}

// clockKeeper is what a group knows of its clock in addition to the fsm.
type clockKeeper struct {
	resumed atomic.Pointer[resumption] // by this node, when it was elected last

	// unset reports that the clock continued from its last value because no node knew how
	// much time had passed, and that it has been behind wall time since. Followers copy
	// unset from the leader, and all nodes save it with the clock. So a restart of all
	// processes does not clear it.
	unset atomic.Bool
}

// resumeClock sets the fsm's clock before the fsm leads, in a term in which this node is
// about to decide. A node that has heard a leader since its start knows the clock. Other
// nodes ask the voters, until a majority has answered (including this node) or
// clockPatience has passed.
func (g *Group) resumeClock(ctx context.Context, stillLeader func() bool) {
	g.keeper.resumed.Store(nil)
	last := g.fsm.clock.Load()
	if b := g.fsm.bound.Load(); b != nil && !b.Saved() {
		return
	}
	// If there is no batch in the log, the cluster is new. Its clock begins with this
	// node's wall clock.
	if last == 0 {
		g.keeper.resumed.Store(&resumption{g.clocks.Wall(), g.fsm.now(), true})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	reports, voters := g.askClocks(ctx, stillLeader)
	clock, known := clock.Resume(reports, voters, last)
	g.keeper.resumed.Store(&resumption{clock, g.fsm.now(), known})
	if known {
		g.cfg.Logger.Info("this node did not know the cluster clock; it continues from the voters' reports", "clock", time.Unix(0, clock), "voters", voters, "answers", len(reports))
		return
	}
	g.keeper.unset.Store(true)
	g.cfg.Logger.Error("no node knows how long the cluster was down. The cluster clock continues from its last value, so limits have not refilled while it was down. Check the leader's wall clock, then run headgate cluster set-clock",
		"clock", time.Unix(0, clock), "wall", time.Unix(0, g.clocks.Wall()), "voters", voters, "answers", len(reports))
}

// askClocks returns the reports of the voters, including this node's own, and the number
// of voters.
func (g *Group) askClocks(ctx context.Context, stillLeader func() bool) (reports []clock.Report, voters int) {
	for {
		var others []raft.Server
		servers, _ := g.configuration()
		voters = 0
		for _, s := range servers {
			if s.Suffrage == raft.Voter {
				voters++
				if member.NodeOf(s.ID) != g.cfg.NodeID {
					others = append(others, s)
				}
			}
		}
		answers := make([]*clock.Report, len(others))
		answeredAt := make([]int64, len(others))
		var wg sync.WaitGroup
		for i, s := range others {
			wg.Go(func() {
				actx, cancel := context.WithTimeout(ctx, pollTimeout)
				defer cancel()
				st, err := g.Caller().Status(actx, g.peers.where(s.ID, s.Address))
				if err == nil && member.ServerID(st.NodeID, st.DataID) == s.ID && !g.cur.Load().id.Foreign(st.ClusterID) {
					answers[i], answeredAt[i] = &st.ClockReport, g.fsm.now()
				}
			})
		}
		wg.Wait()
		now := g.fsm.now()
		reports = []clock.Report{g.clockReport()}
		for i, r := range answers {
			if r != nil {
				reports = append(reports, r.Later(now-answeredAt[i]))
			}
		}
		if len(reports) > voters/2 || !stillLeader() {
			return reports, voters
		}
		select {
		case <-ctx.Done():
			return reports, voters
		case <-time.After(resumeInterval):
		}
	}
}

// resumed returns the clock by the last resumption, 0 without one.
func (g *Group) resumed() int64 {
	r := g.keeper.resumed.Load()
	if r == nil {
		return 0
	}
	return r.clock + g.fsm.now() - r.at
}

// saveResumed saves the clock with which this node is about to decide in a term, if the
// node has not kept the clock itself.
func (g *Group) saveResumed(term uint64) {
	if g.keeper.resumed.Load() == nil {
		return
	}
	if err := g.clocks.Save(g.resumed(), term, g.keeper.unset.Load()); err != nil {
		g.cfg.Logger.Warn("save clock", "error", err)
	}
}

// lookAtClock ends the alarm once the clock is no longer behind wall time.
func (g *Group) lookAtClock() {
	if _, serving := g.Serving(); !serving || !g.keeper.unset.Load() {
		return
	}
	if behind := g.clocks.Wall() - g.fsm.machine.Now(); max(behind, -behind) <= clock.Agreement {
		g.keeper.unset.Store(false)
		g.cfg.Logger.Info("the cluster clock has been set")
	}
}

// saveClock remembers the cluster clock while this node keeps it.
func (g *Group) saveClock() {
	clock, term, ok := g.keptClock()
	if !ok {
		return
	}
	err := g.clocks.Save(clock, term, g.keeper.unset.Load())
	if _, full := g.DiskFull(); err != nil && !(full && diskspace.Full(err)) {
		g.cfg.Logger.Warn("save clock", "error", err)
	}
}

// keptClock returns the cluster clock that this node keeps, and the term of the leader
// whose clock it follows. The clock is exact on the leader, and a lower bound on other
// nodes. ok is false on a node that has heard no leader since its machine booted.
func (g *Group) keptClock() (clock int64, term uint64, ok bool) {
	if term, ok := g.Serving(); ok {
		return g.fsm.machine.Now(), term, true
	}
	return g.fsm.clockNow()
}
