package scenario

import (
	"fmt"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/respclient"
)

const (
	// fewBillers are in the load of every scenario with policies, manyBillers where they are what it is about.
	fewBillers, manyBillers = 4, 24
	// billEvery is the time from one bill of a biller to the next, and userLife that of the user whom two of them bill.
	billEvery = 150 * time.Millisecond
	userLife  = 4 * time.Second
)

// bills are calls that are repeated under a name, and holds, in a load.
type bills struct {
	billers *load.Billers
	all     []history.Bill
	used    map[string]oracle.Billed
}

// startBills begins to bill.
func (r *Run) startBills(billers, nodes int, dial func(int) string) error {
	cfg := load.BillerConfig{
		Billers: billers, Nodes: nodes, Dial: dial, Epoch: r.epoch, Seed: r.Seed, Every: billEvery, Life: userLife,
		Timeout: patience, Patient: 2 * failover,
	}
	if r.cluster != nil {
		cfg.HTTP = func(node int) string { return r.cluster.Ports(dial(node)).HTTP }
	}
	b, err := load.NewBillers(cfg)
	if err == nil {
		r.bills = &bills{billers: b}
		b.Start()
	}
	return err
}

// stop ends the bills; nil has none.
func (b *bills) stop() {
	if b != nil {
		b.all = b.billers.Stop()
	}
}

// pause has nothing billed until resume; nil bills nothing.
func (b *bills) pause() {
	if b != nil {
		b.billers.Pause()
	}
}

func (b *bills) resume() {
	if b != nil {
		b.billers.Resume()
	}
}

// readBills reads what the counters of the bills hold; addr is the leader's.
func (r *Run) readBills(addr string) error {
	r.bills.used = make(map[string]oracle.Billed)
	for i := range r.bills.all {
		user := r.bills.all[i].User
		if r.bills.used[user] != nil {
			continue
		}
		used := make(oracle.Billed)
		for _, limit := range load.BillLimits {
			reply, err := respclient.Do(addr, patience, "RL.EXPLAIN", load.BillKey(limit, user))
			if err != nil {
				return fmt.Errorf("what %s was billed: %w", user, err)
			}
			used[limit] = pair(&reply, "used").Int // nothing, if it is not there
		}
		r.bills.used[user] = used
	}
	return nil
}

// judgeBills judges the bills.
func (r *Run) judgeBills() {
	b := r.bills
	if b == nil {
		return
	}
	r.add(oracle.Bills(b.all, load.BillLimit, r.flushed.End, b.used))
	answered := 0
	for i := range b.all {
		if b.all[i].Outcome != history.Unknown {
			answered++
		}
	}
	r.expect(float64(answered) >= decidedApart*float64(len(b.all)), "bills", "%d of %d were answered in the end", answered, len(b.all))
}

// billing kills leaders while clients bill.
func billing(r *Run) error { return r.billedUnderKills(r.Bin) }

// forgetful is an executable that knows no call again.
var forgetful build

// billedTwice does the same to a cluster that knows no call again.
func billedTwice(r *Run) error {
	bin, err := forgetful.get(r, "forgetful", cluster.BuildForgetful)
	if err != nil {
		return err
	}
	return r.billedUnderKills(bin)
}

func (r *Run) billedUnderKills(bin string) error {
	r.billers = manyBillers
	if err := r.start(cluster.Config{Bin: bin}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(much, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	return r.finish(l, keys, r.rounds(r.killLeader))
}
