package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// A refund is never better than no charge. Two callers do the same. One holds calls and
// settles them later for less, or cancels them. The other makes them at their real cost.
// The first may never have more left than the second, and has as much if they differ only
// in the refunds.
func TestARefundIsNeverBetterThanNoCharge(t *testing.T) {
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 100
	}
	test := func(t *testing.T, a algo.Algorithm) {
		refunds := 0
		for seed := range seeds {
			// Of its own: the clock of a shard does not go back.
			s := engine.New(engine.Config{Shards: 1}).NewSession()
			refunds += refundHistory(t, s, a, seed)
			s.Close()
		}
		require.Greater(t, refunds, int(seeds), "holds are settled")
	}
	forEach(t, test)
	t.Run("calendar", func(t *testing.T) { test(t, algo.PolicyCalendar) })
}

// refundHistory runs one random history, and returns how many holds it settled.
func refundHistory(t *testing.T, s *engine.Session, a algo.Algorithm, seed uint64) (settled int) {
	rnd := rand.New(rand.NewPCG(uint64(a), seed))
	l := algo.Limit{Algorithm: a, Limit: 1 + rnd.Int64N(30), Period: []int64{second, 7 * second, minute}[rnd.IntN(3)]}
	period := l.Period
	if a == algo.PolicyCalendar {
		l.Period = 0
	}
	if a == algo.Token || a == algo.Leaky {
		l.Burst = 1 + rnd.Int64N(2*l.Limit)
	}
	both := [2]engine.Check{}
	for i := range both {
		both[i] = of(t, s, fmt.Sprintf("@p:%d;seed=%d", i, seed), l)
		defer s.Engine().Release(both[i].Limit)
		switch mode := seed % 4; mode {
		case 1:
			both[i].CountAll = true
		case 2:
			if a != algo.Log { // what a full one leaves out stays away when older entries go
				both[i].Mode = algo.Soft
			}
		case 3:
			both[i].Debt = int64(seed % 7)
		}
	}
	held, plain := both[0], both[1]
	left := func(now int64, c engine.Check) int64 {
		c.Window = windowOf(now, 0)
		return remaining(t, s, now, c)
	}
	charge := func(now int64, c engine.Check, n int64) bool {
		c.Cost, c.Window = n, windowOf(now, 0)
		v, _ := check(t, s, now, c)
		return v.OK
	}
	type hold struct {
		id   string
		cost int64 // in the end
	}
	var open []hold
	// A soft bucket takes whole available units: two full buckets differ by less than
	// one.
	slack := int64(0)
	if held.Mode == algo.Soft && (a == algo.Token || a == algo.Leaky) {
		slack = 1
	}
	now := start + rnd.Int64N(minute)
	room := l.Capacity()
	for step := range 24 {
		switch rnd.IntN(4) {
		case 0:
			now++
		case 1:
			now += rnd.Int64N(period)
		case 2:
			now += period / max(l.Limit, 1) * rnd.Int64N(4)
		}
		n := 1 + rnd.Int64N(room)
		switch rnd.IntN(3) {
		case 0:
			c := held
			c.Cost, c.Window = n, windowOf(now, 0)
			h := hold{id: fmt.Sprintf("h%d.%d.%d", a, seed, step)}
			if v, _ := reserve(t, s, now, h.id, func(r *engine.Reserve) { r.TTL = reservation.MaxTTL }, c); v.OK {
				if rnd.IntN(2) == 0 {
					h.cost = rnd.Int64N(n)
				}
				open = append(open, h)
			} else if c.CountAll {
				h.cost = n
			}
			if h.cost > 0 {
				ok := charge(now, plain, h.cost)
				require.True(t, ok || c.CountAll, "seed %d: the one who held had more left", seed)
			}
		case 1:
			if ok := charge(now, held, n); ok || held.CountAll {
				require.True(t, charge(now, plain, n) || !ok, "seed %d, step %d: the one who held had more left", seed, step)
			}
		case 2:
			if len(open) == 0 {
				continue
			}
			i := rnd.IntN(len(open))
			how := cancelled()
			if c := open[i].cost; c > 0 {
				how = cost(c)
			}
			_, _ = s.Settle(now, []byte(open[i].id), how)
			open = append(open[:i], open[i+1:]...)
			settled++
		}
		require.LessOrEqual(t, left(now, held), left(now, plain)+slack, "seed %d, step %d", seed, step)
	}
	for _, h := range open {
		how := cancelled()
		if h.cost > 0 {
			how = cost(h.cost)
		}
		_, _ = s.Settle(now, []byte(h.id), how)
		settled++
	}
	for range 6 {
		require.LessOrEqual(t, left(now, held), left(now, plain)+slack, "seed %d, in the end", seed)
		now += 1 + rnd.Int64N(period)
	}
	return settled
}
