package oracle

import (
	"fmt"

	"github.com/headgate-io/headgate/faults/history"
)

// Gap is a time in which nodes decided without a leader.
type Gap struct {
	From, To int64
	Voters   int64
	Left     map[uint32]int64 // by key: what was left in the last state that the nodes had; nothing came back since

	// Leader: the other nodes had a leader meanwhile.
	Leader bool
}

// Shares checks what nodes admitted without a leader. Of each key a node admitted at most a voter's share of the rest.
// A limit too small to be shared is admitted in whole, on one node. All nodes together admitted no more than the limit,
// plus the shares of those without a leader where others had one. It also checks that anything was admitted in each gap
// at all.
func Shares(h *history.History, gaps []Gap) Finding {
	f := Finding{Check: "shares", OK: true}
	byKey := h.ByKey()
	var units, most int64
	for i, g := range gaps {
		before := units
		for k, left := range g.Left {
			key := &h.Keys[k]
			s := sharesOf(byKey[k], g)
			share, small := left/g.Voters, int64(key.Limit) < g.Voters
			if small {
				share = left
			}
			nodes := 0
			for node, n := range s.local {
				units += n
				most = max(most, n)
				if n > 0 {
					nodes++
				}
				if n > share {
					f.violate("%s: node %d admitted %d on its share of %d left, which is %d", key.Name, node+1, n, left, share)
				}
			}
			if small && nodes > 1 {
				f.violate("%s: %d nodes admitted on a limit of %d", key.Name, nodes, key.Limit)
			}
			allowed := int64(key.Limit)
			if g.Leader {
				allowed += int64(nodes) * share
			}
			if s.all > allowed {
				f.violate("%s: %d admitted in all of %d (allowed: %d)", key.Name, s.all, key.Limit, allowed)
			}
		}
		if units == before {
			f.violate("gap %d, from %.3f s: nothing was admitted", i+1, float64(g.From)/1e9)
		}
	}
	f.Text = fmt.Sprintf("%d units admitted without a leader in %d gaps, at most %d of a key by one node", units, len(gaps), most)
	return f
}

// spent is what was admitted of a key: by each node without a leader in a gap, and by all, ever.
type spent struct {
	local map[uint8]int64
	all   int64
}

func sharesOf(calls []history.Call, g Gap) spent {
	s := spent{local: make(map[uint8]int64)}
	for i := range calls {
		c := &calls[i]
		if c.Kind != history.Limit || c.Outcome != history.Admitted || c.Cost <= 0 {
			continue
		}
		s.all += int64(c.Cost)
		if c.Local && c.Start >= g.From && c.Start <= g.To {
			s.local[c.Node] += int64(c.Cost)
		}
	}
	return s
}
