package raftlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
)

const (
	// clockAgreement is how near to each other clocks must be to agree. It is also what a leader slews.
	clockAgreement = int64(time.Second)

	// clockPatience bounds the wait of an elected leader for what a majority knows of the clock.
	clockPatience = 3 * time.Second
)

// ClockReport is what a node knows of the cluster clock, for a new leader that has not kept it. Times are in unix ns.
type ClockReport struct {
	// Kept: the node has heard a leader since its machine was booted. Now is then what the cluster clock is at least,
	// by the clock of the leader of Term.
	Kept bool   `json:"kept"`
	Term uint64 `json:"term,omitempty"`
	Now  int64  `json:"now,omitempty"`

	// Saved: the node has saved the clock, when its wall clock was SavedWall and the cluster clock ahead of it by Offset.
	// Wall is its wall clock now.
	Saved     bool  `json:"saved"`
	Offset    int64 `json:"offset,omitempty"`
	SavedWall int64 `json:"saved_wall,omitempty"`
	Wall      int64 `json:"wall"`
}

// later is the report with d more on each clock that runs.
func (r ClockReport) later(d int64) ClockReport {
	r.Now += d
	r.Wall += d
	return r
}

// clockReport is this node's own.
func (g *Group) clockReport() ClockReport {
	r := ClockReport{Wall: g.clocks.wall()}
	r.Now, r.Term, r.Kept = g.keptClock()
	if s, ok := g.clocks.last(); ok {
		r.Saved, r.Offset, r.SavedWall = true, s.offset(), s.Wall
	}
	return r
}

// resumption says what the cluster clock was when nobody could be asked that has led since, so that a leader may go on.
type resumption struct {
	clock, at int64 // at the time of this boot
	told      bool  // else it is the last value that the log has
}

// resume finds out what the cluster clock is, from what the voters that answered know of it, and the last value in the
// log.
//
//   - If one of them has kept it, by the clock of the latest leader that anybody has heard, and if there are several by the
//     one that knows most: what each tells is a lower bound.
//   - Else all that answered have been booted since, and an hour without power looks like an hour by which a wall clock was
//     put right. Wall time counts only by the word of a majority of all voters: those whose wall clocks were as far from
//     the cluster clock when they saved it, within clockAgreement, and would still have it at the same time now. So wall
//     clocks that were right have it, and one that was not, or has been set since, has no say. Of them the earliest counts.
//   - The only voter there is has nobody to agree with but itself: its wall clock counts if the cluster clock was within
//     clockAgreement of it, and so had been slewed to it.
//   - No clock that was set back, behind what it was when it was saved or behind the log, counts.
func resume(reports []ClockReport, voters int, last int64) (clock int64, told bool) {
	var kept *ClockReport
	for i := range reports {
		r := &reports[i]
		if r.Kept && (kept == nil || r.Term > kept.Term || r.Term == kept.Term && r.Now > kept.Now) {
			kept = r
		}
	}
	if kept != nil {
		return max(last, kept.Now), true
	}
	var able []ClockReport
	for _, r := range reports {
		if r.Saved && r.Wall >= r.SavedWall && r.Wall+r.Offset >= last {
			able = append(able, r)
		}
	}
	if voters == 1 {
		if len(able) == 1 && max(able[0].Offset, -able[0].Offset) <= clockAgreement {
			return able[0].Wall + able[0].Offset, true
		}
		return last, false
	}
	most := voters / 2 // no majority
	for _, a := range able {
		for _, b := range able {
			earliest, count := b.Wall+b.Offset, 0
			for _, r := range able {
				if within := func(d int64) bool { return 0 <= d && d <= clockAgreement }; within(r.Offset-a.Offset) && within(r.Wall+r.Offset-earliest) {
					count++
				}
			}
			if count > most || count == most && told && earliest < clock {
				clock, told, most = earliest, true, count
			}
		}
	}
	if !told {
		return last, false
	}
	return clock, true
}

// clockKeeper is what a group knows of its clock beside the fsm.
type clockKeeper struct {
	resumed atomic.Pointer[resumption] // by this node, when it was elected last

	// unset: the clock went on from its last value, because nobody could tell how much time had passed, and is behind wall
	// time since. Followers take it from the leader, and all save it with the clock: a restart of all processes sets no clock.
	unset atomic.Bool
}

// resumeClock has the fsm know what the clock is before it leads, in a term that this node is about to serve. A node that
// has heard a leader since it started knows; any other asks the voters, until a majority of them, itself included, has
// answered, or clockPatience is over.
func (g *Group) resumeClock(ctx context.Context, stillLeader func() bool) {
	g.keeper.resumed.Store(nil)
	last := g.fsm.clock.Load()
	if b := g.fsm.bound.Load(); b != nil && !b.saved {
		return
	}
	if last == 0 { // the log has no batch yet: the cluster is new, and its clock begins as this node's wall clock
		g.keeper.resumed.Store(&resumption{g.clocks.wall(), g.fsm.now(), true})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	reports, voters := g.askClocks(ctx, stillLeader)
	clock, told := resume(reports, voters, last)
	g.keeper.resumed.Store(&resumption{clock, g.fsm.now(), told})
	if told {
		g.cfg.Logger.Info("nobody has kept the cluster clock on this node; it goes on by what the voters know", "clock", time.Unix(0, clock), "voters", voters, "answers", len(reports))
		return
	}
	g.keeper.unset.Store(true)
	g.cfg.Logger.Error("nobody can tell how long the cluster was down: its clock goes on from its last value, and no limit has refilled since. Make sure that the leader's wall clock is right, then run headgate cluster set-clock",
		"clock", time.Unix(0, clock), "wall", time.Unix(0, g.clocks.wall()), "voters", voters, "answers", len(reports))
}

// askClocks returns the reports of the voters, this node's own among them, and how many voters there are.
func (g *Group) askClocks(ctx context.Context, stillLeader func() bool) (reports []ClockReport, voters int) {
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
		answers := make([]*ClockReport, len(others))
		came := make([]int64, len(others))
		var wg sync.WaitGroup
		for i, s := range others {
			wg.Go(func() {
				actx, cancel := context.WithTimeout(ctx, pollTimeout)
				defer cancel()
				st, err := g.Caller().Status(actx, string(s.Address))
				if err == nil && member.ServerID(st.NodeID, st.DataID) == s.ID && !g.cur.Load().id.foreign(st.ClusterID) {
					answers[i], came[i] = &st.ClockReport, g.fsm.now()
				}
			})
		}
		wg.Wait()
		now := g.fsm.now()
		reports = []ClockReport{g.clockReport()}
		for i, r := range answers {
			if r != nil {
				reports = append(reports, r.later(now-came[i]))
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

// saveResumed saves the clock that this node is about to serve a term with, if it has not kept it.
func (g *Group) saveResumed(term uint64) {
	if g.keeper.resumed.Load() == nil {
		return
	}
	if err := g.clocks.save(g.resumed(), term, g.keeper.unset.Load()); err != nil {
		g.cfg.Logger.Warn("save clock", "error", err)
	}
}

// lookAtClock ends the alarm of a clock that is no longer behind wall time.
func (g *Group) lookAtClock() {
	if _, serving := g.Serving(); !serving || !g.keeper.unset.Load() {
		return
	}
	if behind := g.clocks.wall() - g.fsm.machine.Now(); max(behind, -behind) <= clockAgreement {
		g.keeper.unset.Store(false)
		g.cfg.Logger.Info("the cluster clock has been set")
	}
}
