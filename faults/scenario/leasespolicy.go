package scenario

import (
	"fmt"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/askers"
	"github.com/headgate-io/headgate/resp"
)

const (
	// leasedPolicy has a limit of each user, and one that all share, which is the tight one.
	leasedPolicy = "leased"
	// windowUnits are those of the windowed limits per second, and windowRate is that of each of their holders.
	windowUnits, windowRate = 400, 150
	windowHolders           = 3
)

// leasesOfPolicy edits a policy while processes have leases of it. Others have leases of windows.
func leasesOfPolicy(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	load := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	l, err := r.newLeased()
	if l != nil {
		r.leases = l
		defer l.close()
	}
	if err == nil {
		err = l.startPolicy()
	}
	if err == nil {
		err = l.rounds(
			func() error { return l.edit(func() error { return nil }) },
			l.kill,
			func() error { return l.edit(r.killLeader) },
			func() error { return l.node(eventLeader, r.killLeader) },
		)
	}
	if err := r.finish(load, keys, err); err != nil {
		return err
	}
	return l.judge()
}

// startPolicy starts the processes.
func (l *leased) startPolicy() (err error) {
	l.policy = true
	if err := l.setPolicy(tightUnits); err != nil {
		return err
	}
	for i := range l.tight {
		if l.tight[i], err = l.start(askers.Config{Policy: leasedPolicy, Key: fmt.Sprint("u", i), TTL: leaseTTL, Rate: tightRate, Wave: wave}); err != nil {
			return err
		}
	}
	if _, err := l.start(askers.Config{Policy: leasedPolicy, Key: "plain", Scheme: askers.Plain, Rate: tightRate / 2, Wave: wave}); err != nil {
		return err
	}
	for _, windows := range []string{"fixed", "sliding"} {
		for range windowHolders {
			if _, err := l.start(askers.Config{Key: "leased:" + windows, Windows: windows, Units: windowUnits, TTL: leaseTTL, Rate: windowRate, Wave: wave}); err != nil {
				return err
			}
		}
	}
	l.wg.Go(l.look)
	return nil
}

// setPolicy sets the policy with so many units in the shared limit.
func (l *leased) setPolicy(units int64) error {
	n, err := l.r.leader()
	if err != nil {
		return err
	}
	l.r.note("the policy's limit is %d", units)
	_, err = l.r.do(n, "RL.POLICY", "SET", leasedPolicy, fmt.Sprintf("{limits: {user: {by: user, rate: %d/1s}, all: {rate: %d/1s burst %d}}}", tightUnits, units, units))
	return err
}

// edit lowers the policy's shared limit and raises it again. After that it does some harm. For as long as blocks of the
// old limit last, the old limit binds.
func (l *leased) edit(harm func() error) error {
	l.ready()
	l.events = append(l.events, oracle.LeaseEvent{Name: eventEdit, At: l.since(l.r.now())})
	if err := l.setPolicy(tightUnits / 2); err != nil {
		return err
	}
	time.Sleep(leaseTTL + allKnow)
	l.events = append(l.events, oracle.LeaseEvent{At: l.since(l.r.now()), Units: tightUnits / 2})
	time.Sleep(2 * wave)
	l.ready()
	at := l.r.now()
	if err := l.setPolicy(tightUnits); err != nil {
		return err
	}
	l.events = append(l.events, oracle.LeaseEvent{At: l.since(at), Units: tightUnits})
	return harm()
}

// sharedLimit returns what an RL.EXPLAIN of the policy says of the limit that all share, nil if it does not apply.
func sharedLimit(explained *resp.Reply) *resp.Reply {
	each := pair(explained, "limits").Elems
	for i := range each {
		if pair(&each[i], "name").Str == "all" {
			return &each[i]
		}
	}
	return nil
}

// wallOffset is the time between askers.Now and the wall time.
func wallOffset() int64 { return time.Now().UnixNano() - askers.Now() }
