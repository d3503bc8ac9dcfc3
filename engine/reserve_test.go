package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// reserve holds a call under an id for a minute, unless with says otherwise.
func reserve(t testing.TB, s *engine.Session, now int64, id string, with func(*engine.Reserve), checks ...engine.Check) (engine.Verdict, []engine.Checked) {
	t.Helper()
	r := engine.Reserve{Key: []byte(id), TTL: minute, Keep: 10 * minute, Version: 7, Applied: len(checks), Limits: make([]reservation.Held, len(checks))}
	for i := range r.Limits {
		r.Limits[i] = reservation.Held{Name: fmt.Sprint("l", i), Each: 1}
	}
	if with != nil {
		with(&r)
	}
	out := make([]engine.Checked, len(checks))
	v, err := s.Reserve(now, checks, engine.CheckOptions{}, out, &r)
	require.NoError(t, err)
	return v, out
}

func cancelled() engine.Settlement { return engine.Settlement{State: reservation.Cancelled} }

// cost commits a cost for each limit of a hold, in order; one below 0 stays what it
// was.
func cost(costs ...int64) engine.Settlement {
	i := -1
	return engine.Settlement{State: reservation.Committed, Cost: func(*reservation.Held) (int64, bool, error) {
		i++
		return costs[i], costs[i] >= 0, nil
	}}
}

func settle(t testing.TB, s *engine.Session, now int64, id string, how engine.Settlement) reservation.Settled {
	t.Helper()
	a, err := s.Settle(now, []byte(id), how)
	require.NoError(t, err)
	return a
}

func remaining(t testing.TB, s *engine.Session, now int64, c engine.Check) int64 {
	t.Helper()
	c.Cost = 0
	_, out := check(t, s, now, c)
	return out[0].Remaining
}

// An estimate is held, and the real cost settled: LLM tokens.
func TestReserveAndCommit(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	rpm, tpm := of(t, s, "@llm:rpm;key=k", perMinute(algo.Token, 60)), of(t, s, "@llm:tpm;key=k", perMinute(algo.Token, 6000))
	tokens := func(n int64) engine.Check { c := tpm; c.Cost = n; return c }

	v, out := reserve(t, s, start, "h1", nil, rpm, tokens(4000))
	require.True(t, v.OK)
	require.Equal(t, 1, v.Binding)
	require.Equal(t, []int64{59, 2000}, []int64{out[0].Remaining, out[1].Remaining})
	v, out = reserve(t, s, start, "h0", nil, rpm, tokens(2500))
	require.False(t, v.OK)
	require.Equal(t, 5*second, out[1].RetryAfter)
	require.EqualValues(t, 59, out[0].Remaining)
	_, err := s.Settle(start, []byte("h0"), cancelled())
	require.ErrorIs(t, err, engine.ErrNoHold, "a denied call holds nothing")

	at := start + 10*second
	a := settle(t, s, at, "h1", cost(-1, 1200))
	require.Equal(t, reservation.Committed, a.State)
	require.Equal(t, "l1", a.Name)
	require.EqualValues(t, 5800, a.Remaining, "28 s are given back")
	require.EqualValues(t, 60, a.Each[0].Remaining)
	require.EqualValues(t, 7, a.Version)
	again := settle(t, s, at, "h1", cancelled())
	a.Each, a.Costs, a.Windows, a.Limits, a.Allowed = nil, nil, nil, nil, 0
	require.Equal(t, a, again, "the first settlement stands")
	require.EqualValues(t, 5800, remaining(t, s, at, tpm))

	v, out = reserve(t, s, at, "h2", nil, rpm, tokens(3000))
	require.True(t, v.OK)
	require.EqualValues(t, 2800, out[1].Remaining)
	at = start + 20*second
	a = settle(t, s, at, "h2", cost(-1, 7000))
	require.EqualValues(t, 200, a.Over, "what was spent is charged, whether there is room or not")
	require.Zero(t, a.Remaining)
	v, out = reserve(t, s, at, "h3", nil, rpm, tokens(1))
	require.False(t, v.OK)
	require.Equal(t, 2010*second/1000, out[1].RetryAfter)

	at = start + 100*second
	reserve(t, s, at, "h4", func(r *engine.Reserve) { r.TTL = 5 * second }, rpm, tokens(3000))
	s.Engine().SettleEnded(context.Background(), s, at+4*second)
	require.EqualValues(t, 3490, remaining(t, s, at+4900*second/1000, tpm))
	s.Engine().SettleEnded(context.Background(), s, at+6*second)
	require.EqualValues(t, 6000, remaining(t, s, at+6*second, tpm))
	require.EqualValues(t, 6000, settle(t, s, at+7*second, "h4", cancelled()).Each[1].Remaining, "it was given back once")
}

