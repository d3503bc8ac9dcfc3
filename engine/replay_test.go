package engine_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// replayed is a counter by the definition of refunds. It is a list of charges, with the
// settled cost of a hold in place of the held one. What is used is what that list leaves.
type replayed struct {
	l       algo.Limit // of RL.LIMIT, or of a calendar
	charges []*replayedCharge
	holds   []*replayedHold
	held    int
}

type replayedCharge struct {
	at, units int64
	opened    int64 // of a window that begins with its first call: when
}

type replayedHold struct {
	id      string
	charge  *replayedCharge
	cost    int64
	ends    int64
	charges bool // expiry: charge
}

// used returns what is used, in units, or in 2^-32 ns of a bucket.
func (m *replayed) used(now int64) *big.Int {
	if m.l.Algorithm <= algo.Leaky {
		return m.backlog(now)
	}
	begins := func(t int64) int64 {
		if m.l.Algorithm == algo.PolicyCalendar {
			return windowOf(t, 0).End
		}
		return t / m.l.Period
	}
	var current, previous, lately int64
	for _, c := range m.charges {
		if m.l.Align == algo.First {
			if now-c.opened < m.l.Period {
				current += c.units
			}
			continue
		}
		switch {
		case begins(c.at) == begins(now):
			current += c.units
		case begins(c.at) == begins(now)-1:
			previous += c.units
		}
		if c.at > now-m.l.Period {
			lately += c.units
		}
	}
	switch m.l.Algorithm {
	case algo.Log:
		return algotest.Int(lately)
	case algo.Sliding:
		return algotest.Add(algotest.Int(current), algotest.CeilDiv(algotest.Mul(algotest.Int(previous), algotest.Int(m.l.Period-now%m.l.Period)), algotest.Int(m.l.Period)))
	}
	return algotest.Int(current)
}

// backlog replays the charges of a bucket.
func (m *replayed) backlog(now int64) *big.Int {
	b, used, last := algotest.NewBucket(m.l), new(big.Int), int64(0)
	for _, c := range m.charges {
		used = algotest.Add(algotest.Positive(algotest.Sub(used, algotest.InFractions(c.at-last))), b.Time(algotest.Int(c.units)))
		last = c.at
	}
	return algotest.Positive(algotest.Sub(used, algotest.InFractions(now-last)))
}

// charge adds a charge.
func (m *replayed) charge(now, units int64) *replayedCharge {
	c := &replayedCharge{at: now, units: units, opened: now}
	// A window that a hold has begun stays where it is, as long as something counts.
	if m.l.Align == algo.First && m.used(now).Sign() > 0 {
		i := slices.IndexFunc(m.charges, func(c *replayedCharge) bool { return now-c.opened < m.l.Period && m.counts(c.opened) })
		c.opened = m.charges[i].opened
	}
	m.charges = append(m.charges, c)
	return c
}

// counts reports whether something is left of the window that began at a time.
func (m *replayed) counts(opened int64) bool {
	return slices.ContainsFunc(m.charges, func(c *replayedCharge) bool { return c.opened == opened && c.units > 0 })
}

// settle gives a hold its real cost. If that is less, the hold has always had it; if
// more, the difference is charged now. charged is the charge until then.
func (m *replayed) settle(now int64, h *replayedHold, cost, charged int64) {
	if cost > charged {
		m.charge(now, cost-charged)
	} else {
		h.charge.units -= charged - cost
	}
}

// usedOf returns a counter's use, in the units of replayed.used.
func usedOf(t require.TestingT, s *engine.Session, now int64, c engine.Check) *big.Int {
	if c.Limit.Limit().Algorithm.Decider() > algo.Leaky {
		x, _, err := s.Explain(now, c.Key)
		require.NoError(t, err)
		return algotest.Int(x.Used)
	}
	sh := s.Engine().Table().At(c.Hash)
	sh.Lock()
	defer sh.Unlock()
	ent, ok := sh.Find(c.Hash, c.Key)
	if !ok || ent.Expired(now) {
		return new(big.Int)
	}
	fraction := int64(uint32(ent.Word(0))) // the rest is the mark
	return algotest.Positive(algotest.Sub(algotest.Add(algotest.InFractions(ent.Deadline()), algotest.Int(fraction)), algotest.InFractions(now)))
}

