package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// TestLeasesAreFair simulates holders that follow the client's rules, with a round trip
// of 1 ms, and a caller without a lease, for 20 s. The limit is used up, each gets its
// max-min share, within 10 %, and few calls go to the server.
func TestLeasesAreFair(t *testing.T) {
	t.Parallel()
	const step = int64(1e6)
	for _, c := range []struct {
		rate    float64   // units a second, and the capacity
		demands []float64 // units a second of holders
		plain   float64   // of the caller without a lease
		shares  []float64
		share   float64 // of the caller without a lease
		asks    float64 // requests for a unit that was asked for, at most
	}{
		{1000, []float64{200, 200, 200, 200}, 0, []float64{200, 200, 200, 200}, 0, 0.1},
		{1000, []float64{500, 500, 500, 500}, 500, []float64{200, 200, 200, 200}, 200, 0.1},
		{1000, []float64{2000, 100, 100, 100}, 0, []float64{700, 100, 100, 100}, 0, 0.1},
		{1000, []float64{900, 30, 30, 30}, 0, []float64{900, 30, 30, 30}, 0, 0.1},
		{400, []float64{100, 100, 100, 100}, 0, []float64{100, 100, 100, 100}, 0, 0.1},
		{4000, []float64{1000, 1000, 1000, 1000}, 0, []float64{1000, 1000, 1000, 1000}, 0, 0.02},
		{40_000, []float64{10_000, 10_000, 10_000, 10_000}, 0, []float64{10_000, 10_000, 10_000, 10_000}, 0, 0.005},
	} {
		t.Run(fmt.Sprint(c.demands, c.plain), func(t *testing.T) {
			limit := algo.Limit{Limit: int64(c.rate), Period: 1e9}
			s := engine.New(engine.Config{Shards: 1}).NewSession()
			now := int64(1_700_000_000_000_000_000)
			clients := make([]*fairClient, len(c.demands))
			for i := range clients {
				clients[i] = &fairClient{leaseClient: leaseClient{id: fmt.Sprint(i), drift: 1}, demand: c.demands[i], got: map[bool]float64{}}
			}
			asks, plain, owed := 0, map[bool]float64{}, 0.0
			const seconds = 20
			for tick := range seconds * int64(1e9) / step {
				now += step
				counts := tick >= 5*int64(1e9)/step // when the shares have settled
				for _, f := range clients {
					f.turn(now, step, counts, func(r algo.Request) engine.Leased {
						q := engine.Lease{Key: []byte("k"), Limit: limit, ID: []byte(f.id), Request: r}
						a, err := s.Leases().Take(now, &q)
						require.NoError(t, err)
						asks++
						return a
					})
				}
				for owed += c.plain * float64(step) / 1e9; owed >= 1; owed-- {
					d, err := s.Decide(now, []byte("k"), limit, 1, nil)
					require.NoError(t, err)
					if d.OK {
						plain[counts]++
					}
				}
			}
			asked, got := c.plain, plain[true]/(seconds-5)
			t.Logf("plain %.0f/s", got)
			if c.share > 0 {
				require.InEpsilon(t, c.share, got, 0.1, "the caller without a lease")
			}
			total := got
			for i, f := range clients {
				each := f.got[true] / (seconds - 5)
				t.Logf("holder %d: %.0f/s of %.0f", i, each, f.demand)
				require.InEpsilon(t, c.shares[i], each, 0.1, "holder %d", i)
				asked, total = asked+f.demand, total+each
			}
			require.Greater(t, total, 0.97*min(asked, c.rate), "the use")
			t.Logf("%d requests in %d s, %.2f %% of calls saved", asks, seconds, 100*(1-float64(asks)/asked/seconds))
			require.Less(t, float64(asks), c.asks*asked*seconds, "requests")
		})
	}
}

// fairClient is a holder with a demand.
type fairClient struct {
	leaseClient
	demand, owed float64
	got          map[bool]float64
	pending      *engine.Leased
	sent, want   int64
	granted      int64
	next         int64 // without a lease, it asks for each unit
}

// turn spends what callers ask for in a step of time, and renews if it is time.
func (f *fairClient) turn(now, step int64, counts bool, take func(algo.Request) engine.Leased) {
	f.owed += f.demand * float64(step) / 1e9
	f.answer(now, step)
	for f.owed >= 1 {
		f.owed--
		if now < f.deadline && f.has(now) > 0 {
			f.stock--
			f.got[counts]++
		}
	}
	if !f.due(now) || f.pending != nil {
		return
	}
	held := int64(0)
	if now < f.deadline {
		held = f.has(now)
	}
	f.stock, f.refill, f.taken = held, 0, 0
	f.seq++
	q := algo.Request{Seq: f.seq, Want: int64(f.demand * 2), Held: held, TTL: 2e9}
	a := take(q)
	f.pending, f.sent, f.want = &a, now, q.Want-held
}

// due reports whether it is time to renew: at 40 % left or half of the refill's time;
// with less than was wanted, only at 60 % of that.
func (f *fairClient) due(now int64) bool {
	if now >= f.deadline {
		return now >= f.next
	}
	past, lasts := now-f.began, f.ends-f.began
	if lasts > 0 {
		if f.granted < f.want {
			return past >= lasts*6/10
		}
		return past >= lasts/2
	}
	return f.has(now) <= f.granted*4/10
}

