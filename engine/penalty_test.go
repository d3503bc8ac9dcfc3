package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

func penalized(p engine.Penalty) func(*engine.Check) { return func(c *engine.Check) { c.Penalty = &p } }

// login is the penalty of three denials in ten minutes: a block of a quarter of an
// hour.
var login = engine.Penalty{After: 3, Within: 10 * minute, Block: 15 * minute, Factor: 1, Max: 24 * 60 * minute}

// strikeOut makes calls a second apart on a limit of one used unit, until it blocks the
// caller. It returns when that was.
func strikeOut(t *testing.T, s *engine.Session, now int64, c engine.Check) int64 {
	t.Helper()
	for range c.Penalty.After {
		now += second
		v, _ := check(t, s, now, c)
		require.False(t, v.OK)
	}
	v, out := check(t, s, now, c)
	require.True(t, v.Penalty)
	require.Equal(t, c.Penalty.Block, out[0].RetryAfter)
	return now
}

func TestLoginIsBlocked(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	ip := of(t, s, "@login:ip;ip=198.51.100.7", perMinute(algo.Token, 10))
	bob := of(t, s, "@login:user;user=bob", perMinute(algo.Log, 5), penalized(login))
	eve := of(t, s, "@login:user;user=eve", perMinute(algo.Log, 5), penalized(login))
	at := func(tenths int64) int64 { return start + tenths*second/10 }
	f := func(now int64, user engine.Check, want engine.Verdict, retry, ipLeft, userLeft int64) {
		t.Helper()
		v, out := check(t, s, now, ip, user)
		require.Equal(t, want, v)
		require.Equal(t, []int64{ipLeft, userLeft}, []int64{out[0].Remaining, out[1].Remaining})
		if !v.OK {
			require.Equal(t, retry, out[v.Binding].RetryAfter)
		}
	}
	for i := range int64(5) {
		f(at(i), bob, engine.Verdict{OK: true, Binding: 1}, 0, 9-i, 4-i)
	}
	f(at(10), bob, engine.Verdict{Binding: 1}, 59*second, 5, 0)
	f(at(20), bob, engine.Verdict{Binding: 1}, 58*second, 5, 0)
	f(at(30), bob, engine.Verdict{Binding: 1, Penalty: true, Begun: true}, 900*second, 5, 0)
	f(at(40), eve, engine.Verdict{OK: true, Binding: 0}, 0, 4, 4)
	f(at(610), bob, engine.Verdict{Binding: 1, Penalty: true}, 842*second, 10, 0)
	require.Equal(t, engine.Offender{BlockedUntil: at(9030)}, s.Engine().Offender(at(610), bob.Key, bob.Hash, bob.Limit.Limit(), bob.Penalty))
	f(at(9030)-1, bob, engine.Verdict{Binding: 1, Penalty: true}, 1, 10, 0)
	f(at(9030), bob, engine.Verdict{OK: true, Binding: 1}, 0, 9, 4)
}