// After any charges, holds and settlements, a counter is as if each hold had been charged
// at its settled cost.
func TestSettlementsAreReplays(t *testing.T) {
	forEach(t, testReplays)
	t.Run("calendar", func(t *testing.T) { testReplays(t, algo.PolicyCalendar) })
}

func testReplays(t *testing.T, a algo.Algorithm) {
	rapid.Check(t, func(rt *rapid.T) {
		s := engine.New(engine.Config{Shards: 1}).NewSession()
		defer s.Close()
		l := algo.Limit{
			Algorithm: a,
			Limit:     rapid.Int64Range(10, 40).Draw(rt, "limit"), Period: rapid.SampledFrom([]int64{7 * second, minute, 60 * minute}).Draw(rt, "period"),
		}
		switch l.Algorithm {
		case algo.Token, algo.Leaky:
			l.Burst = rapid.Int64Range(8, 60).Draw(rt, "burst")
		case algo.PolicyCalendar:
			l.Period = 0
		case algo.Fixed:
			l.Align = rapid.SampledFrom([]algo.Align{algo.Epoch, algo.First}).Draw(rt, "align")
		}
		period := max(l.Period, 10*second)
		m := &replayed{l: l}
		c := of(t, s, "@p:a", l)
		defer s.Engine().Release(c.Limit)
		c.Debt = rapid.SampledFrom([]int64{0, 0, 5}).Draw(rt, "debt")
		now := start
		cost := func() int64 {
			return rapid.SampledFrom([]int64{0, 1, 1 + l.Capacity()/8, 1 + l.Capacity()/4, l.Capacity()}).Draw(rt, "cost")
		}
		priced := func(units int64) engine.Check {
			c := c
			c.Cost, c.Window = units, windowOf(now, 0)
			return c
		}
		some := func() (h *replayedHold) {
			if len(m.holds) == 0 {
				return nil
			}
			h = rapid.SampledFrom(m.holds).Draw(rt, "hold")
			m.holds = slices.DeleteFunc(m.holds, func(other *replayedHold) bool { return other == h })
			return h
		}
		settle := func(h *replayedHold, how engine.Settlement, cost int64) {
			how.Window = func(*reservation.Held) *algo.Window { return windowOf(now, 0) }
			charged := h.cost
			if now >= h.ends && !h.charges { // it was released first
				m.settle(now, h, 0, charged)
				charged = 0
			}
			a, err := s.Settle(now, []byte(h.id), how)
			require.NoError(rt, err)
			require.Equal(rt, how.State, a.State)
			m.settle(now, h, cost, charged)
		}
		actions := map[string]func(){
			"pass": func() {
				now += rapid.SampledFrom([]int64{1, second / 3, period / l.Limit, period / 16, period / 16, period / 5, period}).Draw(rt, "time")
				s.Engine().SettleEnded(context.Background(), s, now)
				for i := len(m.holds) - 1; i >= 0; i-- {
					if h := m.holds[i]; now >= h.ends {
						_, err := s.Settle(now, []byte(h.id), engine.Settlement{State: reservation.Released}) // which may come to it later
						require.NoError(rt, err)
						if !h.charges {
							m.settle(now, h, 0, h.cost)
							h.cost, h.charges = 0, true // the late commit charges all of it
						}
					}
				}
			},
			"call": func() {
				n := cost()
				if v, _ := check(t, s, now, priced(n)); v.OK && n > 0 {
					m.charge(now, n)
				}
			},
			"reserve": func() {
				n := cost()
				if n == 0 || m.held == maxReplays {
					return
				}
				h := &replayedHold{id: fmt.Sprint("h", m.held), cost: n, ends: now + rapid.SampledFrom([]int64{second, minute, reservation.MaxTTL, reservation.MaxTTL, reservation.MaxTTL}).Draw(rt, "ttl"), charges: rapid.Bool().Draw(rt, "expiry")}
				v, _ := reserve(t, s, now, h.id, func(r *engine.Reserve) { r.TTL, r.Charges, r.Keep = h.ends-now, h.charges, reservation.MaxKeep }, priced(n))
				if v.OK {
					h.charge = m.charge(now, n)
					r, err := s.Reservation(now, []byte(h.id))
					require.NoError(rt, err)
					h.ends = r.Ends // in whole ms
					m.holds, m.held = append(m.holds, h), m.held+1
				}
			},
			"commit": func() {
				if h := some(); h != nil {
					n := cost()
					settle(h, engine.Settlement{State: reservation.Committed, Cost: func(*reservation.Held) (int64, bool, error) { return n, true, nil }}, n)
				}
			},
			"cancel": func() {
				if h := some(); h != nil {
					settle(h, cancelled(), 0)
				}
			},
		}
		for range 60 {
			action := rapid.SampledFrom([]string{"pass", "pass", "call", "reserve", "reserve", "commit", "cancel"}).Draw(rt, "action")
			actions[action]()
			require.Equal(rt, m.used(now).String(), usedOf(rt, s, now, c).String(), "%v", l)
		}
	})
}

