package member

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// world is a state of all nodes and of the messages between them. The
// transitions are those of the product; this model only chooses who acts, what
// arrives, and who dies.
//
// What a founder has once said of itself stays true, so the network is the set
// of all that was said. Any part of it may arrive anywhere, in any order, any
// number of times, or never. That covers every loss, delay and repetition. For
// the same reason nodes forget after each step what they have heard of others:
// it may arrive again. A node that is down does not act. Its death shows when
// it starts again, with its disk and a token that nobody knows.
type world struct {
	expect int
	nodes  []modelNode
	made   []founding
	said   [][]uint8 // by founding and founder: a bit for each stage
}

type modelNode struct {
	founding int // bound to; -1 for none
	stage    stage
	token    int
	cluster  int // adopted; -1 for none
	closed   bool
}

func newWorld(nodes, expect int) *world {
	w := &world{expect: expect}
	for range nodes {
		w.nodes = append(w.nodes, modelNode{founding: -1, cluster: -1})
	}
	return w
}

func (w *world) clone() *world {
	c := &world{expect: w.expect, nodes: slices.Clone(w.nodes), made: slices.Clone(w.made)}
	for _, s := range w.said {
		c.said = append(c.said, slices.Clone(s))
	}
	return c
}

// key is the same for states that behave alike. With more than two nodes, it is
// also the same for those that differ in the nodes' names alone.
func (w *world) key() string {
	over := make([]bool, len(w.made))
	for i := range w.made {
		over[i] = w.over(i)
	}
	each := make([]string, len(w.nodes))
	for n, node := range w.nodes {
		b := append(make([]byte, 0, 16), byte(node.founding+1), byte(node.stage), byte(node.cluster+1), bit(node.closed))
		for i, f := range w.made {
			switch me := f.founder(name(n)); {
			case over[i]:
				b = append(b, 'o', 0, 0)
			case me < 0:
				b = append(b, '-', 0, 0)
			default:
				b = append(b, w.said[i][me], bit(f.Founders[me].Token == w.token(n)), bit(f.Proposer == name(n)))
			}
		}
		each[n] = string(b)
	}
	if len(each) > 2 {
		slices.Sort(each)
	}
	return strings.Join(each, "")
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// over reports whether nobody is or will be in a founding.
func (w *world) over(i int) bool {
	for n, node := range w.nodes {
		me := w.made[i].founder(name(n))
		if node.founding == i || node.cluster == i || me >= 0 && w.made[i].Founders[me].Token == w.token(n) {
			return false
		}
	}
	return true
}

func name(n int) string { return "abcd"[n : n+1] }

func founderNode(o founder) int { return int(o.ID[0] - 'a') }

func (w *world) token(n int) string { return strconv.Itoa(w.nodes[n].token) }

func (w *world) founder(n int) founder {
	return founder{ID: name(n), Addr: name(n), Data: name(n), Token: w.token(n)}
}

// pledge is a node after it has forgotten what it has heard.
func (w *world) pledge(n int) pledge {
	var stored pledge
	if f := w.nodes[n].founding; f >= 0 {
		stored = pledge{Founding: &w.made[f], Stage: w.nodes[n].stage}
	}
	return newPledge(stored, name(n), w.nodes[n].closed, w.token(n))
}

func (w *world) fresh(n int) string { return strconv.Itoa(w.nodes[n].token + 1) }

// set writes a node's next state, and what it can say of its founding.
func (w *world) set(n int, p pledge) {
	node := &w.nodes[n]
	if p.token != w.token(n) {
		node.token++
	}
	node.founding, node.stage, node.closed = -1, unknown, p.closed
	if p.Founding != nil {
		node.founding = slices.IndexFunc(w.made, func(f founding) bool { return f.ID == p.Founding.ID })
		node.stage = p.Stage
		w.said[node.founding][p.Founding.founder(p.data)] |= 1 << p.Stage
	}
}

// propose makes node n propose a founding of the given set.
func (w *world) propose(n int, set []founder) *world {
	c := w.clone()
	c.made = append(c.made, founding{ID: fmt.Sprint(len(w.made)), Proposer: name(n), Founders: set})
	c.said = append(c.said, make([]uint8, len(set)))
	c.set(n, c.pledge(n).propose(c.made[len(w.made)], c.fresh(n)))
	return c
}

// leads reports whether the founders of a founding can elect a leader.
func (w *world) leads(f int) bool {
	n := 0
	for _, o := range w.nodes {
		if o.founding == f && o.stage == founded {
			n++
		}
	}
	return n > w.expect/2
}

// subsets calls f with each set of n nodes of which one is given.
func (w *world) subsets(with int, f func([]founder)) {
	for mask := range 1 << len(w.nodes) {
		var set []founder
		for n := range w.nodes {
			if mask>>n&1 == 1 {
				set = append(set, w.founder(n))
			}
		}
		if mask>>with&1 == 1 && len(set) == w.expect {
			f(set)
		}
	}
}

// words calls f with all that can have been said of a founding.
func (w *world) words(i int, f func([]stage)) {
	stages := make([]stage, w.expect)
	var choose func(j int)
	choose = func(j int) {
		if j == len(stages) {
			f(stages)
			return
		}
		for s := unknown; s <= released; s++ {
			if s == unknown || w.said[i][j]>>s&1 == 1 {
				stages[j] = s
				choose(j + 1)
			}
		}
	}
	choose(0)
}

// next returns every state that one step leads to.
func (w *world) next(foundings int) (out []*world) {
	for n, node := range w.nodes {
		p := w.pledge(n)
		if p.free() && len(w.made) < foundings {
			w.subsets(n, func(set []founder) { out = append(out, w.propose(n, set)) })
		}
		was := p
		step := func(p pledge, cluster int) *world {
			if p.Founding == was.Founding && p.Stage == was.Stage && p.token == was.token && p.closed == was.closed && cluster == node.cluster {
				return w
			}
			c := w.clone()
			c.nodes[n].cluster = cluster
			c.set(n, p)
			out = append(out, c)
			return c
		}
		step(p.abandon(w.fresh(n)), node.cluster)
		step(newPledge(p, name(n), node.cluster >= 0, w.fresh(n)), node.cluster)
		step(newPledge(p, name(n), false, w.fresh(n)), -1) // it had nothing of the cluster yet
		for i, f := range w.made {
			me := f.founder(name(n))
			if w.leads(i) && node.cluster < 0 {
				if p, err := p.adopt(f.ID, w.fresh(n)); err == nil && p.Founding == nil {
					step(p, i)
				} else if err == nil {
					step(p, -1)
				}
			}
			if me < 0 || w.over(i) {
				continue
			}
			hear := func(from string) func([]stage) {
				return func(stages []stage) {
					p, says := p.hear(word{f, from, stages}, w.expect, 1, w.fresh(n))
					c, said := step(p, node.cluster), w.said[i][me]|1<<says[me]
					if c == w && said != w.said[i][me] {
						c = w.clone()
						out = append(out, c)
					}
					c.said[i][me] = said
				}
			}
			hear("another")(nil)
			if p.free() || node.founding == i { // to others it does not matter what is said
				w.words(i, hear(f.Proposer))
			}
		}
	}
	return out
}

// check returns what is wrong with a state.
func (w *world) check() error {
	takesPlace := map[int]bool{}
	for n, node := range w.nodes {
		if node.founding >= 0 && node.stage == founded {
			takesPlace[node.founding] = true
		}
		if node.cluster >= 0 && (node.founding >= 0 || !w.leads(node.cluster)) {
			return fmt.Errorf("%s is in a founding and in a cluster, or in one that cannot lead", name(n))
		}
	}
	if len(takesPlace) > 1 {
		return fmt.Errorf("two foundings take place")
	}
	for f := range takesPlace {
		for j, o := range w.made[f].Founders {
			if w.nodes[founderNode(o)].founding != f {
				return fmt.Errorf("%s is no more in founding %d, which takes place", o.ID, f)
			}
			if s := w.said[f][j]; s>>released&1 == 1 {
				return fmt.Errorf("%s has released founding %d, which takes place", o.ID, f)
			}
		}
	}
	for i := range w.made {
		for j, o := range w.made[i].Founders {
			if s := w.said[i][j]; s>>confirmed&1 == 1 && s>>abandoned&1 == 1 {
				return fmt.Errorf("%s has voted twice", o.ID)
			}
		}
	}
	return nil
}

func (w *world) String() string {
	var b strings.Builder
	for i, f := range w.made {
		fmt.Fprintf(&b, "founding %d by %s:", i, f.Proposer)
		for j, o := range f.Founders {
			fmt.Fprintf(&b, " %s(said %06b)", o.ID, w.said[i][j])
		}
		b.WriteByte('\n')
	}
	for n, node := range w.nodes {
		fmt.Fprintf(&b, "%s %+v\n", name(n), node)
	}
	return b.String()
}

// settle lets all nodes act in turn, with every message delivered, as the
// product does. A node joins, or proposes when it has the lowest id of the
// waiting nodes, or talks to its founders.
func (w *world) settle() error {
	w = w.clone()
	var p []pledge
	for n := range w.nodes {
		p = append(p, w.pledge(n))
	}
	tokens := 1000
	fresh := func() string { tokens++; return fmt.Sprint(tokens) }
	made := slices.Clone(w.made)
	leading := func(id string) bool {
		n := 0
		for _, o := range p {
			if o.Founding != nil && o.Founding.ID == id && o.Stage == founded {
				n++
			}
		}
		return n > w.expect/2
	}
	present := func(n int) presence {
		o := presence{founder: founder{name(n), name(n), name(n), p[n].token}, Expect: w.expect}
		switch f := p[n].Founding; {
		case f != nil && p[n].Stage == founded:
			o.Cluster = f.ID
		case f != nil:
			o.Founding = f.ID
		case w.nodes[n].cluster >= 0:
			o.Cluster = made[w.nodes[n].cluster].ID
		}
		return o
	}
	for range 6 {
		for n := range p {
			var others []presence
			for o := range p {
				if o != n {
					others = append(others, present(o))
				}
			}
			for i, f := range made {
				if leading(f.ID) && w.nodes[n].cluster < 0 {
					if next, err := p[n].adopt(f.ID, fresh()); err == nil {
						if p[n] = next; next.Founding == nil {
							w.nodes[n].cluster = i
						}
					}
				}
			}
			if p[n].free() {
				if set, before, _ := founders(present(n), others, 0); set != nil && before == 0 {
					f := founding{ID: fmt.Sprint("calm ", len(made)), Proposer: name(n), Founders: set}
					made = append(made, f)
					p[n] = p[n].propose(f, fresh())
				}
			}
			for before := unknown; p[n].Founding != nil && p[n].Stage != before; {
				f := p[n].Founding
				before = p[n].Stage
				for _, o := range f.Founders {
					if o.ID == name(n) || p[n].Founding != f {
						continue
					}
					to := founderNode(o)
					var says []stage
					p[to], says = p[to].hear(word{*f, name(n), p[n].say(f)}, w.expect, 1, fresh())
					p[n], _ = p[n].hear(word{*f, o.ID, says}, w.expect, 1, fresh())
				}
			}
		}
	}
	in := map[string]int{}
	for n := range p {
		in[present(n).Cluster]++
	}
	if len(in) != 1 || in[""] > 0 {
		return fmt.Errorf("in the end the nodes are in clusters %v", in)
	}
	return nil
}

// explore looks at every state that can be reached with a number of proposals.
// It returns how many there are, and the first that is wrong, with how it came
// about.
func explore(nodes, expect, foundings int, wrong func(*world) error) (states int, err error) {
	type seen struct {
		w    *world
		from int
	}
	all := []seen{{newWorld(nodes, expect), -1}}
	known := map[string]bool{all[0].w.key(): true}
	for i := 0; i < len(all); i++ {
		if e := wrong(all[i].w); e != nil {
			var path []string
			for j := i; j >= 0; j = all[j].from {
				path = append(path, all[j].w.String())
			}
			slices.Reverse(path)
			return len(all), fmt.Errorf("%w after\n%s", e, strings.Join(path, "\n"))
		}
		for _, w := range all[i].w.next(foundings) {
			if k := w.key(); !known[k] {
				known[k] = true
				all = append(all, seen{w, i})
			}
		}
	}
	return len(all), nil
}

// Messages are lost, late or repeated, and nodes die and come back at any
// point. At most one founding takes place, and no founder of it is elsewhere.
// From every reachable state exactly one cluster comes to be, with all nodes,
// as soon as they are up and hear each other.
func TestFoundingModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, expect, foundings int }{
		{1, 1, 2}, {2, 2, 3}, {3, 2, 2}, {4, 3, 1}, {3, 3, 2},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d expected, %d proposals", c.nodes, c.expect, c.foundings), func(t *testing.T) {
			t.Parallel()
			model(t, c.nodes, c.expect, c.foundings)
		})
	}
}

