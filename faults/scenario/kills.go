package scenario

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
)

// leaderKills kills one leader after the other.
func leaderKills(r *Run) error { return r.killLeaders(limits(r.Rate), chargeAndPeek) }

// leaderKillsFree does the same to keys that are refunded, reset, and limited anew.
func leaderKillsFree(r *Run) error { return r.killLeaders(free(r.Rate), everything) }

// asyncAsSync does it to a cluster that is less durable than it is judged to be.
func asyncAsSync(r *Run) error {
	return r.killLeaders(limits(r.Rate), chargeAndPeek, "--durability", Async)
}

func (r *Run) killLeaders(keys *load.Keyspace, calls func(*load.Keyspace) plan, args ...string) error {
	if err := r.start(cluster.Config{}, args...); err != nil {
		return err
	}
	l, err := r.offerData(much, keys, 3, r.dial, calls(keys))
	if err != nil {
		return err
	}
	return r.finish(l, keys, r.rounds(r.killLeader))
}

// allKilled kills all nodes at once. A bucket that was empty then must have gained, after the restart, what came back in
// the time that nobody counted.
func allKilled(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(much, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	err = r.rounds(func() error { return r.killAll(10*time.Second, func() {}) })
	return r.finish(l, keys, err)
}

func (r *Run) killAll(downtime time.Duration, meanwhile func()) error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	// 100 units at one per second.
	bucket := []string{"RL.LIMIT", "bucket:" + strconv.FormatInt(r.now(), 10), "100", "100s", "COST"}
	took := time.Now()
	if _, err := r.once(n, append(bucket, "100", "SYNC")...); err != nil {
		return err
	}
	r.note("kill all nodes, for %v", downtime)
	r.allDown = true
	for _, n := range r.cluster.Nodes {
		r.down(n.Index)
	}
	r.marks.killed(r.now())
	for _, n := range r.cluster.Nodes {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	t := r.now()
	r.lose(t-int64(maxUnacked), t)
	meanwhile()
	time.Sleep(downtime)
	r.note("start all nodes")
	for _, n := range r.cluster.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	r.harmed(r.now())
	if n, err = r.leader(); err != nil {
		return err
	}
	r.note("%s leads", n.Name)
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	for _, n := range r.cluster.Nodes {
		r.up(n.Index)
	}
	reply, err := r.do(n, append(bucket, "0")...)
	if err != nil {
		return err
	}
	passed := time.Since(took).Seconds()
	gained := float64(reply.Elems[2].Int)
	// The cluster clock's last entry may be a second old, and a remaining unit counts when it is whole.
	r.expect(gained > passed-2.5 && gained <= passed, "refill", "a bucket that gains a unit per second was emptied, and had %.0f units %.1f s later", gained, passed)
	return nil
}

// rollingRestart restarts every node in turn, in order (SIGTERM), while limits of 1000 that are half used are used up.
func rollingRestart(r *Run) error {
	const quotas, limit = 10, 1000
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := &load.Keyspace{Places: quotas, Life: never, Spec: func(place, _ int) history.Key {
		return history.Key{Name: fmt.Sprintf("quota%d", place), Algorithm: history.Fixed, Limit: limit, Period: never}
	}}
	halves := 0
	l := r.offer(keys, 3, r.dial, func(conn int, rnd *rand.Rand, due time.Duration) history.Call {
		c := history.Call{Key: keys.Pick(rnd, due), Cost: 1, Limit: limit}
		if conn == 0 && halves < quotas { // one goroutine per connection
			c.Key, c.Cost = uint32(halves), limit/2
			halves++
		}
		return c
	})
	err := r.rounds(r.restartAll)
	if err == nil {
		// Use up what is left.
		time.Sleep(time.Duration(float64(quotas*limit/2) / r.Rate * float64(time.Second)))
	}
	if err := r.finish(l, keys, err); err != nil {
		return err
	}
	return r.quotasUsed(limit)
}

// restartAll restarts every node in order.
func (r *Run) restartAll() error {
	for _, n := range r.cluster.Nodes {
		if err := r.stopNode(n); err != nil {
			return err
		}
		if err := r.restart(n); err != nil {
			return err
		}
		r.wait(time.Second)
	}
	return nil
}

// quotasUsed checks that the quotas were handed out, all and once.
func (r *Run) quotasUsed(limit int64) error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	for k, calls := range r.history.ByKey() {
		if len(calls) == 0 {
			continue
		}
		var seen, unknown int64
		for i := range calls {
			switch calls[i].Outcome {
			case history.Admitted:
				seen += int64(calls[i].Cost)
			case history.Unknown:
				unknown += int64(calls[i].Cost)
			}
		}
		name := r.history.Keys[k].Name
		reply, err := r.do(n, "RL.LIMIT", name, strconv.FormatInt(limit, 10), "1d", "ALGORITHM", "fixed", "ALIGN", "first", "COST", "0")
		if err != nil {
			return err
		}
		left := reply.Elems[2].Int
		if seen > limit && r.unforeseen == 0 || seen < limit-unknown || left != 0 {
			r.expect(false, "quota", "%s: %d of %d seen, %d unanswered, %d left", name, seen, limit, unknown, left)
		}
	}
	return nil
}