func TestCancelGivesBackWhatTimeHasNot(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	points := of(t, s, "@gql:points", algo.Limit{Algorithm: algo.Token, Limit: 50, Period: second, Burst: 1000}, costs(752))
	_, out := reserve(t, s, start, "h", nil, points)
	require.EqualValues(t, 248, out[0].Remaining)
	require.EqualValues(t, 798, settle(t, s, start+second, "h", cost(252)).Remaining)

	// Two holds of one counter: one cannot give back what the other already has.
	b := of(t, s, "@p:b", algo.Limit{Algorithm: algo.Token, Limit: 60, Period: minute, Burst: 100})
	cost := func(n int64) engine.Check { c := b; c.Cost = n; return c }
	reserve(t, s, start, "a40", nil, cost(40))
	reserve(t, s, start, "a10", nil, cost(10))
	settle(t, s, start+second, "a40", cancelled())
	check(t, s, start+5*second, cost(20))
	require.EqualValues(t, 80, settle(t, s, start+5*second, "a10", cancelled()).Remaining)
}

// For each algorithm, a hold that is cancelled at once leaves nothing, whatever else is
// charged. A hold that is committed for less leaves its real cost.
func TestAHoldThatIsSettledAtOnce(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		c := of(t, s, "@p:a", algo.Limit{Algorithm: a, Limit: 70, Period: 11 * second})
		cost := func(n int64) engine.Check { c := c; c.Cost = n; return c }
		check(t, s, start, cost(7))
		reserve(t, s, start, "x", nil, cost(13))
		reserve(t, s, start+1, "y", nil, cost(17))
		check(t, s, start+1, cost(3))
		require.EqualValues(t, 30, remaining(t, s, start+1, c))
		require.EqualValues(t, 43, settle(t, s, start+1, "x", cancelled()).Remaining)
		check(t, s, start+2, cost(1))
		require.EqualValues(t, 54, settle(t, s, start+2, "y", engine.Settlement{State: reservation.Committed, Cost: func(*reservation.Held) (int64, bool, error) { return 5, true, nil }}).Remaining)
		_, found, err := s.Kind(start+2, []byte("@p:a"))
		require.NoError(t, err)
		require.True(t, found)

		reserve(t, s, start, "z", nil, of(t, s, "@p:z", perMinute(a, 5)))
		settle(t, s, start, "z", cancelled())
		_, found, err = s.Kind(start, []byte("@p:z"))
		require.NoError(t, err)
		require.False(t, found, "nothing is left of the counter")
	})
}

