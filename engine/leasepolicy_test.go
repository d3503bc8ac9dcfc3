package engine_test

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// lentPolicy is a policy of limits under keys of their own.
type lentPolicy struct {
	t      *testing.T
	s      *engine.Session
	limits []algo.Limit
	modes  []algo.Mode
	keys   []string
	out    []engine.Checked
}

func newLentPolicy(t *testing.T, c engine.Config, limits ...algo.Limit) *lentPolicy {
	p := &lentPolicy{t: t, s: newTestSession(t, c), limits: limits, modes: make([]algo.Mode, len(limits)), out: make([]engine.Checked, len(limits))}
	for i := range limits {
		p.limits[i].Algorithm = limits[i].Algorithm.OfPolicy()
		p.keys = append(p.keys, "@p:"+string(rune('a'+i)))
	}
	return p
}

// checks are those of a call of a cost.
func (p *lentPolicy) checks(cost int64) []engine.Check {
	var all []engine.Check
	for i, l := range p.limits {
		r, err := p.s.Ready(l)
		require.NoError(p.t, err)
		all = append(all, engine.Check{Key: []byte(p.keys[i]), Hash: hashOf(p.s, p.keys[i]), Limit: r, Cost: cost, Mode: p.modes[i]})
	}
	return all
}

func (p *lentPolicy) try(now int64, id string, q algo.Request) (engine.Verdict, engine.Leased, error) {
	if q.TTL == 0 {
		q.TTL = 10 * second
	}
	return p.s.Leases().TakeAll(now, &engine.PolicyLease{Policy: "p", ID: []byte(id), Request: q, Whole: true}, p.checks(q.Need), engine.CheckOptions{}, p.out)
}

func (p *lentPolicy) lend(now int64, id string, q algo.Request) (engine.Verdict, engine.Leased) {
	p.t.Helper()
	v, a, err := p.try(now, id, q)
	require.NoError(p.t, err)
	return v, a
}

func (p *lentPolicy) giveBack(now int64, id string, seq uint64, held int64) int64 {
	p.t.Helper()
	units, err := p.s.Leases().ReturnAll(now, "p", []byte(id), seq, held, p.checks(0))
	require.NoError(p.t, err)
	return units
}

// left is what plain callers find of each limit.
func (p *lentPolicy) left(now int64) (all []int64) {
	p.t.Helper()
	_, err := p.s.Check(now, p.checks(0), engine.CheckOptions{Peek: true}, p.out)
	require.NoError(p.t, err)
	for i := range p.out {
		all = append(all, p.out[i].Remaining)
	}
	return all
}

func (p *lentPolicy) outOf(now int64) (all []int64) {
	p.t.Helper()
	for _, key := range p.keys {
		units, _, err := p.s.Leases().OutOf(now, []byte(key), hashOf(p.s, key))
		require.NoError(p.t, err)
		all = append(all, units)
	}
	return all
}

// A lease of a policy is the least that all limits can give, charged to each.
func TestALeaseOfAPolicyIsOfAllLimits(t *testing.T) {
	for _, a := range leasable {
		for _, b := range leasable {
			p := newLentPolicy(t, engine.Config{}, perMinute(a, 1000), perMinute(b, 100))
			v, got := p.lend(start, "a", algo.Request{Seq: 1, Want: 1000, Need: 2})
			require.True(t, v.OK)
			require.EqualValues(t, 27, got.Granted, "a quarter of the smaller limit, and what it needs")
			require.EqualValues(t, []int64{973, 73}, p.left(start))
			require.EqualValues(t, []int64{25, 25}, p.outOf(start))
			require.EqualValues(t, 10*second, got.TTL)
			_, again := p.lend(start, "a", algo.Request{Seq: 2, Want: 25, Held: 5})
			require.EqualValues(t, 20, again.Granted)
			require.EqualValues(t, []int64{953, 53}, p.left(start))
			require.EqualValues(t, 4, p.giveBack(start, "a", 3, 4))
			require.EqualValues(t, []int64{957, 57}, p.left(start))
			require.EqualValues(t, []int64{0, 0}, p.outOf(start))
			require.Zero(t, p.giveBack(start, "a", 4, 4))
			require.EqualValues(t, []int64{957, 57}, p.left(start))
		}
	}
}

func hashOf(s *engine.Session, key string) uint64 {
	return maphash.Bytes(s.Engine().Seed(), []byte(key))
}

