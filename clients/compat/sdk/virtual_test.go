package sdk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// node is the engine as a server, a millisecond away, in the time of a test.
type node struct {
	mu    sync.Mutex
	sess  *engine.Session
	names map[string]int
}

func newNode() *node {
	return &node{sess: engine.New(engine.Config{Shards: 1, LeaseShare: engine.DefaultLeaseShare}).NewSession(), names: make(map[string]int)}
}

func (n *node) Do(_ context.Context, args ...any) (any, error) {
	time.Sleep(500 * time.Microsecond)
	defer time.Sleep(500 * time.Microsecond)
	return n.decide(args)
}

// decide answers a command at once.
func (n *node) decide(args []any) (any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now().UnixNano()
	name, key := args[0].(string), []byte(args[1].(string))
	n.names[name]++
	option := func(name string) int64 {
		if i := slices.Index(args, any(name)); i >= 0 {
			return args[i+1].(int64)
		}
		return 0
	}
	id := func() []byte { return []byte(args[slices.Index(args, any("ID"))+1].(string)) }
	if name == "RL.RETURN" {
		return n.sess.Leases().Return(now, key, id(), uint64(option("SEQ")), option("HELD"))
	}
	period, err := time.ParseDuration(args[3].(string))
	if err != nil {
		return nil, err
	}
	limit := algo.Limit{Algorithm: algo.Token, Limit: args[2].(int64), Period: int64(period), Burst: option("BURST")}
	if i := slices.Index(args, any("ALGORITHM")); i >= 0 {
		limit.Algorithm = map[string]algo.Algorithm{"fixed": algo.Fixed, "sliding": algo.Sliding}[args[i+1].(string)]
	} else if limit.Burst == 0 {
		limit.Burst = limit.Limit
	}
	if name == "RL.LIMIT" {
		d, err := n.sess.Decide(now, key, limit, max(option("COST"), 1), nil)
		return values(d, 0), err
	}
	ttl, err := time.ParseDuration(args[slices.Index(args, any("TTL"))+1].(string))
	if err != nil {
		return nil, err
	}
	need := option("NEED")
	a, err := n.sess.Leases().Take(now, &engine.Lease{Key: key, Limit: limit, ID: id(), Request: algo.Request{
		Seq: uint64(option("SEQ")), Want: option("WANT"), Held: option("HELD"), Need: need, TTL: int64(ttl),
	}})
	if need == 0 {
		a.Decision.Allowed = 1
	}
	return append(values(a.Decision, 0), a.Granted, a.TTL/1e6, a.Refill, millis(a.RefillTime), a.Holders), err
}

func values(d algo.Decision, delay int64) []any {
	return []any{min(d.Allowed, 1), d.Limit, d.Remaining, millis(d.RetryAfter), millis(d.ResetAfter), millis(delay)}
}

func millis(ns int64) int64 {
	if ns < 0 {
		return -1
	}
	return (ns + 1e6 - 1) / 1e6
}

// measure is what a test of shares found.
type measure struct {
	shares []float64 // calls a second that were admitted
	sum    float64
	saved  float64 // the part of the calls that did not go to the server
}

// virtually runs clients with rates on one limit in the time of a test, the last ones
// without leases, and demands that a bucket that sees the spends would have admitted them.
func virtually(t *testing.T, limit headgate.Limit, plain int, rates ...float64) (m measure) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		from := time.Now()
		admitted := make([]int64, len(rates))
		var asked float64
		var sent int64
		var mu sync.Mutex
		level, last := 0.0, from // of a bucket that drains
		var callers sync.WaitGroup
		for i, rate := range rates {
			o := headgate.Options{}
			if i >= len(rates)-plain {
				o.MaxLeases = -1
			}
			c := headgate.New(n, o)
			rnd := rand.New(rand.NewPCG(uint64(i), 27))
			callers.Go(func() {
				time.Sleep(warm)
				before := c.Stats().Sent
				time.Sleep(measured)
				mu.Lock()
				sent += c.Stats().Sent - before
				mu.Unlock()
			})
			callers.Go(func() {
				var calls sync.WaitGroup
				for time.Since(from) < warm+measured {
					time.Sleep(time.Duration(rnd.ExpFloat64() / rate * float64(time.Second)))
					calls.Go(func() {
						asking := time.Since(from)
						d, err := c.Allow(context.Background(), "k", limit, 1)
						mu.Lock()
						defer mu.Unlock()
						if !assert.NoError(t, err) {
							return
						}
						if !d.Allowed {
							return
						}
						now := time.Now()
						level = max(level-now.Sub(last).Seconds()*float64(limit.Units)/limit.Period.Seconds(), 0) + 1
						last = now
						// What the server admitted half a millisecond ago may count now.
						capacity := float64(max(limit.Burst, limit.Units))
						assert.LessOrEqual(t, level, capacity+float64(limit.Units)/limit.Period.Seconds()*2e-3+1, "at %v", now.Sub(from))
						if asking >= warm && asking < warm+measured {
							admitted[i]++
						}
					})
				}
				calls.Wait()
				require.NoError(t, c.Close(context.Background()))
			})
			asked += rate * measured.Seconds()
		}
		callers.Wait()
		for _, n := range admitted {
			m.shares = append(m.shares, float64(n)/measured.Seconds())
			m.sum += float64(n) / measured.Seconds()
		}
		m.saved = 1 - float64(sent)/asked
		t.Logf("%v a second on %d: admitted %.1f, together %.1f; %.2f %% of the calls saved; %v", rates, limit.Units, m.shares, m.sum, 100*m.saved, n.names)
	})
	return m
}

// TestFairShares has more demand than the limit: each client gets its max-min share.
func TestFairShares(t *testing.T) {
	for name, test := range map[string]struct {
		plain  int
		rates  []float64
		shares []float64
	}{
		"equal":                    {0, []float64{500, 500, 500, 500}, []float64{250, 250, 250, 250}},
		"equal, one of them plain": {1, []float64{500, 500, 500, 500, 500}, []float64{200, 200, 200, 200, 200}},
		"one wants more":           {0, []float64{2000, 100, 100, 100}, []float64{700, 100, 100, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := virtually(t, headgate.PerSecond(1000), test.plain, test.rates...)
			assert.Greater(t, m.sum, 970.0, "calls a second of 1000")
			for i, share := range m.shares {
				assert.InEpsilon(t, test.shares[i], share, 0.1, "share of client %d", i)
			}
		})
	}
}

// TestCallsSaved has four clients on a limit of what they ask for.
func TestCallsSaved(t *testing.T) {
	for _, test := range []struct{ rate, saved float64 }{{100, 0.90}, {1000, 0.98}, {10_000, 0.995}} {
		t.Run(fmt.Sprint(test.rate), func(t *testing.T) {
			t.Parallel()
			m := virtually(t, headgate.PerSecond(int64(4*test.rate)), 0, test.rate, test.rate, test.rate, test.rate)
			assert.Greater(t, m.saved, test.saved)
		})
	}
}