// Nothing is given back to a counter that no longer knows the charge.
func TestWhatIsGoneIsNotGivenBack(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		f := func(why string, between func(s *engine.Session, c engine.Check), want int64) {
			t.Helper()
			s := newTestSession(t, engine.Config{})
			c := of(t, s, "@p:a", perMinute(a, 100))
			cost := func(n int64) engine.Check { c := c; c.Cost = n; return c }
			reserve(t, s, start, "h", nil, cost(40))
			between(s, c)
			require.EqualValues(t, want, settle(t, s, start+1, "h", cancelled()).Remaining, why)
		}
		charge := func(s *engine.Session, c engine.Check, n int64) { c.Cost = n; check(t, s, start, c) }
		f("as it is", func(s *engine.Session, c engine.Check) { charge(s, c, 40) }, 60)
		f("deleted", func(s *engine.Session, c engine.Check) {
			_, err := s.Delete(start, c.Key)
			require.NoError(t, err)
			charge(s, c, 40)
		}, 60)
		f("deleted, and held again", func(s *engine.Session, c engine.Check) {
			_, err := s.Delete(start, c.Key)
			require.NoError(t, err)
			c.Cost = 40
			reserve(t, s, start, "other", nil, c)
		}, 60)
		f("flushed", func(s *engine.Session, c engine.Check) { // with the hold: it is put back
			held, err := s.Reservation(start, []byte("h"))
			require.NoError(t, err)
			require.NoError(t, s.Flush())
			_, err = s.Reservation(start, []byte("h"))
			require.ErrorIs(t, err, engine.ErrNoHold)
			reserve(t, s, start, "h", nil)
			sh := s.Engine().Table().At(holdHash(s, "h"))
			sh.Lock()
			ent, _ := sh.Find(holdHash(s, "h"), []byte("h"))
			state := reservation.Append(nil, &held)
			ent, err = sh.Resize(ent, holdHash(s, "h"), len(state)/8, start)
			require.NoError(t, err)
			copy(ent.State(), state)
			sh.Unlock()
			charge(s, c, 40)
		}, 60)
		f("reset by an edit", func(s *engine.Session, c engine.Check) {
			l := perMinute(a, 100)
			l.Resets = 1
			charge(s, of(t, s, "@p:a", l), 40)
		}, 60)
		f("another type in the way", func(s *engine.Session, c engine.Check) {
			_, err := s.Delete(start, c.Key)
			require.NoError(t, err)
			_, err = s.Set(start, c.Key, []byte("x"), &engine.SetOptions{})
			require.NoError(t, err)
			charge(s, c, 40)
		}, 60)
		want := int64(150) // counts and entries are what they were
		if a == algo.Token || a == algo.Leaky {
			want = 110
		}
		f("other numbers", func(s *engine.Session, c engine.Check) { charge(s, of(t, s, "@p:a", perMinute(a, 200)), 50) }, want)
	})
}

// A window gives back from the count of the charge's own window, while that counts.
func TestRefundsOfWindowsThatAreOver(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	for i, a := range []algo.Algorithm{algo.Fixed, algo.Sliding, algo.Log} {
		c := of(t, s, fmt.Sprint("@p:", i), perMinute(a, 100), costs(40))
		id := fmt.Sprint("h", i)
		reserve(t, s, start+30*second, id, func(r *engine.Reserve) { r.TTL = reservation.MaxTTL }, c)
		check(t, s, start+90*second-1, c)
		want := []int64{60, 60, 60}[i]
		require.Equal(t, want, settle(t, s, start+90*second-1, id, cancelled()).Remaining, a)
		reserve(t, s, start+10*minute, id+"late", func(r *engine.Reserve) { r.TTL = reservation.MaxTTL }, c)
		check(t, s, start+12*minute, c)
		require.EqualValues(t, 60, settle(t, s, start+12*minute, id+"late", cancelled()).Remaining, a)
	}
}

// A hold that ends by itself is released, or stays charged. A late settlement charges the
// missing units, and gives back the excess.
func TestHoldsThatEnd(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 100), costs(40))
	charges := func(r *engine.Reserve) { r.TTL, r.Charges = second, true }
	releases := func(r *engine.Reserve) { r.TTL = second }
	end := func(now int64) { s.Engine().SettleEnded(context.Background(), s, now) }

	reserve(t, s, start, "a", releases, c)
	end(start + 2*second)
	require.EqualValues(t, 100, remaining(t, s, start+2*second, c))
	a := settle(t, s, start+3*second, "a", cost(70))
	require.Equal(t, reservation.Committed, a.State)
	require.EqualValues(t, 30, a.Remaining, "all of it")

	reserve(t, s, start+minute, "b", charges, c)
	end(start + minute + 2*second)
	require.EqualValues(t, 60, remaining(t, s, start+minute+2*second, c))
	require.EqualValues(t, 30, settle(t, s, start+minute+3*second, "b", cost(70)).Remaining, "the difference")

	reserve(t, s, start+2*minute, "c", charges, c)
	require.EqualValues(t, 90, settle(t, s, start+2*minute+3*second, "c", cost(10)).Remaining, "also before somebody has looked")
	reserve(t, s, start+3*minute, "d", releases, c)
	require.EqualValues(t, 90, settle(t, s, start+3*minute+3*second, "d", cost(10)).Remaining)

	// A late cancel is a late commit of nothing, whatever has become of the hold.
	for i, with := range []func(*engine.Reserve){charges, releases} {
		for j, settles := range []func() engine.Settlement{cancelled, func() engine.Settlement { return cost(0) }} {
			for k, ended := range []int64{2 * second, 0} { // somebody has looked, or nobody
				id, at := fmt.Sprint("late", i, j, k), start+int64(10+4*i+2*j+k)*minute
				reserve(t, s, at, id, with, c)
				end(at + ended)
				a, how := settle(t, s, at+3*second, id, settles()), settles()
				require.Equal(t, how.State, a.State)
				require.EqualValues(t, 100, a.Remaining, "%v after %v", a.State, ended)
				require.EqualValues(t, 100, remaining(t, s, at+3*second, c))
				require.Equal(t, how.State, settle(t, s, at+4*second, id, cost(50)).State, "the first settlement stands")
			}
		}
	}

	reserve(t, s, start+30*minute, "e", func(r *engine.Reserve) { r.TTL, r.Keep = second, 5*second }, c)
	end(start + 30*minute + 2*second)
	_, err := s.Settle(start+30*minute+9*second, []byte("e"), cost(10))
	require.ErrorIs(t, err, engine.ErrNoHold, "it is not kept for ever")
	require.EqualValues(t, 100, remaining(t, s, start+30*minute+9*second, c))
}