// A strike needs a denial by the limit itself, of a call that could be an attack.
func TestWhatIsNoStrike(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	once := login
	once.After = 1
	full := func(key string, with ...func(*engine.Check)) engine.Check {
		c := of(t, s, key, perMinute(algo.Fixed, 1), with...)
		check(t, s, start, c)
		c.Penalty = &once
		return c
	}
	f := func(what string, o engine.CheckOptions, checks ...engine.Check) {
		t.Helper()
		for range 3 {
			v, err := s.Check(start, checks, o, make([]engine.Checked, len(checks)))
			require.NoError(t, err)
			require.False(t, v.Penalty, what)
		}
		require.Zero(t, s.Engine().Offenders(), what)
	}
	f("a peek", engine.CheckOptions{Peek: true}, full("@p:peek"))
	c := full("@p:look", countAll)
	c.Cost = 5
	c.Penalty = nil
	check(t, s, start, c)
	c.Penalty, c.Cost = &once, 0
	v, _ := check(t, s, start, c)
	require.True(t, v.OK)
	f("a look", engine.CheckOptions{}, c)
	f("shadow", engine.CheckOptions{}, full("@p:shadow", shadow))
	f("soft", engine.CheckOptions{}, full("@p:soft", soft))
	f("more than the limit has", engine.CheckOptions{}, of(t, s, "@p:much", perMinute(algo.Fixed, 5), costs(6), penalized(once)))
	other := full("@p:other")
	other.Penalty = nil
	f("another limit's denial", engine.CheckOptions{}, of(t, s, "@p:innocent", perMinute(algo.Fixed, 5), penalized(once)), other)
	f("something else denies", engine.CheckOptions{Denied: true}, of(t, s, "@p:innocent", perMinute(algo.Fixed, 5), penalized(once)))
	b := of(t, s, "@p:blocked", algo.Limit{Algorithm: algo.Token, Period: minute}, penalized(once))
	f("a blocked rate", engine.CheckOptions{}, b)
}

// A blocked caller counts nowhere, even in limits that count all. Further calls do not
// prolong the block.
func TestWhoIsBlockedCountsNowhere(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	once := engine.Penalty{After: 1, Block: minute, Factor: 2, Max: 60 * minute}
	all := of(t, s, "@p:all", algo.Limit{Algorithm: algo.Fixed, Limit: 100, Period: 60 * minute}, countAll)
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 1), countAll, penalized(once))
	check(t, s, start, c, all)
	v, out := check(t, s, start+second, c, all)
	require.Equal(t, engine.Verdict{Penalty: true, Begun: true}, v)
	require.EqualValues(t, 98, out[1].Remaining, "the call that leads to the block counts")
	for now := start + 2*second; now < start+61*second; now += 7 * second {
		v, out = check(t, s, now, c, all)
		require.Equal(t, engine.Verdict{Penalty: true}, v)
		require.Equal(t, start+61*second-now, out[0].RetryAfter)
		require.True(t, out[1].OK)
	}
	v, out = check(t, s, start+61*second, of(t, s, "@p:a", perMinute(algo.Fixed, 1), penalized(once)), all)
	require.True(t, v.OK)
	require.EqualValues(t, 97, out[1].Remaining)

	// A second block within the longest time is twice as long.
	v, out = check(t, s, start+62*second, c)
	require.True(t, v.Penalty)
	require.Equal(t, 2*minute, out[0].RetryAfter)
}

// The retry of a block is as long as that of any limit.
func TestBlocksAndOtherWaits(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	once := engine.Penalty{After: 1, Block: minute, Factor: 1, Max: minute}
	hour := algo.Limit{Algorithm: algo.Fixed, Limit: 1, Period: 60 * minute, Align: algo.First}
	c := of(t, s, "@p:a", hour, penalized(once))
	check(t, s, start, c)
	for i := range 2 { // the call that leads to the block, and one that finds it
		v, out := check(t, s, start, c)
		require.Equal(t, engine.Verdict{Penalty: true, Begun: i == 0}, v)
		require.Equal(t, 60*minute, out[0].RetryAfter, "the limit's own wait is longer")
	}
	long := of(t, s, "@p:long", algo.Limit{Algorithm: algo.Fixed, Limit: 1, Period: 600 * minute, Align: algo.First})
	check(t, s, start, long)
	v, out := check(t, s, start, long, c)
	require.Equal(t, engine.Verdict{Binding: 1, Penalty: true}, v, "a block stands for the call")
	require.Equal(t, 600*minute, out[1].RetryAfter, "an earlier retry would be denied again")
	much := of(t, s, "@p:much", perMinute(algo.Token, 1), costs(2))
	v, out = check(t, s, start, much, c)
	require.Equal(t, engine.Verdict{Binding: 1, Penalty: true}, v)
	require.EqualValues(t, algo.Never, out[1].RetryAfter)
}

