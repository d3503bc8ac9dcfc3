package member

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxFounders bounds the founders of one founding, and the remembered waiting nodes.
const maxFounders = 256

// presence is how a node presents itself to others.
type presence struct {
	founder
	Expect   int    `json:"expect"`             // its Config.BootstrapExpect
	Groups   int    `json:"groups,omitempty"`   // its Config.Groups; 0 means 1
	Within   string `json:"within,omitempty"`   // its Config.Within
	Founding string `json:"founding,omitempty"` // the founding to which it is bound
	Cluster  string `json:"cluster,omitempty"`  // the cluster to which it belongs
}

func (p presence) String() string { return fmt.Sprintf("%s (%s)", p.ID, p.Addr) }

// founders returns the nodes with which own should found a cluster, including own. It
// chooses them from the waiting nodes that have just answered. ahead is how many waiting
// nodes have lower ids and should propose first. silent is the number of addresses that
// have not answered. If there are too few nodes, or if there already is a cluster, set
// is nil, and why is the reason.
//
// A founding needs more than half of all possible nodes. Two such majorities always have a
// node in common, and a node is bound to only one founding.
func founders(own presence, answered []presence, silent int) (set []founder, ahead int, why []error) {
	all := 1 + silent
	waiting := []presence{own}
	stop := false
	for _, p := range answered {
		all++
		switch {
		case p.ID == own.ID:
			why = append(why, fmt.Errorf("%s waits at %s and at %s: %w", p.ID, own.Addr, p.Addr, ErrTwice))
			stop = true
		case slices.ContainsFunc(waiting, func(o presence) bool { return o.ID == p.ID }):
			why = append(why, fmt.Errorf("%s waits at two addresses, one of them %s: %w", p.ID, p.Addr, ErrTwice))
			stop = true
		case p.Cluster != "":
			stop = true // join that cluster
		case p.Expect == 0:
			all-- // it never founds one
		case p.Expect != own.Expect:
			why = append(why, fmt.Errorf("bootstrap-expect is %d on %v and %d on this node: it must be the same on all founders", p.Expect, p, own.Expect))
		case SameGroups(p.ID, p.Groups, own.Groups) != nil:
			why = append(why, SameGroups(p.ID, p.Groups, own.Groups))
		case p.Founding != "":
			why = append(why, fmt.Errorf("%v waits for the outcome of a founding without this node", p))
		default:
			waiting = append(waiting, p)
		}
	}
	switch {
	case stop:
		return nil, 0, why
	case 2*own.Expect <= all:
		return nil, 0, append(why, fmt.Errorf("bootstrap-expect is %d, and must be more than half of the %d nodes (this node and the nodes in join): otherwise two groups of nodes could each found a cluster. Raise bootstrap-expect, or name fewer addresses in join", own.Expect, all))
	case len(waiting) < own.Expect:
		return nil, 0, append(why, fmt.Errorf("%d of %d founders are up: %s", len(waiting), own.Expect, ids(waiting)))
	}
	slices.SortFunc(waiting[1:], func(a, b presence) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range waiting[:own.Expect] {
		set = append(set, p.founder)
	}
	for _, p := range waiting {
		if p.ID < own.ID {
			ahead++
		}
	}
	slices.SortFunc(set, func(a, b founder) int { return cmp.Compare(a.ID, b.ID) })
	return set, ahead, why
}

func ids(nodes []presence) string {
	var s []string
	for _, n := range nodes {
		s = append(s, n.ID)
	}
	slices.Sort(s)
	return strings.Join(s, ", ")
}