// answer takes an answer that has come.
func (f *fairClient) answer(now, rtt int64) {
	if f.pending == nil || now < f.sent+rtt {
		return
	}
	a := f.pending
	f.pending = nil
	if now >= f.deadline {
		f.stock = 0
	}
	if a.TTL == 0 {
		f.stock, f.refill, f.deadline, f.granted = 0, 0, 0, 0
		f.next = now + int64(1e9/f.demand)
		return
	}
	f.stock += a.Granted
	f.deadline, f.refill, f.taken, f.began, f.ends = f.sent+a.TTL, a.Refill, 0, now, now+a.RefillTime
	f.granted = f.stock + a.Refill
}

// A holder that wants more than the rate still gets its part of what is there.
func TestALoneHolderTakesFromAFullBucket(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	q := engine.Lease{Key: []byte("k"), Limit: algo.Limit{Limit: 1000, Period: 3600e9}, ID: []byte("a"),
		Request: algo.Request{Seq: 1, Want: 100, Need: 1, TTL: 60e9}}
	a, err := s.Leases().Take(1_700_000_000_000_000_000, &q)
	require.NoError(t, err)
	require.EqualValues(t, 101, a.Granted)
	q.Seq, q.Want, q.Held = 2, 1000, 100
	a, err = s.Leases().Take(1_700_000_000_000_000_000, &q)
	require.NoError(t, err)
	require.EqualValues(t, 151, a.Granted, "a quarter of the capacity may be out")
}

// A limit of policies is divided by what holders can use of it. A holder that another limit
// holds back takes no part from those that could use it.
func TestLeasesOfPoliciesAreFair(t *testing.T) {
	t.Parallel()
	const step, seconds = int64(1e6), 20
	perSecond := func(n int64) algo.Limit { return algo.Limit{Limit: n, Period: 1e9} }
	type holder struct {
		demand float64
		own    int64 // limit of its own, beside the shared one
		share  float64
	}
	type holders []holder
	many := func(n int, h holder) (all holders) {
		for range n {
			all = append(all, h)
		}
		return all
	}
	for name, c := range map[string]struct {
		rate         int64
		holders      holders
		plain, share float64 // of the caller without a lease
	}{
		"nobody is held back":            {1000, many(4, holder{500, 10_000, 250}), 0, 0},
		"nine of ten are held back":      {2000, append(many(9, holder{1000, 130, 130}), holder{900, 10_000, 830}), 0, 0},
		"held back beside plain callers": {1000, append(many(3, holder{500, 130, 130}), holder{500, 10_000, 305}), 500, 305},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLentPolicy(t, engine.Config{Shards: 1}, perSecond(c.rate), perSecond(0))
			as := func(name string, own int64) {
				p.limits[1].Limit, p.keys[1] = own, "@p:"+name
			}
			now := int64(1_700_000_000_000_000_000)
			clients := make([]*fairClient, len(c.holders))
			for i, h := range c.holders {
				clients[i] = &fairClient{leaseClient: leaseClient{id: fmt.Sprint(i), drift: 1}, demand: h.demand, got: map[bool]float64{}}
			}
			plain, owed := 0.0, 0.0
			for tick := range seconds * int64(1e9) / step {
				now += step
				counts := tick >= 5*int64(1e9)/step
				for i, f := range clients {
					f.turn(now, step, counts, func(q algo.Request) engine.Leased {
						as(f.id, c.holders[i].own)
						_, a := p.lend(now, f.id, q)
						return a
					})
				}
				for owed += c.plain * float64(step) / 1e9; owed >= 1; owed-- {
					as("plain", 10_000)
					v, err := p.s.Check(now, p.checks(1), engine.CheckOptions{}, p.out)
					require.NoError(t, err)
					if counts && v.OK {
						plain++
					}
				}
			}
			if got := plain / (seconds - 5); c.plain > 0 {
				t.Logf("plain %.0f/s", got)
				require.InEpsilon(t, c.share, got, 0.1, "the caller without a lease")
			}
			for i, f := range clients {
				each := f.got[true] / (seconds - 5)
				t.Logf("holder %d: %.0f/s of %.0f", i, each, f.demand)
				require.InEpsilon(t, c.holders[i].share, each, 0.1, "holder %d", i)
			}
		})
	}
}

// Of a limit that is used up, one process may hold the only block. It is told that others
// want units too: when no server answers, it must not take the limit for its own.
func TestHoldersAreAllWhoWantUnits(t *testing.T) {
	s, l := newTestSession(t, engine.Config{}), perMinute(algo.Token, 100)
	lend(t, s, start, "one", l, algo.Request{Seq: 1, Want: 25, TTL: minute})
	decide(t, s, start, "k", l, 75, algo.Options{})
	for i, id := range []string{"two", "three", "four"} {
		a := lend(t, s, start+int64(i), id, l, algo.Request{Seq: 1, Want: 25, Need: 1, TTL: minute})
		require.Zero(t, a.TTL, id)
		require.EqualValues(t, i+2, a.Holders)
	}
	a := lend(t, s, start+second, "one", l, algo.Request{Seq: 2, Want: 25, Held: 20, TTL: minute})
	require.EqualValues(t, 4, a.Holders)
	_, blocks := out(t, s, start+second)
	require.EqualValues(t, 1, blocks)
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 100))
	p.lend(start, "one", algo.Request{Seq: 1, Want: 25})
	p.lend(start, "plain", algo.Request{Seq: 1, Need: 75})
	for i, id := range []string{"two", "three"} {
		_, a := p.lend(start+int64(i), id, algo.Request{Seq: 1, Want: 25, Need: 1})
		require.Zero(t, a.TTL, id)
		require.EqualValues(t, i+3, a.Holders, "with the plain one")
	}
}
