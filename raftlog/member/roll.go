package member

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// roll remembers the addresses of nodes that wait, or have waited, for a cluster.
type roll struct {
	// mu guards known.
	mu    sync.Mutex
	known map[string]heardOf // by address
}

type heardOf struct {
	id string
	at time.Time
}

// rollRecent is how long a node is asked after it was last heard.
const rollRecent = 30 * time.Second

// note records that a node was heard, under each of its addresses. If there are too many
// addresses, the address that was heard least recently is dropped.
func (r *roll) note(id string, addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[string]heardOf)
	}
	for _, addr := range addrs {
		if _, ok := r.known[addr]; !ok && len(r.known) >= maxFounders {
			delete(r.known, slices.MinFunc(slices.Collect(maps.Keys(r.known)), func(a, b string) int {
				return r.known[a].at.Compare(r.known[b].at)
			}))
		}
		r.known[addr] = heardOf{id, time.Now()}
	}
}

// recent returns the addresses of nodes that were heard recently.
func (r *roll) recent(now time.Time) (addrs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for addr, h := range r.known {
		if now.Sub(h.at) < rollRecent {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// name adds to an error which node was at the address.
func (r *roll) name(addr string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.known[addr]
	if !ok {
		return fmt.Errorf("%s has never answered: %w", addr, err)
	}
	return fmt.Errorf("%s (%s) was last heard %v ago: %w", h.id, addr, time.Since(h.at).Round(time.Second), err)
}
