package sequence

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Options says what sequences are made of.
type Options struct {
	// Has reports whether a command, in upper case, may be asked for. Nil is
	// all of them.
	Has func(command string) bool
	// Groups names the groups of commands to draw from. None is all.
	Groups []string
}

// Generator makes the steps of one sequence.
type Generator struct {
	rng *rand.Rand
	has func(string) bool

	groups []group
	total  int // of their weights
	tx     bool
	watch  bool
	scan   bool
	script bool

	conn     int         // of the step that is being made
	queueing [Conns]bool // between MULTI and EXEC
	ending   bool        // a key's life ends shortly after the step
	shas     []string    // of scripts that have been sent
	clock    int         // what limiters are told, in ms
	steps    []Step
}

// group is a group of commands that can be asked for.
type group struct {
	weight    int
	templates []template
	total     int // of their weights
}

// New returns the sequence of a seed, of at least n steps.
func New(seed uint64, n int, o Options) []Step {
	g := newGenerator(seed, o)
	g.send("HELLO", "2")
	g.conn = 1
	g.send("HELLO", "3")
	for len(g.steps) < n {
		g.step()
	}
	for g.conn = range Conns { // so that what is queued is done
		if g.queueing[g.conn] {
			g.send("EXEC")
		}
	}
	return g.steps
}

func newGenerator(seed uint64, o Options) *Generator {
	g := &Generator{rng: rand.New(rand.NewPCG(seed, 0)), has: o.Has, clock: 1_700_000_000_000}
	if g.has == nil {
		g.has = func(string) bool { return true }
	}
	chosen := func(name string) bool { return len(o.Groups) == 0 || slices.Contains(o.Groups, name) }
	g.watch = chosen("watch") && g.has("WATCH") && g.has("MULTI")
	g.tx, g.scan, g.script = chosen("tx") && g.has("MULTI"), chosen("scan"), chosen("scripts") && g.has("EVAL")
	for i := range groups {
		if !chosen(groups[i].name) {
			continue
		}
		here := group{weight: groups[i].weight}
		for _, t := range groups[i].templates {
			if g.has(t.name) || t.name == "NOSUCHCOMMAND" {
				here.templates = append(here.templates, t)
				here.total += t.weight
			}
		}
		if here.total > 0 {
			g.groups = append(g.groups, here)
			g.total += here.weight
		}
	}
	return g
}

// step appends one step, or the few that belong together.
func (g *Generator) step() {
	if g.rng.IntN(3) == 0 {
		g.conn = g.rng.IntN(Conns)
	}
	switch n := g.rng.IntN(100); {
	case g.tx && n < 4:
		g.transaction()
	case g.tx && g.queueing[g.conn] && n < 20:
		g.transaction()
	case g.watch && n >= 94 && !g.queueing[g.conn]:
		g.guarded()
	case g.scan && n < 6 && !g.queueing[g.conn]:
		g.iterate()
	case g.script && n < 20:
		g.eval()
	case len(g.groups) > 0:
		g.command()
	}
}

// send appends a step of the connection in turn, and a wait if a key's life
// ends after it.
func (g *Generator) send(args ...string) *Step {
	s := Step{Conn: g.conn, Args: args}
	if n := len(g.steps); n > 0 && g.steps[n-1].Conn == g.conn && g.steps[n-1].Args != nil && !g.steps[n-1].Scan {
		s.Joined = g.rng.IntN(2) == 0
	}
	g.steps = append(g.steps, s)
	at := len(g.steps) - 1
	if g.ending {
		g.ending = false
		g.steps = append(g.steps, Step{Wait: 2 * briefly * time.Millisecond})
	}
	return &g.steps[at]
}

// command appends a command from a template, now and then with an argument too
// many, too few, or of the wrong kind.
func (g *Generator) command() {
	n := g.rng.IntN(g.total)
	for i := range g.groups {
		if n -= g.groups[i].weight; n < 0 {
			g.send(g.spoil(g.fill(nil, g.groups[i].choose(g).parts))...)
			return
		}
	}
}

func (here *group) choose(g *Generator) *template {
	n := g.rng.IntN(here.total)
	for i := range here.templates {
		if n -= here.templates[i].weight; n < 0 {
			return &here.templates[i]
		}
	}
	panic("unreachable: weights add up to the total")
}

// spoil changes one argument in one of thirty commands. A lifetime is left as
// it is, since a wait may depend on it.
func (g *Generator) spoil(args []string) []string {
	if len(args) < 2 || g.ending || g.rng.IntN(30) > 0 || !spoilable(args[0]) {
		return args
	}
	at := 1 + g.rng.IntN(len(args)-1)
	switch g.rng.IntN(4) {
	case 0:
		return slices.Delete(args, at, at+1)
	case 1:
		return slices.Insert(args, at, args[at])
	case 2:
		args[at] = g.odd()
	case 3:
		return append(args, g.pick("1", "", "NX", "WITHSCORES", "x"))
	}
	return args
}

// spoilable reports whether a command without one of its arguments is still
// one whose reply and effect are certain.
func spoilable(name string) bool {
	switch strings.ToUpper(name) {
	case "PEXPIRE", "PSETEX", "SET", "GETEX", "EXPIRE", "SETEX", // an odd number is a life too short, or one at the wrong place
		"HELLO", "FLUSHDB", "ZADD", "ZREM", "HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER",
		"ZRANK", "ZREVRANK": // a third argument is one of 7.2
		return false
	}
	return true
}
