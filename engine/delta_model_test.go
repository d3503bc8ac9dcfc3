package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/effects/effectstest"
	"github.com/headgate-io/headgate/engine/packed"
)

// group is a model of a log with nodes that apply it. It does everything that the log may
// do to a replica, in any possible order.
type group struct {
	t      *testing.T
	rnd    *rand.Rand
	conf   engine.Config
	nodes  []*member
	lead   *member // nil while nobody does
	log    []cutEntry
	sent   []cutEntry // cut by the leader, and not committed
	taken  []takenSnapshot
	deltas int // that were cut
}

// member is a node with a clock of its own.
type member struct {
	*node
	set     func(int64)
	mono    int64
	applied int // of the log
}

type cutEntry struct {
	parts [][]byte
	clock int64
}

// takenSnapshot holds the state of the log at index, and perhaps some later effects from
// the time of its writing.
type takenSnapshot struct {
	bytes []byte
	index int
	clock int64
}

func newGroup(t *testing.T, seed uint64) *group {
	g := &group{t: t, rnd: rand.New(rand.NewPCG(21, seed))}
	if seed%3 == 0 { // a leader evicts, also what has expired
		g.conf = engine.Config{MaxBytes: 256 << 10, Evict: true}
	}
	for range 3 {
		g.nodes = append(g.nodes, g.newMember())
	}
	return g
}

func (g *group) newMember() *member {
	clock, set := engine.NewManualClock(start)
	c := g.conf
	c.Shards, c.Clock = 1<<g.rnd.IntN(4), clock
	m := &member{node: newNode(g.t, c), set: set, mono: start}
	return m
}

// clock returns the clock of the last entry of the log up to an index.
func (g *group) clock(index int) int64 {
	if index == 0 {
		return start
	}
	return g.log[index-1].clock
}

func (g *group) pass(d int64) {
	for _, m := range g.nodes {
		m.mono += d * (99 + g.rnd.Int64N(3)) / 100 // no two clocks are alike
		m.set(m.mono)
	}
}

// deliver applies the log to a node, up to an index.
func (g *group) deliver(m *member, index int) {
	for ; m.applied < index; m.applied++ {
		e := g.log[m.applied]
		require.NoError(g.t, m.r.Apply(e.parts, e.clock), "entry %d of %d", m.applied, len(g.log))
	}
}

func (g *group) elect() {
	m := g.nodes[g.rnd.IntN(len(g.nodes))]
	g.deliver(m, len(g.log))
	// Perhaps earlier than the clock of the leader before.
	m.r.Lead(g.clock(len(g.log)) + g.rnd.Int64N(second/10))
	g.lead = m
}

// depose ends the leader's term. What it has sent is lost, or committed by
// the next leader as far as that had received it.
func (g *group) depose() {
	m := g.lead
	g.lead = nil
	m.depose()
	g.log = append(g.log, g.sent[:g.rnd.IntN(len(g.sent)+1)]...)
	g.sent = nil
}

func (g *group) cut(tick bool) {
	m := g.lead
	parts, ok := m.r.Cut(512 << g.rnd.IntN(12))
	if !ok && !tick {
		return
	}
	if !ok {
		m.l.Tick()
	}
	for _, p := range parts {
		g.deltas += countDeltas(g.t, p)
	}
	last := g.clock(len(g.log))
	if len(g.sent) > 0 {
		last = g.sent[len(g.sent)-1].clock
	}
	g.sent = append(g.sent, cutEntry{parts, max(last, m.r.Now())})
}

func (g *group) commit() {
	m := g.lead
	require.Equal(g.t, len(g.log), m.applied)
	g.log = append(g.log, g.sent[0])
	g.sent = g.sent[1:]
	m.applied++
	require.True(g.t, m.l.Commit())
	m.r.Committed(g.clock(m.applied))
}

// snapshot has a node write a snapshot, while everything goes on.
func (g *group) snapshot(m *member) {
	taken := takenSnapshot{index: m.applied, clock: g.clock(m.applied)}
	if next := append(g.log[m.applied:len(g.log):len(g.log)], g.sent...); len(next) > 0 && g.rnd.IntN(2) == 0 {
		taken.clock = next[0].clock // of which the log has all but the last part
	}
	busy := g.rnd.IntN(3) > 0
	var b bytes.Buffer
	require.NoError(g.t, m.r.Snapshot().PersistEach(&b, func() {
		for range g.rnd.IntN(12) {
			if busy {
				g.step()
			}
		}
	}))
	taken.bytes = b.Bytes()
	g.taken = append(g.taken, taken)
}

