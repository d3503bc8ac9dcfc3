package engine_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// monthly is a check of a calendar's limit, in a window that ends at a time.
func monthly(t testing.TB, s *engine.Session, key string, n, end int64, with ...func(*engine.Check)) engine.Check {
	t.Helper()
	r, err := s.Engine().Ready(algo.Limit{Algorithm: algo.PolicyCalendar, Limit: n})
	require.NoError(t, err)
	c := engine.Check{Key: []byte(key), Hash: s.Engine().Table().Hash([]byte(key)), Limit: r, Cost: 1, Window: &algo.Window{End: end, Next: end + 30*minute}}
	for _, f := range with {
		f(&c)
	}
	return c
}

func TestCalendarWindow(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	end := start + 10*minute
	c := monthly(t, s, "@p:m", 5, end)
	f := func(now, cost int64, want algo.Decision) {
		t.Helper()
		c.Cost, want.Limit = cost, 5
		v, out := check(t, s, now, c)
		require.Equal(t, want.OK, v.OK)
		require.Equal(t, want, out[0].Decision)
	}
	f(start, 0, algo.Decision{OK: true, Remaining: 5})
	f(start, 6, algo.Decision{Remaining: 5, RetryAfter: algo.Never})
	f(start, 3, algo.Decision{Allowed: 3, OK: true, Remaining: 2, ResetAfter: 10 * minute})
	f(start+minute, 0, algo.Decision{OK: true, Remaining: 2, ResetAfter: 9 * minute})
	f(start+minute, 3, algo.Decision{Remaining: 2, RetryAfter: 9 * minute, ResetAfter: 9 * minute})
	f(start+minute, 6, algo.Decision{Remaining: 2, RetryAfter: algo.Never, ResetAfter: 9 * minute})
	f(end-1, 2, algo.Decision{Allowed: 2, OK: true, ResetAfter: 1})
	c = monthly(t, s, "@p:m", 5, end+30*minute)
	f(end, 5, algo.Decision{Allowed: 5, OK: true, ResetAfter: 30 * minute})
	f(end, 1, algo.Decision{RetryAfter: 30 * minute, ResetAfter: 30 * minute})

	x, ok, err := s.Explain(end, c.Key)
	require.NoError(t, err)
	require.True(t, ok && x.Quota)
	require.EqualValues(t, 5, x.Used)
	require.Equal(t, 30*minute, x.ResetAfter)
	require.Equal(t, []algo.Fact{{Name: "window_end_ms", Int: (end + 30*minute) / 1e6}, {Name: "current", Int: 5}}, x.Facts)
	require.Equal(t, "policy", typeOf(t, s, c.Key))
	require.Equal(t, "calendar", x.Limit.Algorithm.Decider().String())
}

// Whatever window calls bring, a counter's own lasts until it is over: changed rules of a
// zone move no open window.
func TestAnOpenWindowIsNotMoved(t *testing.T) {
	leader, follower := newNode(t, engine.Config{}), newNode(t, engine.Config{})
	leader.r.Lead(start)
	end := start + 10*minute
	ask := func(n *node, now, ends int64, want algo.Decision) {
		t.Helper()
		want.Limit = 5
		_, out := check(t, n.s, now, monthly(t, n.s, "@p:m", 5, ends))
		require.Equal(t, want, out[0].Decision)
	}
	ask(leader, start, end, algo.Decision{Allowed: 1, OK: true, Remaining: 4, ResetAfter: 10 * minute})
	ask(leader, start, end+5*minute, algo.Decision{Allowed: 1, OK: true, Remaining: 3, ResetAfter: 10 * minute})
	ask(leader, start+6*minute, start+minute, algo.Decision{Allowed: 1, OK: true, Remaining: 2, ResetAfter: 4 * minute})

	// The next leader has a zone's rules of another year.
	require.NoError(t, follower.r.Apply(leader.cut(), start+6*minute))
	require.True(t, leader.l.Commit())
	var snap bytes.Buffer
	require.NoError(t, leader.r.Snapshot().Persist(&snap))
	late := newNode(t, engine.Config{})
	require.NoError(t, late.r.Restore(&snap, start+6*minute))
	for _, n := range []*node{follower, late} {
		n.r.Lead(start + 6*minute)
		ask(n, start+7*minute, end+5*minute, algo.Decision{Allowed: 1, OK: true, Remaining: 1, ResetAfter: 3 * minute})
		ask(n, end-1, end+5*minute, algo.Decision{Allowed: 1, OK: true, ResetAfter: 1})
		ask(n, end, end+5*minute, algo.Decision{Allowed: 1, OK: true, Remaining: 4, ResetAfter: 5 * minute})
	}
}

