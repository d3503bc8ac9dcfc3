package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
)

// policyKinds are the policies of a load: one whose every answer is durable, and one of three limits, the last of which
// all callers share.
var policyKinds = []history.Policy{
	{Name: "solo", Sync: true, Limits: []history.PolicyLimit{
		{Name: "user", By: "user", Algorithm: history.Fixed, Period: never},
	}},
	{Name: "trio", Limits: []history.PolicyLimit{
		{Name: "user", By: "user", Algorithm: history.Fixed, Period: never},
		{Name: "team", By: "team", Algorithm: history.Token, Period: 365 * never},
		{Name: "all", Algorithm: history.Log, Period: time.Second},
	}},
}

const (
	// callers are how many there are of each policy at a time, and teamSize how many of them are a team.
	callers  = 12
	teamSize = 4
	// editEvery is the time from one edit of a policy or an override to the next.
	editEvery = 60 * time.Millisecond
	// anyLimit stands for the limit of a check that has no answer.
	anyLimit = 1 << 20
	// meanCost is what a check costs on average.
	meanCost = 1.4

	// The clock of the limits goes back by 10 ms at most with each change of leaders, and a window may see a few. Where all
	// nodes are down, its last entry may be a second old.
	clockBack       = 50 * time.Millisecond
	clockBackOfDown = 2500 * time.Millisecond
)

// checks are callers of policies in a keyspace, and who edits the policies.
type checks struct {
	keys   *load.Keyspace
	first  int // place of the callers of trio; as many that wait for their commit follow, and those of solo
	editor *load.Editor

	// rate is the rate of calls of trio among the others. waiting is the rate of calls that wait for their commit.
	// These have connections of their own, so that in async no other calls wait for them.
	rate, waiting float64
}

// addChecks adds callers to a keyspace.
func addChecks(keys *load.Keyspace, a amount) *checks {
	c := &checks{keys: keys, rate: a.checkRate, waiting: a.waitRate}
	c.first = keys.Add(3*callers, func(place, generation int) history.Key {
		n := place % callers
		who := history.Caller{Policy: "trio", User: fmt.Sprintf("u%d.%d", n, generation), Team: fmt.Sprintf("t%d.%d", n/teamSize, generation)}
		switch place / callers {
		case 1:
			who.Option = "SYNC"
		case 2:
			// Whose answers are durable asks for less in vain.
			who.Policy, who.Team, who.Option = "solo", "", []string{"", "ASYNC"}[n%2]
		}
		return history.Key{
			Name: who.Policy + "/" + who.User, Algorithm: history.Fixed, Limit: anyLimit, Period: never, Unjudged: true, Apart: place >= callers, Caller: &who,
		}
	})
	return c
}

// unit is about half of what a policy's caller asks for in a generation.
func (c *checks) unit(p *history.Policy) int32 {
	rate := c.rate
	if p.Sync {
		rate = c.waiting / 2
	}
	return int32(max(4, rate/callers*c.keys.Life.Seconds()*meanCost/2))
}

// amounts chooses those of a version: each limit denies now and then.
func (c *checks) amounts(p *history.Policy, rnd *rand.Rand) []int32 {
	unit := c.unit(p)
	out := []int32{unit/2 + rnd.Int32N(unit)}
	if len(p.Limits) > 1 {
		all := max(4, int32(c.rate*meanCost/2))
		out = append(out, 2*unit+rnd.Int32N(2*unit), all/2+rnd.Int32N(all))
	}
	return out
}

// overridden chooses the amount of an override.
func (c *checks) overridden(p *history.Policy, rnd *rand.Rand) int32 {
	return 1 + rnd.Int32N(3*c.unit(p))
}

// caller chooses somebody who calls now.
func (c *checks) caller(p *history.Policy, rnd *rand.Rand, at time.Duration) *history.Caller {
	place := c.first + rnd.IntN(callers)
	if p.Sync {
		place += 2 * callers
	}
	return c.keys.Key(c.keys.At(place, at)).Caller
}

// plain plans a check that does not wait, and later one that does.
func (c *checks) plain(rnd *rand.Rand, due time.Duration) history.Call {
	return c.check(rnd, c.keys.At(c.first+rnd.IntN(callers), due))
}

func (c *checks) later(_ int, rnd *rand.Rand, due time.Duration) history.Call {
	return c.check(rnd, c.keys.At(c.first+callers+rnd.IntN(2*callers), due))
}

func (c *checks) check(rnd *rand.Rand, key uint32) history.Call {
	call := history.Call{Kind: history.Check, Key: key, Cost: 1, Limit: anyLimit}
	switch n := rnd.IntN(20); {
	case n < 2:
		call.Cost = 0
	case n < 5:
		call.Cost = 2
	case n < 8:
		call.Cost = 3
	}
	return call
}

// mix plans, of so many calls per second, those that are checks, and leaves to next the others.
func (c *checks) mix(rate float64, next plan) plan {
	return func(conn int, rnd *rand.Rand, due time.Duration) history.Call {
		if rnd.Float64()*rate < c.rate {
			return c.plain(rnd, due)
		}
		return next(conn, rnd, due)
	}
}

// startEditor sets the policies, and begins to change them.
func (r *Run) startEditor(nodes int, dial func(int) string) (err error) {
	c := r.checks
	c.editor, err = load.NewEditor(load.EditorConfig{
		Policies: policyKinds, Nodes: nodes, Dial: dial, Epoch: r.epoch, Seed: r.Seed, Every: editEvery, Timeout: patience,
		Amounts: c.amounts, Caller: c.caller, Overridden: c.overridden,
	})
	if err == nil {
		c.editor.Start()
	}
	return err
}

// stop ends the edits; nil has none.
func (c *checks) stop() {
	if c != nil {
		c.editor.Stop()
	}
}

// pause has nothing edited until resume; nil edits nothing.
func (c *checks) pause() {
	if c != nil {
		c.editor.Pause()
	}
}

func (c *checks) resume() {
	if c != nil {
		c.editor.Resume()
	}
}

// clockBack is how far the clock of the limits may have gone back.
func (r *Run) clockBack() time.Duration {
	if r.allDown {
		return clockBackOfDown
	}
	return clockBack
}

// judgePolicies judges checks and edits; used is what counters hold in the end.
func (r *Run) judgePolicies() {
	c := r.checks
	if c == nil {
		return
	}
	c.editor.Into(&r.history)
	if flush := r.flushed; flush.End > 0 {
		for _, p := range policyKinds {
			r.history.Edits = append(r.history.Edits, history.Edit{
				Kind: history.Forget, Policy: p.Name, Start: flush.Start, End: flush.End, Outcome: flush.Outcome, Resets: true,
			})
		}
	}
	waiting, decided := 0, 0
	for i := range r.history.Calls {
		if c := &r.history.Calls[i]; c.Kind == history.Check && r.history.Apart(c) && !oracle.Excused(c, r.outages) {
			waiting++
			if c.Decided() {
				decided++
			}
		}
	}
	r.expect(float64(decided) >= decidedApart*float64(waiting), "checks", "%d of %d checks that wait for their commit were decided", decided, waiting)
	r.add(oracle.Versions(&r.history, int64(r.clockBack())))
	durable := func(who *history.Caller) bool { return r.Mode == Sync || who.Option == "SYNC" || who.Policy == "solo" }
	r.add(oracle.Counters(&r.history, oracle.CheckRules{Durable: durable, Bound: r.bound(anyGroup), Back: int64(r.clockBack())}, r.counted))
	r.add(oracle.LinearChecks(&r.history, r.Dir))
}