// A shadow or soft limit does not make a lease smaller. It is charged what it has.
func TestAShadowLimitDoesNotBindALease(t *testing.T) {
	for _, mode := range []algo.Mode{algo.Shadow, algo.Soft} {
		p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 1000), perMinute(algo.Fixed, 10))
		p.modes[1] = mode
		_, got := p.lend(start, "a", algo.Request{Seq: 1, Want: 100})
		require.EqualValues(t, 100, got.Granted)
		require.EqualValues(t, []int64{900, 0}, p.left(start))
		require.EqualValues(t, []int64{100, 10}, p.outOf(start))
		_, got = p.lend(start, "a", algo.Request{Seq: 2, Want: 100, Held: 95})
		require.EqualValues(t, 5, got.Granted)
		require.EqualValues(t, []int64{895, 0}, p.left(start), "5 of 10 are spent, and 5 more are charged")
		require.EqualValues(t, 100, p.giveBack(start, "a", 3, 100))
		require.EqualValues(t, []int64{995, 5}, p.left(start))
		p.modes[0] = mode
		_, got = p.lend(start, "b", algo.Request{Seq: 1, Want: 100, Need: 1})
		require.EqualValues(t, []int64{1, 0}, []int64{got.Granted, got.TTL}, "no limit is enforced")
	}
}

func TestWhatCannotBeLeasedOfAPolicy(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.Leaky, algo.Log} {
		p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 100), perMinute(a, 2))
		for i := range uint64(2) {
			v, got := p.lend(start, "a", algo.Request{Seq: i + 1, Want: 50, Need: 1})
			require.True(t, v.OK)
			require.EqualValues(t, []int64{1, 0}, []int64{got.Granted, got.TTL})
		}
		require.EqualValues(t, []int64{0, 0}, p.outOf(start))
	}
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 100), perMinute(algo.Token, 0))
	v, got := p.lend(start, "a", algo.Request{Seq: 1, Want: 50, Need: 1})
	require.False(t, v.OK)
	require.Zero(t, got.Granted)
	for _, q := range []algo.Request{{Want: -1}, {Held: -1}, {Need: -1}, {TTL: algo.MinLease - 1}, {TTL: algo.MaxLease + 1}} {
		_, _, err := p.try(start, "a", q)
		require.ErrorIs(t, err, engine.ErrLeaseBounds)
	}
	for _, id := range []string{"", string(make([]byte, engine.MaxLeaseID+1))} {
		_, _, err := p.try(start, id, algo.Request{Seq: 1})
		require.ErrorIs(t, err, engine.ErrLeaseID)
		_, err = p.s.Leases().ReturnAll(start, "p", []byte(id), 1, 0, p.checks(0))
		require.ErrorIs(t, err, engine.ErrLeaseID)
	}
	_, err := p.s.Leases().ReturnAll(start, "p", []byte("a"), 1, -1, p.checks(0))
	require.ErrorIs(t, err, engine.ErrLeaseBounds)
	require.Zero(t, p.s.Engine().Len())
}

func TestAnOldSeqOfAPolicyChangesNothing(t *testing.T) {
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 100), perMinute(algo.Sliding, 100))
	p.lend(start, "a", algo.Request{Seq: 7, Want: 10, Need: 1})
	before := p.s.Engine().States(start)
	for _, seq := range []uint64{0, 6, 7} {
		_, _, err := p.try(start, "a", algo.Request{Seq: seq, Want: 20, Held: 10, Need: 1})
		require.ErrorIs(t, err, engine.ErrLeaseSeq)
		_, err = p.s.Leases().ReturnAll(start, "p", []byte("a"), seq, 5, p.checks(0))
		require.ErrorIs(t, err, engine.ErrLeaseSeq)
	}
	require.Equal(t, before, p.s.Engine().States(start))
}

// A denied need charges nothing, and the holder gets what is there.
func TestADeniedNeedOfAPolicy(t *testing.T) {
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 100), perMinute(algo.Token, 20))
	v, got := p.lend(start, "a", algo.Request{Seq: 1, Want: 4, Need: 30})
	require.False(t, v.OK)
	require.Equal(t, 1, v.Binding)
	require.EqualValues(t, 4, got.Granted)
	require.EqualValues(t, []int64{96, 16}, p.left(start))
}

// A counter that is lost is charged again what the holder has. The others know it.
func TestAnUnknownPartIsChargedAgain(t *testing.T) {
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 100), perMinute(algo.Fixed, 100))
	p.lend(start, "a", algo.Request{Seq: 1, Want: 20})
	require.True(t, is(p.s.Delete(start, []byte(p.keys[1]))))
	require.EqualValues(t, []int64{80, 100}, p.left(start))
	_, got := p.lend(start, "a", algo.Request{Seq: 2, Want: 20, Held: 15})
	require.EqualValues(t, 5, got.Granted)
	require.EqualValues(t, []int64{75, 80}, p.left(start))
	require.EqualValues(t, []int64{20, 20}, p.outOf(start))
	require.EqualValues(t, 20, p.giveBack(start, "a", 3, 20))
	require.EqualValues(t, []int64{95, 100}, p.left(start))
}

