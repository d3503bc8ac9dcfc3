package scenario

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
)

// slots acquires and releases concurrency slots under leader kills.
func slots(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := &load.Keyspace{Places: 20, Life: never, Spec: func(place, _ int) history.Key {
		return history.Key{Name: fmt.Sprintf("slots%d", place), Algorithm: history.Slots, Limit: 4, Period: 5 * time.Second}
	}}
	h := &holders{keys: keys}
	calls := r.calls(keys, 3, r.dial, h.next)
	calls.Answered = h.answered
	l := load.Start(calls)
	err := r.rounds(r.killLeader)
	err = r.finish(l, keys, err)
	r.add(oracle.Slots(&r.history, r.bound(r.groupOf)))
	return err
}

// holders are the clients' knowledge of the slots that they hold.
type holders struct {
	keys *load.Keyspace

	// mu guards what follows.
	mu   sync.Mutex
	held [conns][]history.Call
	last uint32 // id
}

// next acquires a slot, or releases one that the connection holds.
func (h *holders) next(conn int, rnd *rand.Rand, due time.Duration) history.Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.held[conn]; len(held) > 0 && rnd.IntN(2) == 0 {
		c := held[0]
		h.held[conn] = held[1:]
		return history.Call{Kind: history.Release, Key: c.Key, Other: c.Other}
	}
	h.last++
	key := h.keys.Pick(rnd, due)
	return history.Call{Kind: history.Acquire, Key: key, Other: h.last, Cost: 1, Limit: h.keys.Key(key).Limit}
}

func (h *holders) answered(conn int, c *history.Call) {
	if c.Kind != history.Acquire || c.Outcome != history.Admitted {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[conn] = append(h.held[conn], *c)
}
