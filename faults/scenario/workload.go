package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
)

const (
	// conns is the number of connections of a load, spread over the nodes.
	conns = 12

	// patience is how long a client waits for an answer. It is above the time of a failover, so that calls which wait for
	// the next leader show up as late, not as unknown.
	patience = 3 * time.Second

	// never is a period in which no run sees a unit come back.
	never = 24 * time.Hour
)

// plan plans the next call of a connection: see load.Config.Next.
type plan = func(conn int, rnd *rand.Rand, due time.Duration) history.Call

// limits is the workload of most scenarios: single limits of all kinds. Each key is offered about twice what it has. So
// at any time some keys are fresh, some half used and some exhausted.
func limits(rate float64) *load.Keyspace {
	const (
		places = 240
		life   = 8 * time.Second
	)
	perKey := rate / places * life.Seconds() // calls in a key's life; 1.4 units each
	return &load.Keyspace{Places: places, Life: life, Spec: func(place, generation int) history.Key {
		k := history.Key{Name: fmt.Sprintf("k%d:%d", place, generation)}
		half := int32(max(3, perKey*0.7))
		switch place % 6 {
		case 0, 1, 2:
			k.Algorithm, k.Limit, k.Period = history.Fixed, half, never
		case 3:
			k.Algorithm, k.Limit, k.Period = history.Token, half, never*time.Duration(half)
		case 4:
			k.Algorithm, k.Limit, k.Period = history.Token, max(1, half/4), 4*time.Second
		case 5:
			k.Algorithm, k.Limit, k.Period = history.Log, max(1, half/4), 2*time.Second
		}
		return k
	}}
}

// free is the workload of keys that are refunded, reset and whose limits change.
func free(rate float64) *load.Keyspace {
	const (
		places = 160
		life   = 8 * time.Second
	)
	return &load.Keyspace{Places: places, Life: life, Spec: func(place, generation int) history.Key {
		return history.Key{
			Name: fmt.Sprintf("f%d:%d", place, generation), Algorithm: history.Fixed, Free: true,
			Limit: int32(max(3, rate/places*life.Seconds()/4)), Period: never,
		}
	}}
}

// evictable is the workload of limits, judged by nothing: any of them may be evicted at any time.
func evictable(rate float64) *load.Keyspace {
	keys := limits(rate)
	spec := keys.Spec
	keys.Spec = func(place, generation int) history.Key {
		k := spec(place, generation)
		k.Unjudged = true
		return k
	}
	return keys
}

// chargeAndPeek plans calls on the keys of a keyspace: charges of 1 to 3, and a few peeks.
func chargeAndPeek(keys *load.Keyspace) plan {
	return func(_ int, rnd *rand.Rand, due time.Duration) history.Call {
		c := history.Call{Key: keys.Pick(rnd, due), Cost: 1}
		switch n := rnd.IntN(100); {
		case n < 5:
			c.Cost = 0
		case n < 20:
			c.Cost = 2
		case n < 35:
			c.Cost = 3
		}
		c.Limit = keys.Key(c.Key).Limit
		return c
	}
}

// everything plans charges, refunds, resets and calls with another limit.
func everything(keys *load.Keyspace) plan {
	charge := chargeAndPeek(keys)
	return func(conn int, rnd *rand.Rand, due time.Duration) history.Call {
		c := charge(conn, rnd, due)
		switch n := rnd.IntN(100); {
		case n < 15:
			c.Cost = -1 - rnd.Int32N(2)
		case n < 18:
			c.Kind, c.Cost, c.Limit = history.Reset, 0, 0
		case n < 30:
			c.Limit *= 2
		}
		return c
	}
}

// offer starts a load of calls on the keys; dial tells where a node is. beside are further parts of it.
func (r *Run) offer(keys *load.Keyspace, nodes int, dial func(int) string, next plan, beside ...load.Config) *load.Load {
	r.note("%.0f calls/s over %d connections", r.Rate, conns)
	for _, b := range beside {
		r.note("%.0f calls/s over %d connections beside them", b.Rate, b.Conns)
	}
	r.load = load.Start(append(beside, r.calls(keys, nodes, dial, next))...)
	return r.load
}

// calls is a load of calls on the keys, from now on.
func (r *Run) calls(keys *load.Keyspace, nodes int, dial func(int) string, next plan) load.Config {
	return load.Config{
		Rate: r.Rate, Conns: conns, Seed: r.Seed, Epoch: r.epoch, First: time.Since(r.epoch),
		Node: func(conn int) int { return conn % nodes }, Dial: dial, Next: next, Timeout: patience,
		Key: func(c *history.Call) history.Key { return keys.Key(c.Key) },
		Encode: func(b []byte, c *history.Call) []byte {
			return load.Encode(b, c, keys.Key(c.Key), keys.Key(c.Other))
		},
	}
}

// wait lets the load run for a random time around d.
func (r *Run) wait(d time.Duration) {
	time.Sleep(time.Duration((0.5 + r.rnd.Float64()) * float64(d)))
}
