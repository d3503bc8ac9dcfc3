package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
)

// kinds are the limits of the workload with every command. Those without period do not gain a unit in a run, so that a
// counter models them exactly; the others are bounded.
var kinds = []history.Key{
	{Algorithm: history.Fixed},
	{Algorithm: history.Fixed, Period: 2 * time.Second},
	{Algorithm: history.Sliding},
	{Algorithm: history.Sliding, Period: 2 * time.Second},
	{Algorithm: history.Token},
	{Algorithm: history.Token, Period: 4 * time.Second},
	{Algorithm: history.Leaky},
	{Algorithm: history.Leaky, Period: 4 * time.Second},
	{Algorithm: history.Log, Period: 2 * time.Second},
	{Algorithm: history.Fixed, Command: "INCREX"},
	{Algorithm: history.Fixed, Command: "INCREX", Period: 2 * time.Second},
	{Algorithm: history.Token, Command: "CL.THROTTLE"},
	{Algorithm: history.Token, Command: "CL.THROTTLE", Period: 4 * time.Second},
	{Algorithm: history.Token, Command: "THROTTLE"},
	{Algorithm: history.Token, Command: "GCRA"},
	{Algorithm: history.Token, Command: "GCRA", Period: 4 * time.Second},
	{Algorithm: history.Fixed, Option: history.Debt, Extra: 5},
	{Algorithm: history.Token, Option: history.Wait, Extra: 2, Period: 4 * time.Second},
	{Algorithm: history.Fixed, Option: history.AtMost},
	{Algorithm: history.Fixed, Free: true},
	{Algorithm: history.Fixed, Free: true},
}

const (
	// pairs are keys that only transactions change, each with the next one; they come after those of kinds.
	pairs = 16
	// ofKind is how many places each kind has.
	ofKind = 8
)

// mixed is the keyspace of every kind of limit.
func mixed(rate float64) *load.Keyspace {
	const life = 8 * time.Second
	places := len(kinds)*ofKind + pairs
	perKey := rate / float64(places) * life.Seconds()
	return &load.Keyspace{Places: places, Life: life, Spec: func(place, generation int) history.Key {
		if n := place - len(kinds)*ofKind; n >= 0 {
			return history.Key{Name: fmt.Sprintf("pair%d:%d", n, generation), Algorithm: history.Fixed, Free: true, Period: never}
		}
		k := kinds[place%len(kinds)]
		k.Name = fmt.Sprintf("m%d:%d", place, generation)
		k.Limit = int32(max(4, perKey*0.7))
		switch {
		case k.Period > 0:
			k.Limit = max(2, k.Limit/4)
		case k.Algorithm == history.Token || k.Algorithm == history.Leaky:
			k.Period = never * time.Duration(k.Limit)
		default:
			k.Period = never
		}
		return k
	}}
}

// mixedCalls plans calls of every command on them.
func mixedCalls(keys *load.Keyspace) func(int, *rand.Rand, time.Duration) history.Call {
	return func(_ int, rnd *rand.Rand, due time.Duration) history.Call {
		place := rnd.IntN(keys.Places)
		if first := len(kinds) * ofKind; place >= first {
			if place = first + (place-first)/2*2; rnd.IntN(2) == 0 {
				place = first // more of one, so that its audits have something to see
			}
			id := keys.At(place, due)
			return history.Call{Kind: history.Pair, Key: id, Other: id + 1, Cost: 1}
		}
		c := history.Call{Key: keys.At(place, due), Cost: 1 + max(0, rnd.Int32N(6)-3)}
		k := keys.Key(c.Key)
		c.Limit = k.Limit
		switch n := rnd.IntN(100); {
		case !k.Free && n < 5 && k.Command == "" && k.Option == history.None:
			c.Cost = 0
		case k.Free && n < 15:
			c.Cost = -1 - rnd.Int32N(2)
		case k.Free && n < 21:
			c.Kind, c.Cost, c.Limit, c.Other = history.Reset, 0, 0, uint32(rnd.IntN(3))
		case k.Free && n < 30:
			c.Limit *= 2
		}
		return c
	}
}