// Holds are no keys of a database, and end with the counters.
func TestHoldsAreNoKeys(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Token, 100))
	hold := func() { reserve(t, s, start, "@+p;1", nil, c) }
	hold()
	require.Equal(t, 1, s.Engine().Reservations())
	for db := range uint8(algo.Databases) {
		s.Use(db)
		found, err := s.Exists(start, []byte("@+p;1"))
		require.NoError(t, err)
		require.False(t, found)
		for cursor := uint64(0); ; {
			cursor, err = s.Scan(start, cursor, 100, func(key []byte, _ algo.Algorithm) { require.Equal(t, "@p:a", string(key)) })
			require.NoError(t, err)
			if cursor == 0 {
				break
			}
		}
	}
	s.Use(0)
	require.Equal(t, 1, s.Engine().DatabaseLen(0))
	require.Equal(t, 1, s.Engine().DatabaseStats(start)[0].Keys)
	s.Use(1)
	_, err := s.Set(start, []byte("k"), []byte("v"), &engine.SetOptions{})
	require.NoError(t, err)
	require.NoError(t, s.FlushDatabase())
	require.Equal(t, 1, s.Engine().Reservations(), "another database was flushed")
	_, err = s.Set(start, []byte("k"), []byte("v"), &engine.SetOptions{})
	require.NoError(t, err)
	s.Use(0)
	require.NoError(t, s.FlushDatabase())
	require.Zero(t, s.Engine().Reservations())
	hold()
	require.NoError(t, s.Flush())
	require.Zero(t, s.Engine().Reservations())
}

// Beyond the bound, the hold that was settled first makes room, and then the one that
// ends first.
func TestHoldsAreBounded(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	s.Engine().BoundHolds(3)
	c := of(t, s, "@p:a", perMinute(algo.Token, 100))
	for _, id := range []string{"a", "b", "c"} {
		reserve(t, s, start, id, nil, c)
	}
	settle(t, s, start, "b", cancelled())
	reserve(t, s, start, "d", nil, c)
	_, err := s.Reservation(start, []byte("b"))
	require.ErrorIs(t, err, engine.ErrNoHold)
	reserve(t, s, start, "e", nil, c)
	require.Equal(t, 3, s.Engine().Reservations())
	require.EqualValues(t, 2, s.Engine().HoldsEvicted())
	require.EqualValues(t, 96, remaining(t, s, start, c), "what it was charged stays charged")
	_, err = s.Reservation(start, []byte("e"))
	require.NoError(t, err)
}