// maxReplays is how many holds of a counter are exact whatever they do.
const maxReplays = 33

// Ten holds of 100 are committed with 10 each: whatever comes first, 900 are left.
func TestTheOrderOfSettlementsDoesNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		for seed := range uint64(20) {
			s := newTestSession(t, engine.Config{Shards: 1})
			c := of(t, s, "@p:a", algo.Limit{Algorithm: a, Limit: 1000, Period: 60 * minute}, costs(100))
			for i := range 10 {
				reserve(t, s, start, fmt.Sprint("h", i), nil, c)
			}
			order := rand.New(rand.NewPCG(seed, 1)).Perm(10)
			switch seed {
			case 0:
				slices.Sort(order)
			case 1:
				slices.SortFunc(order, func(a, b int) int { return b - a })
			}
			for _, i := range order {
				settle(t, s, start, fmt.Sprint("h", i), cost(10))
			}
			require.EqualValues(t, 900, remaining(t, s, start, c), "%v", order)
		}
	})
}

// A counter with more holds than lows gives back no more than the definition says, and
// not much less.
func TestManyHoldsOfABucket(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		s := newTestSession(t, engine.Config{Shards: 1})
		l := algo.Limit{Algorithm: algo.Token, Limit: 1000, Period: 60 * minute}
		m, c := &replayed{l: l}, of(t, s, "@p:a", l)
		now, cancels := start, rnd.IntN(2) == 0
		least := func() int64 { // units that are left too few
			less := algotest.Sub(usedOf(t, s, now, c), m.used(now))
			require.GreaterOrEqual(t, less.Sign(), 0, "seed %d: more was given back than was there", seed)
			return algotest.FloorDiv(less, algotest.NewBucket(l).Time(algotest.Int(1))).Int64()
		}
		worst := int64(0)
		for i := range 1000 {
			if rnd.IntN(8) == 0 {
				now += rnd.Int64N(20 * second)
			}
			c.Cost = 1 + rnd.Int64N(8)
			h := &replayedHold{id: fmt.Sprint("h", i), cost: c.Cost}
			if v, _ := reserve(t, s, now, h.id, func(r *engine.Reserve) { r.TTL = reservation.MaxTTL }, c); v.OK {
				h.charge = m.charge(now, h.cost)
				m.holds = append(m.holds, h)
			}
			if seed%3 == 0 && rnd.IntN(3) == 0 {
				manySettle(t, s, m, now, rnd, cancels)
				worst = max(worst, least())
			}
		}
		for len(m.holds) > 0 {
			manySettle(t, s, m, now, rnd, cancels)
			worst = max(worst, least())
		}
		require.LessOrEqual(t, worst, l.Limit/8, "seed %d", seed)
	}
}

