package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/oracle"
)

const (
	// someGroups is how many groups the cluster of oneNodeLost has.
	someGroups = 12
	// undisturbed is the time in which 99.9 % of the calls of other groups are answered while a node is lost.
	undisturbed = 50 * time.Millisecond
	// comeHome is how long the leaders may take to be spread over all nodes again.
	comeHome = 60 * time.Second
)

// oneNodeLost kills one node of a cluster with several groups. A connection has keys of the groups of one node only:
// replies come in order, so a call waits for the calls before it.
func oneNodeLost(r *Run) error {
	if err := r.start(cluster.Config{}, "--groups="+strconv.Itoa(someGroups)); err != nil {
		return err
	}
	groups, nodes := r.cluster.Groups, len(r.cluster.Nodes)
	keys := limits(r.Rate)
	spec := keys.Spec
	tags := tagsOf(groups)
	keys.Spec = func(place, generation int) history.Key {
		k := spec(place, generation)
		k.Name = "{" + tags[place%groups] + "}" + k.Name
		return k
	}
	if err := r.awaitHome(); err != nil {
		return err
	}
	calls := chargeAndPeek(keys)
	l := r.offer(keys, nodes, r.dial, func(conn int, rnd *rand.Rand, due time.Duration) history.Call {
		for {
			c := calls(conn, rnd, due)
			if int(c.Key)%keys.Places%groups%nodes == conn/nodes%nodes {
				return c
			}
		}
	})
	type loss struct {
		from, to int64
		node     *cluster.Node
		groups   []int
	}
	var losses []loss
	err := r.rounds(func() error {
		n := r.cluster.Nodes[len(losses)%nodes]
		lost := loss{node: n, from: r.now()}
		for g := range groups {
			if r.cluster.LeaderOf(g) == n {
				lost.groups = append(lost.groups, g)
			}
		}
		if _, err := r.killAndElect(n); err != nil {
			return err
		}
		r.wait(time.Second)
		lost.to = r.now()
		losses = append(losses, lost)
		if err := r.restart(n); err != nil {
			return err
		}
		return r.awaitHome()
	})
	if err := r.finish(l, keys, err); err != nil {
		return err
	}
	var took []time.Duration
	failed := 0
	for i := range r.history.Calls {
		c := &r.history.Calls[i]
		group := int(c.Key) % keys.Places % groups
		other := func(l loss) bool {
			return l.from <= c.Due && c.Due <= l.to && int(c.Node) != l.node.Index && !slices.Contains(l.groups, group)
		}
		switch {
		case !slices.ContainsFunc(losses, other):
		case c.Decided():
			took = append(took, c.Latency())
		default:
			failed++
		}
	}
	late := oracle.Quantile(took, .999)
	ok := len(took) > 0 && failed == 0 && late <= time.Duration(float64(undisturbed)*r.slack())
	r.expect(ok || len(took) > 0 && r.busy(), "others", "while a node was lost: %d calls of groups that it did not lead, %d without an answer, p99.9 %v (bound %v)",
		len(took), failed, late.Round(10*time.Microsecond), undisturbed)
	return nil
}

// tagsOf has a hash tag of each group.
func tagsOf(groups int) []string {
	tags := make([]string, groups)
	for i, found := 0, 0; found < groups; i++ {
		tag := strconv.Itoa(i)
		if g := oracle.GroupOf(tag, groups); tags[g] == "" {
			tags[g] = tag
			found++
		}
	}
	return tags
}

// awaitHome waits until every group is led by its home: the voters, in the order of their ids, take turns.
func (r *Run) awaitHome() error {
	nodes := r.cluster.Members()
	slices.SortFunc(nodes, func(a, b *cluster.Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	begin, g := time.Now(), 0
	limit := time.Duration(float64(comeHome) * max(1, r.slack()))
	for ; g < r.cluster.Groups; g++ {
		for home := nodes[g%len(nodes)]; r.cluster.LeaderOf(g) != home; time.Sleep(100 * time.Millisecond) {
			if time.Since(begin) > limit {
				return fmt.Errorf("%s does not lead group %d after %v", home.Name, g, limit)
			}
		}
	}
	r.note("all leaders are home after %v", time.Since(begin).Round(time.Millisecond))
	return nil
}