// An edit changes a block as soon as it is asked for, and never prolongs it; one
// that takes it away, and a reset, forgives.
func TestEditsOfPenalties(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 1), penalized(engine.Penalty{After: 1, Block: 10 * minute, Factor: 1, Max: 60 * minute}))
	check(t, s, start, c)
	at := strikeOut(t, s, start, c)
	blocked := func(now int64, with func(*engine.Penalty)) int64 {
		p := *c.Penalty
		with(&p)
		e := c
		e.Penalty, e.Cost = &p, 0
		v, out := check(t, s, now, e)
		require.Equal(t, v.Penalty, !v.OK)
		return out[0].RetryAfter
	}
	require.Equal(t, 9*minute, blocked(at+minute, func(p *engine.Penalty) {}))
	require.Equal(t, 9*minute, blocked(at+minute, func(p *engine.Penalty) { p.Block = 20 * minute }))
	require.Equal(t, minute, blocked(at+minute, func(p *engine.Penalty) { p.Block = 2 * minute }))
	require.Zero(t, blocked(at+2*minute, func(p *engine.Penalty) { p.Block = 2 * minute }))
	require.Zero(t, blocked(at+5*minute, func(p *engine.Penalty) { p.Max = 5 * minute }))
	require.Zero(t, blocked(at+minute, func(p *engine.Penalty) { p.Epoch++ }))
	require.Equal(t, 9*minute, blocked(at+minute, func(p *engine.Penalty) {}))

	// A check by an older policy does not bring back what is forgiven.
	e := c
	e.Penalty = &engine.Penalty{After: 1, Block: 10 * minute, Factor: 1, Max: 60 * minute, Epoch: 3}
	check(t, s, at+minute, e)
	strikeOut(t, s, at+minute, e)
	_, err := s.Check(at+minute, []engine.Check{c}, engine.CheckOptions{}, make([]engine.Checked, 1))
	require.ErrorIs(t, err, engine.ErrStale)
	v, err := s.Check(at+2*minute, []engine.Check{c}, engine.CheckOptions{Anew: true}, make([]engine.Checked, 1))
	require.NoError(t, err)
	require.True(t, v.OK)
}

// Blocks grow until the longest, and fall back once one is forgotten.
func TestBlocksGrow(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	p := engine.Penalty{After: 2, Within: minute, Block: minute, Factor: 3, Max: 12 * minute}
	c := of(t, s, "@p:a", algo.Limit{Algorithm: algo.Fixed, Limit: 1, Period: 600 * minute}, penalized(p))
	check(t, s, start, c)
	now := start
	block := func(want int64) {
		t.Helper()
		for range 2 {
			now += second
			check(t, s, now, c)
		}
		x := s.Engine().Offender(now, c.Key, c.Hash, c.Limit.Limit(), c.Penalty)
		require.Equal(t, engine.Offender{BlockedUntil: now + want}, x)
		now += want
	}
	for _, minutes := range []int64{1, 3, 9, 12, 12} {
		block(minutes * minute)
		now += 11 * minute
	}
	now += minute - 2*second
	block(minute)

	// Strikes that are further apart do not count together.
	now += 20 * minute
	for range 9 {
		check(t, s, now, c)
		require.Equal(t, engine.Offender{Strikes: 1, StrikesEnd: now + minute}, s.Engine().Offender(now, c.Key, c.Hash, c.Limit.Limit(), c.Penalty))
		now += minute
	}
	require.Equal(t, engine.Offender{}, s.Engine().Offender(now, c.Key, c.Hash, c.Limit.Limit(), c.Penalty))
}

