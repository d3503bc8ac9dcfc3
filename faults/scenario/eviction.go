package scenario

import (
	"strconv"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
)

const (
	// smallMemory is the maxmemory of a cluster that must evict, and floodKeys more than it holds.
	smallMemory = 8 << 20
	floodKeys   = 200_000
)

// eviction kills leaders of a cluster whose memory is full, which therefore evicts. A key that was evicted is
// forgotten, so no limit is judged. The memory is judged, and that all nodes have the same keys.
func eviction(r *Run) error {
	if err := r.start(cluster.Config{}, "--maxmemory", strconv.Itoa(smallMemory)); err != nil {
		return err
	}
	if err := r.preload(floodKeys); err != nil {
		return err
	}
	r.note("%d keys are written", floodKeys)
	keys := evictable(r.Rate)
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	r.load = nil // the leader evicts also while it pauses, so that tables are compared at the end only
	err := r.rounds(func() error {
		n, err := r.leader()
		if err != nil {
			return err
		}
		if err := r.full(n); err != nil {
			return err
		}
		return r.killAndRestart(n)
	})
	r.stop(l, keys)
	r.marks.close()
	if err == nil {
		err = r.shed()
	}
	if err == nil {
		err = r.settle()
	}
	r.judge()
	return err
}

// shed waits until the leader, which has taken over more than it may have, is within its memory.
func (r *Run) shed() error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	var used int64
	for deadline := time.Now().Add(recovery); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if used, err = info(n, "memory", "used_memory"); err != nil || used <= smallMemory {
			break
		}
	}
	r.expect(used <= smallMemory, "memory", "%s, the leader, accounts for %d bytes, maxmemory is %d", n.Name, used, smallMemory)
	return err
}

// full checks that a leader has begun to evict: otherwise the run tests nothing.
func (r *Run) full(n *cluster.Node) error {
	evicted, err := info(n, "stats", "evicted_keys")
	if err == nil && evicted == 0 {
		// One that has just begun to lead evicts with the next fresh keys.
		if err = r.preload(floodKeys); err == nil {
			evicted, err = info(n, "stats", "evicted_keys")
		}
	}
	if err == nil {
		r.expect(evicted > 0, "evicted", "%s, the leader, has evicted %d keys", n.Name, evicted)
	}
	return err
}