// A visit may be later than the clock reading of its call, and in the next window.
func TestAVisitInTheNextWindow(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	end := start + 10*minute
	check(t, s, end+5, of(t, s, "@p:other", perMinute(algo.Fixed, 5))) // the shard's clock
	_, out := check(t, s, end-5, monthly(t, s, "@p:m", 5, end))
	require.Equal(t, algo.Decision{Allowed: 1, OK: true, Limit: 5, Remaining: 4, ResetAfter: 30*minute - 5}, out[0].Decision)

	for _, w := range []*algo.Window{nil, {}, {End: end, Next: end}} {
		c := monthly(t, s, "@p:n", 5, end)
		c.Window = w
		_, err := s.Check(end+5, []engine.Check{c}, engine.CheckOptions{}, make([]engine.Checked, 1))
		require.ErrorIs(t, err, algo.ErrNoWindow)
		c.Mode = algo.Soft
		v, out := check(t, s, end+5, c, monthly(t, s, "@p:o", 5, end))
		require.True(t, v.OK)
		require.ErrorIs(t, out[0].Err, algo.ErrNoWindow)
	}
}

// An edit keeps what was consumed, its share, or nothing; the window stays.
func TestEditsOfACalendarsLimit(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	end := start + 10*minute
	under := func(key string, l algo.Limit) algo.Decision {
		t.Helper()
		l.Algorithm = algo.PolicyCalendar
		c := monthly(t, s, key, 5, end+minute, costs(0))
		r, err := s.Engine().Ready(l)
		require.NoError(t, err)
		c.Limit = r
		_, out := check(t, s, start+minute, c)
		return out[0].Decision
	}
	for _, key := range []string{"@p:a", "@p:b"} {
		check(t, s, start, monthly(t, s, key, 5, end, costs(3)))
	}
	require.Equal(t, algo.Decision{OK: true, Limit: 9, Remaining: 6, ResetAfter: 9 * minute}, under("@p:a", algo.Limit{Limit: 9}))
	require.Equal(t, algo.Decision{OK: true, Limit: 2, ResetAfter: 9 * minute}, under("@p:a", algo.Limit{Limit: 2}))
	require.Equal(t, algo.Decision{OK: true, Limit: 9, Remaining: 3, ResetAfter: 9 * minute}, under("@p:a", algo.Limit{Limit: 9, Scalings: 1}), "5.4 of 9")
	require.Equal(t, algo.Decision{OK: true, Limit: 9, Remaining: 9}, under("@p:a", algo.Limit{Limit: 9, Resets: 1}))
	require.Equal(t, algo.Decision{RetryAfter: algo.Never}, under("@p:a", algo.Limit{}))

	// Another kind of counter under its name counts as absent.
	_, out := check(t, s, start+minute, of(t, s, "@p:b", perMinute(algo.Fixed, 5)))
	require.EqualValues(t, 4, out[0].Remaining)
	_, out = check(t, s, start+minute, monthly(t, s, "@p:b", 5, end))
	require.EqualValues(t, 4, out[0].Remaining)
}

