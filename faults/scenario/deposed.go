package scenario

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/internal/respclient"
)

// disputed are keys that a leader without followers changes in vain. Each has a limit of 100.
var disputed = []struct {
	name   string
	before int64 // consumed, and committed
	claims []claim
}{
	{"charged", 60, []claim{{cost: 40}}},
	{"refunded", 100, []claim{{cost: -30}, {cost: 30}}},
	{"returned", 100, []claim{{cost: -100}}},
	{"reset", 100, []claim{{reset: true}, {cost: 100}}},
	{"raised", 60, []claim{{cost: 140, limit: 200}}},
}

const disputedLimit = 100

// claim is a call that never commits.
type claim struct {
	cost  int64
	limit int64 // if it is another one
	reset bool
}

// deposed cuts the leader off and lets it decide, while it still does: charges, refunds, resets and another limit, none of
// which commits. The next leader must know nothing of them, and the old one must have forgotten them when it leads again.
func deposed(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := free(r.Rate)
	l := r.offer(keys, 3, r.dial, everything(keys))
	acknowledged := 0
	err := r.rounds(func() error {
		n, err := r.depose()
		acknowledged += n
		return err
	})
	err = r.finish(l, keys, err)
	if r.Mode == Async {
		// Otherwise there was nothing to take back.
		r.expect(acknowledged > 0, "deposed", "leaders without followers answered %d calls before they stopped", acknowledged)
	} else {
		r.expect(acknowledged == 0, "deposed", "leaders without followers answered %d calls", acknowledged)
	}
	return err
}

// depose does one round. It returns how many calls the leader without followers answered.
func (r *Run) depose() (acknowledged int, err error) {
	old, err := r.leader()
	if err != nil {
		return 0, err
	}
	prefix := "disputed" + strconv.FormatInt(r.now(), 10) + ":"
	for _, k := range disputed {
		if _, err := r.once(old, append(disputedCommand(prefix+k.name, disputedLimit, k.before), "SYNC")...); err != nil {
			return 0, err
		}
	}
	at := r.now()
	r.cluster.Isolate(old, linkfault.Hold)
	r.note("%s, the leader, is cut off", old.Name)
	r.harmed(at)
	r.lose(at-int64(maxUnacked), at+int64(maxUnacked))
	if acknowledged, err = claimAll(old.Addr, prefix); err != nil {
		return 0, err
	}
	r.note("it has answered %d calls that cannot commit", acknowledged)
	next, err := r.leader(old)
	if err != nil {
		return 0, err
	}
	r.note("%s leads", next.Name)
	for _, k := range disputed {
		if err := r.spendRest(next, prefix+k.name, k.before); err != nil {
			return 0, err
		}
	}
	r.cluster.Heal()
	r.note("the links work")
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return 0, err
	}
	if r.cluster.Leader() != old {
		r.note("%s is to lead again", old.Name)
		if err := r.transfer(old); err != nil {
			return 0, err
		}
	}
	for _, k := range disputed {
		used, err := r.used(old, prefix+k.name)
		if err != nil {
			return 0, err
		}
		r.unlessEqual("again", used, disputedLimit, "%s, which leads again, has %d of %q consumed", old.Name, used, k.name)
	}
	return acknowledged, nil
}

// spendRest checks that a leader knows what was committed of a key, and no more, and consumes what is left: one unit more
// is denied.
func (r *Run) spendRest(n *cluster.Node, key string, before int64) error {
	used, err := r.used(n, key)
	if err != nil {
		return err
	}
	r.unlessEqual("next", used, before, "%s, the next leader, has %d of %q consumed, %d were committed", n.Name, used, key, before)
	if left := disputedLimit - before; left > 0 {
		if _, err := r.once(n, append(disputedCommand(key, disputedLimit, left), "SYNC")...); err != nil {
			return err
		}
	}
	reply, err := r.once(n, append(disputedCommand(key, disputedLimit, 1), "SYNC")...)
	if err != nil {
		return err
	}
	r.unlessEqual("next", reply.Elems[0].Int, 0, "%s, the next leader, admitted %d more of %q", n.Name, reply.Elems[0].Int, key)
	return nil
}

// unlessEqual adds a finding if a figure is not what it must be.
func (r *Run) unlessEqual(check string, got, want int64, format string, args ...any) {
	if got != want {
		r.expect(false, check, format, args...)
	}
}

func disputedCommand(key string, limit, cost int64) []string {
	return []string{"RL.LIMIT", key, strconv.FormatInt(limit, 10), "1d", "ALGORITHM", "fixed", "ALIGN", "first", "COST", strconv.FormatInt(cost, 10)}
}

// claimAll sends all claims at once and counts those that are answered as if they had been decided.
func claimAll(addr, prefix string) (acknowledged int, err error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var out []byte
	n := 0
	for _, k := range disputed {
		for _, m := range k.claims {
			n++
			if m.reset {
				out = respclient.Append(out, "RL.RESET", prefix+k.name)
				continue
			}
			limit := int64(disputedLimit)
			if m.limit > 0 {
				limit = m.limit
			}
			out = respclient.Append(out, disputedCommand(prefix+k.name, limit, m.cost)...)
		}
	}
	if _, err := c.Write(out); err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	in := bufio.NewReader(c)
	for range n {
		reply, err := respclient.Read(in)
		if err != nil {
			return acknowledged, nil // it was killed, or is too slow
		}
		if reply.Error() == "" {
			acknowledged++
		}
	}
	return acknowledged, nil
}