// A limit that no longer applies keeps what is out until the deadline. A new one is charged
// what the holder has.
func TestLimitsOfAPolicyComeAndGo(t *testing.T) {
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Fixed, 100), perMinute(algo.Fixed, 100), perMinute(algo.Fixed, 100))
	p.modes[2] = algo.Off
	p.lend(start, "a", algo.Request{Seq: 1, Want: 20})
	p.modes[1], p.modes[2] = algo.Off, algo.Enforce
	p.lend(start, "a", algo.Request{Seq: 2, Want: 20, Held: 20})
	require.EqualValues(t, []int64{20, 20, 20}, p.outOf(start))
	p.modes[1] = algo.Enforce
	require.EqualValues(t, []int64{80, 80, 80}, p.left(start))
	require.EqualValues(t, 20, p.giveBack(start, "a", 3, 20))
	require.EqualValues(t, []int64{100, 80, 100}, p.left(start))
	require.EqualValues(t, []int64{0, 20, 0}, p.outOf(start))
	require.EqualValues(t, []int64{0, 0, 0}, p.outOf(start+10*second))
	require.EqualValues(t, []int64{100, 80, 100}, p.left(start+10*second))
}

// What is out stays counted when a counter begins anew, and under another algorithm that
// can tell.
func TestCountersOfAPolicyThatBeginAnew(t *testing.T) {
	for _, was := range leasable {
		for _, becomes := range []algo.Algorithm{algo.Token, algo.Fixed, algo.Sliding, algo.Leaky} {
			p := newLentPolicy(t, engine.Config{}, perMinute(was, 100), perMinute(algo.Token, 1000))
			p.lend(start, "a", algo.Request{Seq: 1, Want: 20})
			check(t, p.s, start, p.checks(50)...)
			p.limits[0] = perMinute(becomes.OfPolicy(), 100)
			p.limits[0].Resets++
			require.EqualValues(t, []int64{80, 930}, p.left(start), "%v to %v", was, becomes)
			check(t, p.s, start, p.checks(10)...)
			require.EqualValues(t, []int64{70, 920}, p.left(start))
			_, got := p.lend(start, "a", algo.Request{Seq: 2, Want: 20, Held: 10})
			if becomes == algo.Leaky {
				require.Zero(t, got.TTL)
				continue
			}
			require.EqualValues(t, []int64{60, 910}, p.left(start))
			require.EqualValues(t, 20, p.giveBack(start, "a", 3, 20))
			require.EqualValues(t, []int64{80, 930}, p.left(start))
		}
	}
}

// A refund gives back no unit that time has given back while units were out.
func TestARefundOfALeasedBucket(t *testing.T) {
	const share = 1 << 31
	newPolicy := func() *lentPolicy {
		return newLentPolicy(t, engine.Config{LeaseShare: share}, algo.Limit{Limit: 100, Period: 100 * second})
	}
	settled := func(p *lentPolicy, now int64, id string) int64 {
		before := p.left(now)[0]
		settle(t, p.s, now, id, cancelled())
		return p.left(now)[0] - before
	}
	// 50 units are out for 60 s, and 10 are held. After 10 s the bucket is as full as it can
	// be: the hold has refilled.
	p := newPolicy()
	p.lend(start, "a", algo.Request{Seq: 1, Want: 50, TTL: 60 * second})
	reserve(t, p.s, start, "h", nil, p.checks(10)...)
	require.EqualValues(t, []int64{50}, p.left(start+10*second))
	check(t, p.s, start+10*second, p.checks(20)...)
	require.Zero(t, settled(p, start+10*second, "h"))

	// Without a call in between, also after the block has ended.
	p = newPolicy()
	p.lend(start, "a", algo.Request{Seq: 1, Want: 50, TTL: 12 * second})
	reserve(t, p.s, start, "h", nil, p.checks(10)...)
	require.EqualValues(t, []int64{53}, p.left(start+15*second))
	require.Zero(t, settled(p, start+15*second, "h"))

	// What has not refilled goes back.
	p = newPolicy()
	p.lend(start, "a", algo.Request{Seq: 1, Want: 50, TTL: 60 * second})
	reserve(t, p.s, start, "h", nil, p.checks(10)...)
	check(t, p.s, start+4*second, p.checks(5)...)
	require.EqualValues(t, 6, settled(p, start+4*second, "h"))
	require.EqualValues(t, []int64{45}, p.left(start+4*second))

	// A block ends between two holds and their settlements. Each can give back at most 4
	// then: together they have 9 of 10 units.
	p = newPolicy()
	p.lend(start, "a", algo.Request{Seq: 1, Want: 50, TTL: 25 * second})
	for _, id := range []string{"h1", "h2"} {
		reserve(t, p.s, start+24*second, id, nil, p.checks(5)...)
	}
	first := settled(p, start+26*second, "h1")
	check(t, p.s, start+27*second, p.checks(5)...)
	second := settled(p, start+27*1_000_000_000, "h2")
	require.LessOrEqual(t, first+second, int64(9))
	require.Positive(t, first)
}

