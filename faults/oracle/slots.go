package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/faults/history"
)

// Slots checks that no key had more slots taken at one time than its limit and bound allow. A slot is surely held from
// the answer that granted it until its release is sent, or until its time to live has passed. That counts from when the
// slot was asked for.
func Slots(h *history.History, bound func(key uint32, calls []history.Call) int64) Finding {
	f := Finding{Check: "slots", OK: true}
	keys, taken := 0, 0
	var most int64
	for k, cs := range h.ByKey() {
		key := &h.Keys[k]
		if key.Algorithm != history.Slots || len(cs) == 0 {
			continue
		}
		keys++
		n, held := mostHeld(key, cs)
		taken += n
		most = max(most, held)
		if allowed := int64(key.Limit) + bound(uint32(k), cs); held > allowed {
			f.violate("%s: %d slots held at one time, of %d (allowed: %d)", key.Name, held, key.Limit, allowed)
		}
	}
	f.Text = fmt.Sprintf("%d slots taken of %d keys, at most %d held at one time", taken, keys, most)
	return f
}

// mostHeld returns how many slots were granted, and the most that were certainly held at one time.
func mostHeld(key *history.Key, calls []history.Call) (granted int, most int64) {
	type edge struct {
		at    int64
		delta int64
	}
	released := make(map[uint32]int64) // holder -> when its release was sent
	for i := range calls {
		if c := &calls[i]; c.Kind == history.Release && c.Outcome != history.Refused {
			if at, ok := released[c.Other]; !ok || c.Start < at {
				released[c.Other] = c.Start
			}
		}
	}
	var edges []edge
	for i := range calls {
		c := &calls[i]
		if c.Kind != history.Acquire || c.Outcome != history.Admitted {
			continue
		}
		granted++
		end := c.Start + int64(key.Period) - int64(key.Period)/clockSlack
		if at, ok := released[c.Other]; ok {
			end = min(end, at)
		}
		if end > c.End {
			edges = append(edges, edge{c.End, 1}, edge{end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) // ends first
	})
	var held int64
	for _, e := range edges {
		held += e.delta
		most = max(most, held)
	}
	return granted, most
}