// A block outlasts its leader, but an uncommitted block is taken back.
func TestBlocksSurviveTheLeader(t *testing.T) {
	leader, follower := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8})
	leader.r.Lead(start)
	c := of(t, leader.s, "@p:a", perMinute(algo.Fixed, 1), penalized(login))
	check(t, leader.s, start, c)
	at := strikeOut(t, leader.s, start, c)
	require.NoError(t, follower.r.Apply(leader.cut(), at))
	require.True(t, leader.l.Commit())
	var snap bytes.Buffer
	require.NoError(t, leader.r.Snapshot().Persist(&snap))

	lost := of(t, leader.s, "@p:b", perMinute(algo.Fixed, 1), penalized(login))
	check(t, leader.s, at, lost)
	strikeOut(t, leader.s, at, lost)
	require.Equal(t, 2, leader.e.Offenders())
	leader.depose()
	require.Equal(t, 1, leader.e.Offenders())
	require.Equal(t, follower.table(at), leader.table(at), "what was not committed is taken back")
	require.Equal(t, follower.e.Digest(at), leader.e.Digest(at))

	late := newNode(t, engine.Config{})
	require.NoError(t, late.r.Restore(&snap, at))
	for _, n := range []*node{follower, late} {
		n.r.Lead(at)
		v, out := check(t, n.s, at+5*minute, of(t, n.s, "@p:a", perMinute(algo.Fixed, 1), penalized(login)))
		require.True(t, v.Penalty)
		require.Equal(t, 10*minute, out[0].RetryAfter)
		v, _ = check(t, n.s, at+15*minute, of(t, n.s, "@p:a", perMinute(algo.Fixed, 1), penalized(login)))
		require.True(t, v.OK)
	}
}

// A node that does not decide admits no caller whom its table blocks.
func TestBlocksHoldWithoutALeader(t *testing.T) {
	leader, orphan := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8})
	leader.r.Lead(start)
	c := of(t, leader.s, "@p:a", perMinute(algo.Fixed, 10), costs(10), penalized(login))
	check(t, leader.s, start, c)
	at := strikeOut(t, leader.s, start, c)
	require.NoError(t, orphan.r.Apply(leader.cut(), at))

	c = of(t, orphan.s, "@p:a", perMinute(algo.Fixed, 10), penalized(login))
	other := of(t, orphan.s, "@p:b", perMinute(algo.Fixed, 5))
	_, err := orphan.s.Check(at, []engine.Check{c}, engine.CheckOptions{}, make([]engine.Checked, 1))
	require.ErrorIs(t, err, engine.ErrSealed)
	local := engine.NewLocal(orphan.e)
	local.Begin(2, 0)
	empty, stop := engine.NewEmpty(orphan.e), engine.NewBackstop(orphan.e)
	for name, decide := range map[string]func(int64, []engine.Check, []engine.Checked) (engine.Verdict, error){
		"local": func(now int64, cs []engine.Check, out []engine.Checked) (engine.Verdict, error) {
			return local.Check(now, cs, engine.CheckOptions{}, out)
		},
		"open": func(now int64, cs []engine.Check, out []engine.Checked) (engine.Verdict, error) {
			return empty.Check(now, cs, engine.CheckOptions{}, out)
		},
		"backstop": func(now int64, cs []engine.Check, out []engine.Checked) (engine.Verdict, error) {
			return stop.Check(now, 3, cs, engine.CheckOptions{}, out)
		},
	} {
		out := make([]engine.Checked, 2)
		v, err := decide(at+minute, []engine.Check{other, c}, out)
		require.NoError(t, err, name)
		require.Equal(t, engine.Verdict{Binding: 1, Penalty: true}, v, name)
		require.Equal(t, algo.Decision{Limit: 10, RetryAfter: 14 * minute}, out[1].Decision, name)
		require.Equal(t, algo.Decision{OK: true, Limit: 5, Remaining: 5}, out[0].Decision, name)
		v, err = decide(at+15*minute, []engine.Check{other, c}, out)
		require.NoError(t, err, name)
		require.True(t, v.OK, name)
	}
	require.Equal(t, leader.table(at), orphan.table(at), "nothing is written")
}