// A lease that finds no room changes nothing.
func TestALeaseOfAPolicyWithoutRoomChangesNothing(t *testing.T) {
	p := newLentPolicy(t, engine.Config{Shards: 1, MaxBytes: 256 << 10}, perMinute(algo.Token, 100), perMinute(algo.Token, 100))
	p.lend(start, "a", algo.Request{Seq: 1, Want: 5, Need: 1})
	for i := 0; ; i++ {
		if _, err := p.s.Set(start, fmt.Appendf(nil, "%0140d", i), make([]byte, 40), &engine.SetOptions{}); err != nil {
			require.ErrorIs(t, err, engine.ErrFull)
			break
		}
	}
	before := p.s.Engine().States(start + second)
	_, _, err := p.try(start+second, string(bytes.Repeat([]byte("b"), engine.MaxLeaseID)), algo.Request{Seq: 1, Want: 5, Need: 1})
	require.ErrorIs(t, err, engine.ErrFull)
	require.Equal(t, before, p.s.Engine().States(start+second))
}

// Leases of policies survive a failover. A deposed leader takes back what was not committed.
func TestLeasesOfPoliciesReplicate(t *testing.T) {
	leader, follower := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8})
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 100), perMinute(algo.Fixed, 1000))
	leader.r.Lead(start)
	p.s = leader.s
	p.lend(start, "a", algo.Request{Seq: 1, Want: 10, Need: 1})
	reserve(t, p.s, start, "h", nil, p.checks(3)...)
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	require.True(t, leader.l.Commit())
	require.Equal(t, leader.e.Digest(start), follower.e.Digest(start))
	committed := leader.table(start)
	p.lend(start, "a", algo.Request{Seq: 2, Want: 20, Held: 3})
	p.lend(start, "b", algo.Request{Seq: 2, Want: 5})
	leader.cut()
	p.giveBack(start, "b", 3, 5)
	leader.depose()
	require.Equal(t, committed, leader.table(start))
	follower.r.Lead(start)
	p.s = follower.s
	require.EqualValues(t, []int64{86, 986}, p.left(start))
	require.EqualValues(t, 10, p.giveBack(start, "a", 3, 10))
	settle(t, p.s, start, "h", cancelled())
	require.EqualValues(t, []int64{99, 999}, p.left(start))
	_, _, err := func() (engine.Verdict, engine.Leased, error) {
		p.s = leader.s
		return p.try(start, "a", algo.Request{Seq: 9, Want: 1})
	}()
	require.ErrorIs(t, err, engine.ErrSealed)
}

// Who has most comes first. Units that were out at a deadline have lapsed.
func TestHoldersOfLeases(t *testing.T) {
	p := newLentPolicy(t, engine.Config{}, perMinute(algo.Token, 1000))
	p.lend(start, "a", algo.Request{Seq: 1, Want: 10, TTL: second})
	p.lend(start, "b", algo.Request{Seq: 1, Want: 20})
	lend(t, p.s, start, "c", perMinute(algo.Token, 100), algo.Request{Seq: 1, Want: 15})
	top := engine.Holders(p.s.Engine(), start, 2, func(*engine.Holding) bool { return true })
	require.Len(t, top, 2)
	require.Equal(t, engine.Holding{Key: []byte("p"), ID: []byte("b"), Policy: true, Units: 20, Until: start + 10*second}, top[0])
	require.Equal(t, engine.Holding{Key: []byte("k"), ID: []byte("c"), Units: 15, Until: start + 10*second}, top[1])
	require.Len(t, engine.Holders(p.s.Engine(), start, 9, func(h *engine.Holding) bool { return h.Policy }), 2)
	require.Len(t, engine.Holders(p.s.Engine(), start+2*second, 9, func(h *engine.Holding) bool { return h.Policy }), 1)
	require.Zero(t, p.s.Engine().Stats().LeaseLapsed)
	p.lend(start+2*second, "b", algo.Request{Seq: 2, Want: 20, Held: 20})
	require.EqualValues(t, 10, p.s.Engine().Stats().LeaseLapsed)
}
