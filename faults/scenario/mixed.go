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

// ofKind is how many places each kind has.
const ofKind = 8

// mixed is the keyspace of every kind of limit.
func mixed(rate float64) *load.Keyspace {
	const life = 8 * time.Second
	places := len(kinds) * ofKind
	perKey := rate / float64(places) * life.Seconds()
	return &load.Keyspace{Places: places, Life: life, Spec: func(place, generation int) history.Key {
		k := kinds[place%len(kinds)]
		k.Name = fmt.Sprintf("m%d:%d", place, generation)
		return sized(k, perKey)
	}}
}

// mixedCalls plans calls of every command on them.
func mixedCalls(keys *load.Keyspace) plan {
	return func(_ int, rnd *rand.Rand, due time.Duration) history.Call {
		c := history.Call{Key: keys.Pick(rnd, due), Cost: 1 + max(0, rnd.Int32N(6)-3)}
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
