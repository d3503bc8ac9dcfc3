package scenario

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/internal/respclient"
)

const (
	accounts = 16
	account  = 100_000 // limit of an account
	deposit  = account / 2
)

// transfers moves units between keys, +1 on one and -1 on another in one chain, under leader kills. At every moment, and
// at the end, the keys together have consumed what they had at first.
func transfers(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := &load.Keyspace{Places: accounts, Life: never, Spec: func(place, _ int) history.Key {
		return history.Key{Name: fmt.Sprintf("{account}%d", place), Algorithm: history.Fixed, Limit: account, Period: never}
	}}
	n, err := r.leader()
	if err != nil {
		return err
	}
	if err := open(n); err != nil {
		return err
	}
	l := r.offer(keys, 3, r.dial, func(_ int, rnd *rand.Rand, _ time.Duration) history.Call {
		from := rnd.IntN(accounts)
		to := (from + 1 + rnd.IntN(accounts-1)) % accounts
		return history.Call{Kind: history.Transfer, Key: uint32(from), Other: uint32(to), Cost: 1, Limit: account}
	})
	stop := make(chan struct{})
	var audits audit
	var wg sync.WaitGroup
	wg.Go(func() { audits.run(r, stop) })
	err = r.rounds(r.killLeader)
	close(stop)
	wg.Wait()
	if err := r.finish(l, keys, err); err != nil {
		return err
	}
	for _, n := range r.cluster.Nodes {
		if err := audits.once(n); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	r.expect(audits.wrong == 0 && audits.done > 0, "transfers", "%d audits, %d sums other than %d, the last %d",
		audits.done, audits.wrong, accounts*deposit, audits.last)
	return nil
}

// chain is the command that applies a cost to every account.
func chain(cost int) []string {
	args := []string{"RL.LIMIT"}
	for i := range accounts {
		if i > 0 {
			args = append(args, "AND")
		}
		args = append(args, fmt.Sprintf("{account}%d", i), strconv.Itoa(account), "1d", "ALGORITHM", "fixed", "ALIGN", "first", "COST", strconv.Itoa(cost))
	}
	return args
}

// open makes the first deposits, durably in any mode.
func open(n *cluster.Node) error {
	r, err := respclient.Do(n.Addr, patience, append(chain(deposit), "SYNC")...)
	if err == nil && r.Elems[0].Int == 0 {
		err = fmt.Errorf("deposits denied: %v", r)
	}
	return err
}

// audit reads the sum of all accounts, atomically, again and again.
type audit struct {
	done, wrong int
	last        int64
}

func (a *audit) run(r *Run, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
			_ = a.once(r.cluster.Nodes[i%len(r.cluster.Nodes)]) // a node that is down says nothing
		}
	}
}

func (a *audit) once(n *cluster.Node) error {
	reply, err := respclient.Do(n.Addr, patience, chain(0)...)
	if err != nil {
		return err
	}
	if len(reply.Elems) != 7 || len(reply.Elems[6].Elems) != accounts {
		return fmt.Errorf("reply of %d elements", len(reply.Elems))
	}
	a.last = 0
	for _, e := range reply.Elems[6].Elems {
		a.last += account - e.Elems[2].Int
	}
	a.done++
	if a.last != accounts*deposit {
		a.wrong++
	}
	return nil
}