func manySettle(t *testing.T, s *engine.Session, m *replayed, now int64, rnd *rand.Rand, cancels bool) {
	if len(m.holds) == 0 {
		return
	}
	i := rnd.IntN(len(m.holds))
	h, n := m.holds[i], int64(0)
	m.holds = slices.Delete(m.holds, i, i+1)
	if !cancels {
		n = rnd.Int64N(h.cost + 1)
	}
	settle(t, s, now, h.id, cost(n))
	m.settle(now, h, n, h.cost)
}

// mostLows is how many lows the record of a bucket has at most.
const mostLows = 33

// lowsIn returns how many lows are in the record of a bucket of some words.
func lowsIn(words int) int { return (words - 2) / 2 }

// bucketOf returns the record of a marked bucket. Nobody else may be at the table.
func bucketOf(t *testing.T, s *engine.Session, c engine.Check) shard.Entry {
	t.Helper()
	ent, ok := s.Engine().Table().At(c.Hash).Find(c.Hash, c.Key)
	require.True(t, ok)
	return ent
}

// A record that is evicted while it is charged has lost its lows: earlier charges are not
// given back.
func TestABucketThatIsEvictedWithItsLows(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	c := of(t, s, "@p:a", perMinute(algo.Token, 60), costs(10))
	reserve(t, s, start, "first", nil, c)
	reserve(t, s, start+5*second, "second", nil, c)
	now := start + 6*second
	require.Equal(t, 1, lowsIn(bucketOf(t, s, c).Words()))

	require.NoError(t, s.ChargeEvicted(now, c, 10))
	require.EqualValues(t, 36, remaining(t, s, now, c))
	for _, id := range []string{"first", "second"} {
		require.EqualValues(t, 36, settle(t, s, now, id, cancelled()).Remaining, id)
	}
	reserve(t, s, now, "third", nil, c)
	require.EqualValues(t, 36, settle(t, s, now, "third", cancelled()).Remaining)
}

// A mark from before lows does not count: earlier charges are not given back, later holds
// are.
func TestTheMarkOfAnEarlierVersion(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	c := of(t, s, "@p:a", perMinute(algo.Token, 60), costs(10))
	reserve(t, s, start, "before", nil, c)
	ent, err := s.Engine().Table().At(c.Hash).Resize(bucketOf(t, s, c), c.Hash, 3, start)
	require.NoError(t, err)
	ent.SetWord(1, 0)
	ent.SetWord(2, 0)
	require.EqualValues(t, 50, settle(t, s, start, "before", cancelled()).Remaining)
	reserve(t, s, start, "later", nil, c)
	require.Equal(t, 2, bucketOf(t, s, c).Words())
	require.EqualValues(t, 50, settle(t, s, start, "later", cancelled()).Remaining)
}

// A record of a bucket that was held has a bound, and loses all but its state when it is
// charged anew.
func TestTheLowsOfABucketAreBounded(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	c := of(t, s, "@p:a", perMinute(algo.Token, 6000))
	for i := range 200 {
		reserve(t, s, start, fmt.Sprint("h", i), nil, c)
		require.LessOrEqual(t, bucketOf(t, s, c).Words(), 2+2*mostLows)
	}
	require.Equal(t, mostLows, lowsIn(bucketOf(t, s, c).Words()))
	last := mostLows
	for _, now := range []int64{start + second/2, start + second, start + 3*second/2} {
		check(t, s, now, c) // less is used than after many of them
		n := lowsIn(bucketOf(t, s, c).Words())
		require.Less(t, n, last)
		require.Equal(t, 2+2*n, bucketOf(t, s, c).Words())
		last = n
	}
	check(t, s, start+3*second, c)
	require.Equal(t, 1, bucketOf(t, s, c).Words())
}