// A hold is settled by the node that leads next, also by its end.
func TestHoldsSurviveTheLeader(t *testing.T) {
	leader, follower := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8})
	leader.r.Lead(start)
	c := of(t, leader.s, "@p:a", perMinute(algo.Token, 100), costs(40))
	reserve(t, leader.s, start, "a", nil, c)
	reserve(t, leader.s, start, "b", nil, c)
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	require.True(t, leader.l.Commit())
	reserve(t, leader.s, start, "lost", nil, of(t, leader.s, "@p:b", perMinute(algo.Token, 100)))
	settle(t, leader.s, start, "a", cancelled())
	leader.depose()
	require.Equal(t, follower.table(start), leader.table(start), "what was not committed is taken back")

	follower.r.Lead(start)
	c = of(t, follower.s, "@p:a", perMinute(algo.Token, 100), costs(40))
	require.EqualValues(t, 50, settle(t, follower.s, start, "a", cost(10)).Remaining)
	_, err := follower.s.Settle(start, []byte("lost"), cancelled())
	require.ErrorIs(t, err, engine.ErrNoHold)
	follower.e.SettleEnded(context.Background(), follower.s, start+minute+2*second)
	r, err := follower.s.Reservation(start+minute+2*second, []byte("b"))
	require.NoError(t, err)
	require.Equal(t, reservation.Released, r.State)
	require.EqualValues(t, 100, remaining(t, follower.s, start+minute+2*second, c))
	_, err = leader.s.Settle(start, []byte("a"), cancelled())
	require.ErrorIs(t, err, engine.ErrSealed)
	_, err = leader.s.Reserve(start, []engine.Check{c}, engine.CheckOptions{}, make([]engine.Checked, 1), &engine.Reserve{Key: []byte("x"), TTL: minute, Limits: make([]reservation.Held, 1)})
	require.ErrorIs(t, err, engine.ErrSealed)
}

// Without room for the record nothing is charged.
func TestReserveThatFindsTheTableFull(t *testing.T) {
	s := newTestSession(t, engine.Config{MaxBytes: 1 << 20, Shards: 1})
	for i := 0; ; i++ {
		if _, err := s.Set(start, fmt.Appendf(nil, "fill:%d", i), bytes.Repeat([]byte("x"), 200), &engine.SetOptions{}); err != nil {
			break
		}
	}
	for i := 0; ; i++ { // also of small records
		if _, err := s.Set(start, fmt.Appendf(nil, "s%d", i), []byte("1"), &engine.SetOptions{}); err != nil {
			break
		}
	}
	c := of(t, s, "@p:a", perMinute(algo.Token, 100))
	_, err := s.Reserve(start, []engine.Check{c}, engine.CheckOptions{}, make([]engine.Checked, 1), &engine.Reserve{Key: []byte("x"), TTL: minute, Limits: make([]reservation.Held, 1)})
	require.ErrorIs(t, err, engine.ErrFull)
	require.Zero(t, s.Engine().Reservations())
	require.EqualValues(t, 100, remaining(t, s, start, c))
}

// fill leaves no room in the table of a session.
func fill(t *testing.T, s *engine.Session) {
	for n := 400; n >= 0; n -= 4 { // records of every size
		for i := 0; ; i++ {
			if _, err := s.Set(start, fmt.Appendf(nil, "%d.%d", n, i), bytes.Repeat([]byte("x"), n), &engine.SetOptions{}); err != nil {
				require.ErrorIs(t, err, engine.ErrFull)
				break
			}
		}
	}
}

// A hold can be settled, in time and late, although the table has become full.
func TestSettlementsInAFullTable(t *testing.T) {
	s := newTestSession(t, engine.Config{MaxBytes: 1 << 20, Shards: 1})
	rate := of(t, s, "@p:a", perMinute(algo.Fixed, 1000))
	run := of(t, s, "@p:run", algo.Limit{Algorithm: algo.PolicySlots, Limit: 9, Period: minute})
	hold := func(id string, ttl int64, named bool) {
		reserve(t, s, start, id, func(r *engine.Reserve) {
			r.TTL, r.Named, r.Limits[0].Name = ttl, named, strings.Repeat("n", 32)
		}, rate)
	}
	for _, named := range []bool{false, true} {
		hold(fmt.Sprint("cancelled", named), minute, named)
		hold(fmt.Sprint("committed", named), minute, named)
		hold(fmt.Sprint("late", named), second, named)
	}
	reserve(t, s, start, "slot", nil, run)
	reserve(t, s, start, "both", nil, run, rate)
	fill(t, s)
	s.Engine().SettleEnded(context.Background(), s, start+2*second)
	fill(t, s)
	now := start + 3*second
	for _, named := range []bool{false, true} {
		require.Equal(t, reservation.Cancelled, settle(t, s, now, fmt.Sprint("cancelled", named), cancelled()).State)
		require.Equal(t, reservation.Committed, settle(t, s, now, fmt.Sprint("committed", named), cost(1<<40)).State)
		require.Equal(t, reservation.Committed, settle(t, s, now, fmt.Sprint("late", named), cost(2)).State)
	}
	require.EqualValues(t, 7, remaining(t, s, now, run))
	require.Equal(t, reservation.Committed, settle(t, s, now, "slot", cost(-1)).State)
	require.Equal(t, reservation.Cancelled, settle(t, s, now, "both", cancelled()).State)
	require.EqualValues(t, 9, remaining(t, s, now, run))
}

