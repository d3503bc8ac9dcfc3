package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/linkfault"
)

const (
	// prompt is the time in which calls are to be answered, and availabilityGoal the share of them that are to be.
	prompt           = 20 * time.Millisecond
	availabilityGoal = 0.9999

	// gapAnswer is how long an answer may take on a surviving node when its leader has died.
	gapAnswer = 150 * time.Millisecond
)

// availability does all kinds of harm in turn to nodes with the default parameters. Without a leader these decide on
// their shares.
func availability(r *Run) error {
	if err := r.start(cluster.Config{}, "--on-failure", "local"); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	r.warmUp()
	follower := func(leader *cluster.Node) *cluster.Node { return r.cluster.Nodes[(leader.Index+1)%3] }
	harms := []func(*cluster.Node) error{
		r.killAndRestart,
		func(n *cluster.Node) error { return r.cutOff(n, n.Name+", the leader", linkfault.Hold, n) },
		func(*cluster.Node) error { return r.pauseLeader(2 * time.Second) },
		r.stopAndRestart,
		func(n *cluster.Node) error { return r.cutOff(n, n.Name+", the leader", linkfault.Faults{Cut: true}, n) },
		func(n *cluster.Node) error { return r.killAndRestart(follower(n)) },
		func(n *cluster.Node) error { return r.cutOff(follower(n), follower(n).Name, linkfault.Hold) },
		func(n *cluster.Node) error { return r.stopAndRestart(follower(n)) },
	}
	round := 0
	err := r.rounds(func() error {
		n, err := r.leader()
		if err != nil {
			return err
		}
		round++
		return harms[(round-1)%len(harms)](n)
	})
	err = r.finish(l, keys, err)
	goal := availabilityGoal
	if r.busy() {
		goal = 0 // nothing would be learnt about Headgate
	}
	f, _ := oracle.Promptness(&r.history, r.outages, prompt, goal)
	f.Check = "available"
	f.Details = append(f.Details, r.lateAfter()...)
	r.add(f)
	return err
}

// warmUp leaves the load's first second out of the times. All processes have just begun, also the one that makes the
// load.
func (r *Run) warmUp() {
	for _, n := range r.cluster.Nodes {
		r.down(n.Index)
	}
	time.Sleep(time.Second)
	for _, n := range r.cluster.Nodes {
		r.up(n.Index)
	}
}

// stopAndRestart does so in order.
func (r *Run) stopAndRestart(n *cluster.Node) error {
	if err := r.stopNode(n); err != nil {
		return err
	}
	return r.restart(n)
}

// cutOff cuts a node off from both others until those have a leader that is not among without.
func (r *Run) cutOff(n *cluster.Node, what string, f linkfault.Faults, without ...*cluster.Node) error {
	r.note("%s is cut off", what)
	at := r.now()
	r.cluster.Isolate(n, f)
	r.harmed(at)
	_, err := r.leader(without...)
	r.wait(time.Second)
	r.cluster.Heal()
	r.note("the links work")
	r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
	if err != nil {
		return err
	}
	return r.cluster.AwaitSettled(recovery)
}

// lateAfter tells, for each event, how many calls were not answered in time from then to the next.
func (r *Run) lateAfter() []string {
	late := make([]int, len(r.history.Events))
	for i := range r.history.Calls {
		c := &r.history.Calls[i]
		if c.Decided() && c.Latency() <= prompt || oracle.Excused(c, r.outages) {
			continue
		}
		if at, _ := slices.BinarySearchFunc(r.history.Events, c.Due, func(e history.Event, due int64) int { return int(e.At - due) }); at > 0 {
			late[at-1]++
		}
	}
	var lines []string
	for i, n := range late {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%d late after %.3f s, %s", n, float64(r.history.Events[i].At)/1e9, r.history.Events[i].Text))
		}
	}
	return lines
}

// localKills kills the leader of nodes that decide on their shares when they have none. Clients of surviving nodes see
// no error, and no late answer.
func localKills(r *Run) error {
	if err := r.start(cluster.Config{}, "--on-failure", "local"); err != nil {
		return err
	}
	keys := limits(r.Rate)
	if err := r.raised(); err != nil {
		return err
	}
	if err := r.startGateways(3, r.dial, true); err != nil {
		return err
	}
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	err := r.rounds(func() error {
		n, err := r.leader()
		if err != nil {
			return err
		}
		return r.killAndRestart(n)
	})
	err = r.finish(l, keys, err)
	f, _ := oracle.Promptness(&r.history, r.outages, time.Duration(float64(gapAnswer)*r.slack()), 1)
	f.Check = "gap"
	r.add(f)
	r.judgeLocalGateways(time.Duration(float64(gapAnswer) * r.slack()))
	return err
}