// restore replaces a node by a new one. It begins with a snapshot, and then replays the
// log from its index, or from an earlier one.
func (g *group) restore() {
	i := g.rnd.IntN(len(g.nodes))
	if g.nodes[i] == g.lead || len(g.taken) == 0 {
		return
	}
	s := g.taken[max(len(g.taken)-1-g.rnd.IntN(3), 0)]
	m := g.newMember()
	require.NoError(g.t, m.r.Restore(bytes.NewReader(s.bytes), s.clock))
	m.applied = s.index
	if g.rnd.IntN(2) == 0 {
		m.applied = g.rnd.IntN(s.index + 1)
	}
	g.nodes[i] = m
	if g.rnd.IntN(3) == 0 {
		g.snapshot(m)
	}
}

// step is anything that may happen while a snapshot is written.
func (g *group) step() {
	switch n := g.rnd.IntN(20); {
	case n == 0 && g.lead != nil && g.rnd.IntN(12) == 0: // by an operator
		g.lead.e.Clock().Set(g.lead.e.Now() - g.rnd.Int64N(second))
	case n < 2:
		g.pass(g.rnd.Int64N(second / 4))
	case n < 4:
		m := g.nodes[g.rnd.IntN(len(g.nodes))]
		m.reap(m.e.Passed())
	case n < 6:
		if m := g.nodes[g.rnd.IntN(len(g.nodes))]; m != g.lead {
			g.deliver(m, m.applied+g.rnd.IntN(len(g.log)-m.applied+1))
		}
	case g.lead == nil:
		g.elect()
	case n < 8:
		g.cut(n == 7)
	case n < 11:
		if len(g.sent) > 0 {
			g.commit()
		}
	case n == 11 && g.rnd.IntN(8) == 0:
		g.depose()
	default:
		g.act()
	}
}

// check delivers the whole log to all nodes. All tables are equal, and so is the leader's
// if it has nothing under way.
func (g *group) check() {
	now := g.clock(len(g.log))
	for _, m := range g.nodes {
		if m != g.lead {
			g.deliver(m, len(g.log))
		}
	}
	if g.lead != nil {
		g.cut(false)
		for len(g.sent) > 0 {
			g.commit()
		}
		now = max(now, g.lead.e.Now())
		for _, m := range g.nodes {
			if m != g.lead {
				g.deliver(m, len(g.log))
			}
		}
	}
	want := g.nodes[0].table(now)
	for i, m := range g.nodes[1:] {
		require.Equal(g.t, want, m.table(now), "node %d", i+1)
	}
}

// act makes a step on a few keys with large values.
func (g *group) act() {
	m, rnd := g.lead, g.rnd
	now := m.e.Now()
	kind := []algo.Algorithm{algo.SortedSet, algo.Hash, algo.Set, algo.List, algo.Counter, algo.Log, algo.Slots}[rnd.IntN(7)]
	key := fmt.Appendf(nil, "%s:%d", kind, rnd.IntN(2))
	if rnd.IntN(6) == 0 {
		if key = []byte("of any kind"); rnd.IntN(6) == 0 {
			_, _ = m.s.Delete(now, key)
		}
	}
	m.s.Use(uint8(rnd.IntN(5) / 4))
	defer m.s.Use(0)
	switch rnd.IntN(40) {
	case 0:
		_, _ = m.s.Delete(now, key)
		return
	case 1:
		_, _ = m.s.Rename(now, key, fmt.Appendf(nil, "%s:%d", kind, rnd.IntN(2)), uint8(rnd.IntN(2)), rnd.IntN(2) == 0)
		return
	case 2:
		_, _ = m.s.Copy(now, key, fmt.Appendf(nil, "%s:%d", kind, rnd.IntN(2)), uint8(rnd.IntN(2)), true)
		return
	case 3:
		if rnd.IntN(4) == 0 {
			_ = m.s.Flush()
		}
		return
	case 4, 5, 6:
		_, _ = m.s.Expire(now, key, now+rnd.Int64N(second), 0)
		return
	case 7, 8, 9:
		step := m.s.Isolate(now, [][]byte{key}, 1<<20)
		for range 1 + rnd.IntN(3) {
			if rnd.IntN(6) == 0 {
				_, _ = m.s.Delete(now, key)
			}
			changeLarge(m.s, rnd, now, key, kind)
		}
		if rnd.IntN(2) == 0 {
			step.Rollback()
		}
		step.Commit()
		return
	}
	changeLarge(m.s, rnd, now, key, kind)
}