// Two proposals with two founders in common, and one founder in each alone.
func TestFoundingModelOfFour(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one goroutine, and minutes under the race detector: make main runs it")
	}
	model(t, 4, 3, 2)
}

func model(t *testing.T, nodes, expect, foundings int) {
	states, err := explore(nodes, expect, foundings, func(w *world) error {
		if err := w.check(); err != nil {
			return err
		}
		return w.settle()
	})
	require.NoError(t, err)
	t.Log(states, "states")
}

// If founders could be half of all nodes or fewer, there would be two clusters.
// The model finds them, and no node proposes such a founding.
func TestFoundingNeedsMoreThanHalf(t *testing.T) {
	t.Parallel()
	_, err := explore(4, 2, 2, (*world).check)
	require.ErrorContains(t, err, "two foundings take place")

	w := newWorld(4, 2)
	node := func(n int) presence { return presence{founder: w.founder(n), Expect: 2} }
	set, _, why := founders(node(0), []presence{node(1), node(2)}, 0)
	require.Len(t, set, 2)
	require.Empty(t, why)
	for _, silent := range []int{1, 2} {
		set, _, why = founders(node(0), []presence{node(1), node(2)}, silent)
		require.Nil(t, set)
		require.ErrorContains(t, why[0], "more than half")
	}
}