// Without room for the record, a denial is a plain denial of the limit.
func TestStrikesThatFindTheTableFull(t *testing.T) {
	s := newTestSession(t, engine.Config{MaxBytes: 1 << 20, Shards: 1})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 1), penalized(login))
	check(t, s, start, c)
	for _, size := range []int{200, 1} {
		for i := 0; ; i++ {
			if _, err := s.Set(start, fmt.Appendf(nil, "fill:%d:%d", size, i), bytes.Repeat([]byte("x"), size), &engine.SetOptions{}); err != nil {
				break
			}
		}
	}
	for range 4 {
		v, out := check(t, s, start, c)
		require.Equal(t, engine.Verdict{}, v)
		require.ErrorIs(t, out[0].Err, engine.ErrFull)
		require.Equal(t, minute, out[0].RetryAfter)
	}
}

// Blocks are no keys of users: a flush ends them, RL.POLICY RESET does, and DEL of
// the counter does not.
func TestOffencesAreNoKeys(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 1), penalized(login))
	check(t, s, start, c)
	at := strikeOut(t, s, start, c)
	require.Equal(t, 1, s.Engine().DatabaseLen(0))
	_, err := s.Delete(at, c.Key)
	require.NoError(t, err)
	require.Zero(t, s.Engine().DatabaseLen(0))
	require.Zero(t, s.Engine().DatabaseStats(at)[0].Keys)
	_, err = s.Scan(at, 0, 100, func(key []byte, _ algo.Algorithm) { t.Errorf("SCAN shows %s", key) })
	require.NoError(t, err)
	v, _ := check(t, s, at, c)
	require.True(t, v.Penalty)
	there, err := s.Forgive(at, c.Key, c.Penalty)
	require.NoError(t, err)
	require.True(t, there)
	there, err = s.Forgive(at, c.Key, c.Penalty)
	require.NoError(t, err)
	require.False(t, there)
	v, _ = check(t, s, at, c)
	require.True(t, v.OK)

	for _, beside := range []bool{false, true} {
		at = strikeOut(t, s, at, c)
		if beside {
			s.Use(3)
			_, err := s.Set(at, []byte("k"), []byte("v"), &engine.SetOptions{})
			require.NoError(t, err)
			s.Use(0)
		}
		require.NoError(t, s.FlushDatabase())
		require.Zero(t, s.Engine().Offenders())
		v, _ = check(t, s, at, c)
		require.True(t, v.OK)
	}
}

// Strikes of a step are taken back with it.
func TestStrikesAreTakenBack(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 1), penalized(login))
	check(t, s, start, c)
	check(t, s, start, c)
	was := s.Engine().Offender(start, c.Key, c.Hash, c.Limit.Limit(), c.Penalty)
	require.EqualValues(t, 1, was.Strikes)
	step := s.Isolate(start, [][]byte{c.Key}, 1<<20)
	for range 3 {
		check(t, s, start+second, c)
	}
	step.Rollback()
	require.Equal(t, was, s.Engine().Offender(start, c.Key, c.Hash, c.Limit.Limit(), c.Penalty))

	step = s.Isolate(start, [][]byte{[]byte("other")}, 0)
	_, err := s.Check(start, []engine.Check{c}, engine.CheckOptions{}, make([]engine.Checked, 1))
	require.ErrorIs(t, err, engine.ErrNotIsolated)
	step.Commit()
}

// RL.RESERVE obeys penalties, and its denials are strikes.
func TestReserveObeysPenalties(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	twice := login
	twice.After = 2
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 1), penalized(twice))
	for i, want := range []engine.Verdict{{OK: true}, {}, {Penalty: true, Begun: true}, {Penalty: true}} {
		v, _ := reserve(t, s, start, fmt.Sprint(i), nil, c)
		require.Equal(t, want, v, i)
	}
	require.Equal(t, 1, s.Engine().Reservations())
	settle(t, s, start, "0", cancelled())
	v, _ := check(t, s, start, c)
	require.True(t, v.Penalty, "what is given back unblocks nobody")
}