// A step that holds keys settles a hold if it holds all that the hold is about, and
// takes it back.
func TestSettleWithinAStep(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Token, 100), costs(40))
	reserve(t, s, start, "h", nil, c)
	step := s.Isolate(start, [][]byte{[]byte("other")}, 0)
	_, err := s.Settle(start, []byte("h"), cancelled())
	require.ErrorIs(t, err, engine.ErrNotIsolated)
	step.Commit()
	keys := s.Engine().ReservationKeys([]byte("h"))
	require.Equal(t, [][]byte{[]byte("h"), []byte("@p:a")}, keys)
	step = s.Isolate(start, keys, 1<<20)
	require.EqualValues(t, 100, settle(t, s, start, "h", cancelled()).Remaining)
	step.Rollback()
	require.EqualValues(t, 60, remaining(t, s, start, c))
	require.EqualValues(t, 90, settle(t, s, start, "h", cost(10)).Remaining)
}

// A full log takes the real cost all the same.
func TestCommitOverAFullLog(t *testing.T) {
	s := newTestSession(t, engine.Config{LogMaxEntries: 4})
	c := of(t, s, "@p:a", perMinute(algo.Log, 4))
	for i := range int64(3) {
		check(t, s, start+i, c)
	}
	reserve(t, s, start+3, "h", nil, c)
	a := settle(t, s, start+10*second, "h", cost(5))
	require.EqualValues(t, 4, a.Over)
	require.EqualValues(t, 0, remaining(t, s, start+minute+3, c), "for no shorter than if it had an entry of its own")
	require.EqualValues(t, 4, remaining(t, s, start+minute+10*second, c))
}

// A named call is charged once; its record has the answer.
func TestACallThatIsRepeated(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 100), costs(40))
	asked := reservation.Fingerprint{1, 2, 3}
	for _, plain := range []bool{true, false} {
		id := fmt.Sprint("id", plain)
		named := func(r *engine.Reserve) { r.Named, r.Print, r.Plain, r.Keep = true, asked, plain, minute }
		_, out := reserve(t, s, start, id, named, c)
		out2 := make([]engine.Checked, 1)
		_, err := s.Reserve(start+second, []engine.Check{c}, engine.CheckOptions{}, out2, &engine.Reserve{Key: []byte(id), Named: true, TTL: minute, Limits: make([]reservation.Held, 1)})
		require.ErrorIs(t, err, engine.ErrRepeated)
		r, err := s.Reservation(start+second, []byte(id))
		require.NoError(t, err)
		require.Equal(t, asked, r.Print)
		require.Equal(t, "l0", r.First.Name)
		require.Equal(t, out[0].Remaining, r.First.Remaining)
		_, err = s.Settle(start, []byte(id), cancelled())
		if plain {
			require.ErrorIs(t, err, engine.ErrNoHold, "nothing is held")
			require.EqualValues(t, 60, remaining(t, s, start, c))
		} else {
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 60, remaining(t, s, start, c))
	r, err := s.Reservation(start+minute, []byte("idfalse"))
	require.NoError(t, err)
	require.Equal(t, reservation.Cancelled, r.State, "settled, and known by its name")
	_, out := reserve(t, s, start+minute+2*second, "idtrue", func(r *engine.Reserve) { r.Named, r.Plain = true, true }, c)
	require.True(t, out[0].OK, "it is not kept for ever")
}

// holdHash is the hash of a hold's record.
func holdHash(s *engine.Session, id string) uint64 {
	return s.Engine().Table().Hash([]byte(id)) ^ shard.SpaceMask(algo.HoldSpace)
}