// Nodes that are cut off from each other spend one budget. It is charged to the window in
// which they spent it.
func TestCalendarsWithoutALeader(t *testing.T) {
	end := start + 10*minute
	nodes, locals := make([]*node, 3), make([]*engine.Local, 3)
	spend := func(i int, now, ends int64) (n int64) {
		for out := make([]engine.Checked, 1); ; n++ {
			v, err := locals[i].Check(now, []engine.Check{monthly(t, nodes[i].s, "@p:m", 30, ends)}, engine.CheckOptions{}, out)
			require.NoError(t, err)
			if !v.OK {
				require.Equal(t, ends-now, out[0].RetryAfter)
				return n
			}
		}
	}
	for i := range nodes {
		nodes[i] = newNode(t, engine.Config{})
		nodes[i].r.Lead(start)
		check(t, nodes[i].s, start, monthly(t, nodes[i].s, "@p:m", 30, end, costs(6)))
		nodes[i].cut()
		nodes[i].l.Commit()
		nodes[i].depose()
		locals[i] = engine.NewLocal(nodes[i].e)
		locals[i].Begin(3, i)
		require.EqualValues(t, 8, spend(i, start, end))
	}
	require.EqualValues(t, 10, spend(1, end, end+30*minute), "a share of the next window")

	leader := nodes[2]
	leader.r.Lead(start + minute)
	first, second := locals[0].Take(9), locals[1].Take(9)
	require.Equal(t, end, first[0].Deadline)
	require.EqualValues(t, 10, second[0].Units, "those of the window before are over with it")
	lost, err := leader.s.ChargeOnce(start+minute, "n0", 1, first)
	require.NoError(t, err)
	require.Zero(t, lost)
	left := func(now, ends int64) int64 {
		_, out := check(t, leader.s, now, monthly(t, leader.s, "@p:m", 30, ends, costs(0)))
		return out[0].Remaining
	}
	require.EqualValues(t, 16, left(start+minute, end))
	for number, charges := range [][]engine.Charge{first, second} { // the first are of a window that is over
		lost, err = leader.s.ChargeOnce(end, "n1", int64(number), charges)
		require.NoError(t, err)
		require.Zero(t, lost)
	}
	require.EqualValues(t, 20, left(end, end+30*minute))
	_, out := check(t, leader.s, end, monthly(t, leader.s, "@p:m", 30, end+minute))
	require.Equal(t, 30*minute, out[0].ResetAfter, "the window of the charge")

	// A backstop counts a multiple of them too.
	b := engine.NewBackstop(leader.e)
	passed := 0
	for range 100 {
		v, err := b.Check(start, 2, []engine.Check{monthly(t, leader.s, "@p:x", 30, end)}, engine.CheckOptions{}, out)
		require.NoError(t, err)
		if v.OK {
			passed++
		}
	}
	require.Equal(t, 60, passed)
	require.Equal(t, algo.Decision{Limit: 30, RetryAfter: 10 * minute, ResetAfter: 10 * minute}, out[0].Decision)
}

// A node without a leader goes on in the open window, whatever its own rules say. It uses
// them for the next window.
func TestSharesKeepAnOpenWindow(t *testing.T) {
	ended, early, late := start+10*minute, start+5*minute, start+15*minute
	for name, own := range map[string]int64{"an end before it": early, "an end behind it": late} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, engine.Config{})
			n.r.Lead(start)
			check(t, n.s, start, monthly(t, n.s, "@p:m", 30, ended, costs(1)))
			n.cut()
			n.l.Commit()
			n.depose()
			l := engine.NewLocal(n.e)
			out := make([]engine.Checked, 1)
			spend := func(now, ends, cost int64) bool {
				c := monthly(t, n.s, "@p:m", 30, ends, costs(cost))
				v, err := l.Check(now, []engine.Check{c}, engine.CheckOptions{}, out)
				require.NoError(t, err)
				return v.OK
			}
			l.Begin(3, 0)
			require.True(t, spend(start, own, 4))
			require.Equal(t, 10*minute, out[0].ResetAfter)
			next := early + 30*minute
			require.True(t, spend(early+minute, next, 5))
			require.False(t, spend(early+minute, next, 1))
			require.Equal(t, 4*minute, out[0].RetryAfter)
			charges := l.Take(1)
			require.EqualValues(t, 9, charges[0].Units, "all are of one window")
			require.Equal(t, ended, charges[0].Deadline)

			require.True(t, spend(ended, next, 10), "the next window")
			charges = l.Take(1)
			require.EqualValues(t, 10, charges[0].Units)
			require.Equal(t, next, charges[0].Deadline)

			// The same for a share from which nothing is taken yet.
			l.Begin(1, 0)
			require.True(t, spend(start, own, 29))
			require.False(t, spend(early+minute, next, 1))

			b := engine.NewBackstop(n.e)
			passed := int64(0)
			for _, now := range []int64{start, early + minute} {
				for range 40 {
					c := monthly(t, n.s, "@p:m", 30, next)
					if now == start {
						c = monthly(t, n.s, "@p:m", 30, own)
					}
					v, err := b.Check(now, 1, []engine.Check{c}, engine.CheckOptions{}, out)
					require.NoError(t, err)
					if v.OK {
						passed++
					}
				}
			}
			require.EqualValues(t, 30, passed)
			require.Equal(t, 4*minute, out[0].RetryAfter)
		})
	}
}