// Eviction leaves those who are blocked to the last.
func TestEvictionSparesBlocks(t *testing.T) {
	s := newTestSession(t, engine.Config{MaxBytes: 1 << 20, Shards: 1, Evict: true})
	var cs []engine.Check
	for i := range 20 {
		c := of(t, s, fmt.Sprintf("@p:a;k=%d", i), perMinute(algo.Fixed, 1), penalized(login))
		check(t, s, start, c)
		strikeOut(t, s, start, c)
		cs = append(cs, c)
	}
	for i := range 20_000 {
		decide(t, s, start+4*second, fmt.Sprintf("fill:%d", i), perMinute(algo.Token, 10), 1, algo.Options{})
	}
	require.NotZero(t, s.Engine().Table().Stats().Evicted)
	for _, c := range cs {
		v, _ := check(t, s, start+5*second, c)
		require.True(t, v.Penalty)
	}
}

// A flood of identities that are blocked once takes a part of the memory. It pushes out
// neither the counters of others nor callers blocked again and again.
func TestAFloodOfOffendersPushesOutItself(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	s := newTestSession(t, engine.Config{MaxBytes: 2 << 20, Shards: 1, Evict: true})
	p := engine.Penalty{After: 1, Within: 60 * minute, Block: 24 * 60 * minute, Factor: 2, Max: 30 * 24 * 60 * minute}
	now := int64(start)
	var worst []engine.Check
	for i := range 20 {
		worst = append(worst, of(t, s, fmt.Sprintf("@p:a;worst=%d", i), perMinute(algo.Fixed, 1), penalized(p)))
	}
	for range 2 {
		for _, c := range worst {
			check(t, s, now, c)
			v, _ := check(t, s, now, c)
			require.True(t, v.Penalty)
		}
		now += p.Block + 60*minute
	}
	now -= p.Block
	for i := range 40_000 {
		c := of(t, s, fmt.Sprintf("@p:a;k=%d", i), algo.Limit{Algorithm: algo.Fixed, Limit: 1, Period: 60 * minute}, penalized(p))
		check(t, s, now+int64(i), c)
		check(t, s, now+int64(i), c)
	}
	require.NotZero(t, s.Engine().OffendersEvicted())
	const record = 72 // bytes, about
	require.InDelta(t, 2<<20/4/record, s.Engine().Offenders(), 2000)
	for i := range worst {
		v, _ := check(t, s, now+minute, worst[i])
		require.True(t, v.Penalty, i)
	}
	now += 2 * 60 * minute // the flood's counters are over, its blocks are not
	for _, left := range []int{4, 3} {
		for i := range 3000 {
			_, out := check(t, s, now, of(t, s, fmt.Sprintf("@q:honest=%d", i), algo.Limit{Algorithm: algo.Fixed, Limit: 5, Period: 24 * 60 * minute}))
			require.EqualValues(t, left, out[0].Remaining, "its counter is still there")
		}
	}
}

func TestPenaltiesAllocateNothing(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	p := login
	p.After = 1 << 20
	c := []engine.Check{of(t, s, "@p:a", perMinute(algo.Fixed, 1<<30), penalized(p)), of(t, s, "@p:b", perMinute(algo.Fixed, 1), penalized(p))}
	out := make([]engine.Checked, 2)
	f := func(what string, checks []engine.Check, want bool) {
		t.Helper()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			v, err := s.Check(start, checks, engine.CheckOptions{}, out)
			if err != nil || v.OK != want {
				t.Error(v, err)
			}
		}), what)
	}
	check(t, s, start, c...)
	f("passes", c[:1], true)
	f("strikes", c, false)
	q := login
	c[1].Penalty = &q
	check(t, s, start, c...)
	f("blocked", c, false)
}