// changeLarge changes a little of a large value, and makes it if it is missing.
func changeLarge(s *engine.Session, rnd *rand.Rand, now int64, key []byte, kind algo.Algorithm) {
	switch kind {
	case algo.Log:
		l := algo.Limit{Algorithm: algo.Log, Limit: 200, Period: second/4 + second*rnd.Int64N(2)}
		for range 1 + rnd.IntN(40) {
			_, _ = s.Decide(now, key, l, 1, &algo.Options{})
			now += rnd.Int64N(1000)
		}
		return
	case algo.Slots:
		for range 1 + rnd.IntN(20) {
			_, _, _ = s.Acquire(now, key, 500, second/4+second*rnd.Int64N(2), fmt.Appendf(nil, "id%d", rnd.IntN(900)), 1)
		}
		return
	}
	v, err := s.Open(now, key, kind)
	if err != nil {
		return
	}
	defer v.Close()
	n := rnd.IntN(20)
	if !v.Exists() {
		n = []int{10, 70, 400}[rnd.IntN(3)]
		if kind == algo.Counter {
			_ = v.Set(bytes.Repeat([]byte("a text of some length"), 1+rnd.IntN(1000)))
		}
	}
	if kind == algo.Counter {
		at := rnd.IntN(v.Len() + 1)
		del, ins := rnd.IntN(min(v.Len()-at, 40)+1), rnd.IntN(40)
		if b, err := v.Splice(at, del, ins); err == nil {
			for i := range ins {
				b[at+i] = byte(rnd.Uint32())
			}
		}
		return
	}
	for range n {
		e := fmt.Appendf(nil, "a member or field that has the number %d", rnd.IntN(600))
		remove := rnd.IntN(3) == 0
		switch kind {
		case algo.Hash:
			if h := packed.NewHash(v); remove {
				h.Remove(e)
			} else {
				_, _ = h.Set(e, bytes.Repeat([]byte("v"), rnd.IntN(60)))
			}
		case algo.Set:
			if z := packed.NewSet(v); remove {
				z.Remove(e)
			} else {
				_, _ = z.Add(e)
			}
		case algo.SortedSet:
			z := packed.NewSortedSet(v)
			switch {
			case remove:
				z.RemoveRange(0, min(z.Len(), 2))
			case rnd.IntN(2) == 0: // as a log
				_, _ = z.Put(fmt.Appendf(nil, "%d", rnd.Uint64()), float64(now+rnd.Int64N(1000)))
			default:
				_, _ = z.Put(e, float64(rnd.IntN(1000)))
			}
		case algo.List:
			l := packed.NewList(v)
			switch at := rnd.IntN(l.Len() + 1); {
			case remove:
				l.RemoveRange(at, min(at+rnd.IntN(3), l.Len()))
			case rnd.IntN(3) == 0:
				_ = l.PushFront([][]byte{e})
			case rnd.IntN(2) == 0 && at < l.Len():
				_ = l.Set(at, e)
			default:
				_ = l.PushBack([][]byte{e})
			}
		}
	}
	if v.Exists() && packed.Len(v.Bytes()) == 0 {
		v.Delete()
	}
	if rnd.IntN(6) == 0 {
		v.SetDeadline(now + second/2 + rnd.Int64N(second))
	}
}

// countDeltas returns how many effects of a payload are deltas.
func countDeltas(t *testing.T, payload []byte) (n int) {
	var r effects.Reader
	require.NoError(t, r.Open(payload))
	for r.More() {
		var ef effects.Effect
		_, err := r.Next(&ef, &effectstest.Rest{})
		require.NoError(t, err)
		if ef.Changed {
			n++
		}
	}
	return n
}

// Whatever happens to leaders, followers and snapshots, deltas find the states
// that they are from, and all tables are equal.
func TestDeltasFindWhatTheyAreFrom(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 4
	}
	deltas := 0
	for seed := range seeds {
		g := newGroup(t, seed)
		for range 40 {
			for range g.rnd.IntN(60) {
				g.step()
			}
			switch g.rnd.IntN(4) {
			case 0:
				g.snapshot(g.nodes[g.rnd.IntN(len(g.nodes))])
			case 1:
				g.restore()
			case 2:
				g.check()
			}
		}
		g.check()
		deltas += g.deltas
	}
	require.Greater(t, deltas, int(seeds)*20)
	t.Logf("%d deltas", deltas)
}
