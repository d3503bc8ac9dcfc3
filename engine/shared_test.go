package engine_test

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// process is a set of engines with one memory bound.
type process struct {
	t        *testing.T
	engines  []*engine.Engine
	sessions []*engine.Session
	made     []int // keys, by engine
	most     int64 // highest sum of bytes
}

func newProcess(t *testing.T, c engine.Config, n int) *process {
	p := &process{t: t, engines: engine.NewEngines(c, n), made: make([]int, n)}
	for _, e := range p.engines {
		p.sessions = append(p.sessions, e.NewSession())
	}
	return p
}

// bytes is the memory of all engines.
func (p *process) bytes() (sum int64) {
	for _, e := range p.engines {
		sum += e.Stats().Bytes
	}
	require.Equal(p.t, sum, p.engines[0].PoolBytes())
	return sum
}

// flood makes n new keys of an engine, each of which has used a part of its limit.
func (p *process) flood(at, n int, used int64) {
	for range n {
		p.made[at]++
		_, err := p.sessions[at].Decide(start, fmt.Append(nil, "key:", at, ":", p.made[at]), perMinute(algo.Token, 100), used, &algo.Options{})
		require.NoError(p.t, err)
		if p.made[at]%500 == 0 {
			p.sweep()
		}
	}
}

// sweep visits a shard of each engine, as Run does a few times per second.
func (p *process) sweep() {
	p.most = max(p.most, p.engines[0].PoolBytes())
	for _, e := range p.engines {
		at := rand.Intn(e.Table().Shards())
		for cursor := e.Table().Sweep(at, 0, start); cursor != 0; {
			cursor = e.Table().Sweep(at, cursor, start)
		}
	}
}

// known returns how many of the first n keys of an engine are there.
func (p *process) known(at, n int) (found int) {
	for i := 1; i <= n; i++ {
		if ok, err := p.sessions[at].Exists(start, fmt.Append(nil, "key:", at, ":", i)); err == nil && ok {
			found++
		}
	}
	return found
}

// TestEnginesHaveOneBound: the engines of a process stay within maxmemory together, however
// unequal their load is. A group that needs little gets all of it.
func TestEnginesHaveOneBound(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const bound, groups = 12 << 20, 12
	p := newProcess(t, engine.Config{MaxBytes: bound, Evict: true}, groups)
	zipf := rand.NewZipf(rand.New(rand.NewSource(1)), 1.5, 1, groups-1)
	for range 4000 {
		p.flood(int(zipf.Uint64()), 100, 1)
	}
	require.LessOrEqual(t, p.most, int64(bound+bound/100))
	require.Greater(t, p.bytes(), int64(bound*95/100))
	for i, e := range p.engines {
		t.Logf("group %d: %d made, %d known, %d bytes", i, p.made[i], e.Stats().Keys, e.Stats().Bytes)
		if e.Stats().Bytes < bound/groups*9/10 {
			require.Equal(t, p.made[i], e.Stats().Keys, "group %d is below its part", i)
		}
	}
}

// TestAHotGroupGetsTheRoom: the room that the other groups do not need.
func TestAHotGroupGetsTheRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const bound, groups, idle = 16 << 20, 12, 200
	p := newProcess(t, engine.Config{MaxBytes: bound, Evict: true}, groups)
	others := int64(0)
	for i := 1; i < groups; i++ {
		p.flood(i, idle, 10)
		others += p.engines[i].Stats().Bytes
	}
	p.flood(0, 330_000, 1)
	require.LessOrEqual(t, p.most, int64(bound+bound/100))
	require.Greater(t, p.engines[0].Stats().Bytes, (bound-others)*96/100)
	for i := 1; i < groups; i++ {
		require.Equal(t, idle, p.known(i, idle), "an idle group keeps what it has")
	}
}

// TestALateGroupGetsItsPart: of a memory that is full. The other groups give up keys that
// have recovered, and no used ones.
func TestALateGroupGetsItsPart(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const bound, groups = 16 << 20, 4
	p := newProcess(t, engine.Config{MaxBytes: bound, Evict: true}, groups)
	p.flood(0, 30_000, 90)
	p.flood(1, 130_000, 1)
	for p.engines[1].Stats().Evicted == 0 {
		p.flood(1, 1000, 1)
	}
	p.flood(2, 100_000, 10)
	require.Greater(t, p.engines[2].Stats().Bytes, int64(bound/groups*9/10))
	require.Equal(t, 30_000, p.known(0, 30_000))
	require.LessOrEqual(t, p.most, int64(bound+bound/100))

	// A group of used keys beyond its part keeps them too.
	p = newProcess(t, engine.Config{MaxBytes: bound, Evict: true}, groups)
	p.flood(0, 150_000, 90)
	require.Greater(t, p.engines[0].Stats().Bytes, int64(bound/2))
	for i := 1; i < groups; i++ {
		p.flood(i, 60_000, 1)
	}
	require.Equal(t, 150_000, p.known(0, 150_000))
	require.LessOrEqual(t, p.most, int64(bound+bound/100))
}

// TestSetMemoryOfAnyEngine: is for all engines, also for those that decide later.
func TestSetMemoryOfAnyEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const groups = 4
	p := newProcess(t, engine.Config{Shards: 16}, groups)
	for i := range p.engines {
		p.flood(i, 50_000, 1)
	}
	full := p.bytes()
	require.Greater(t, full, int64(groups*50_000*50))
	p.engines[2].SetMemory(full/2, true)
	for range 10_000 {
		p.sweep()
	}
	require.LessOrEqual(t, p.bytes(), full/2)
	p.engines[0].SetMemory(0, false)
	for i := range p.engines {
		p.flood(i, 50_000, 1)
	}
	require.Greater(t, p.bytes(), full)
}

// TestFollowersCountForTheBound: a table that follows evicts nothing, and its bytes are
// missing for those that lead. These keep their parts.
func TestFollowersCountForTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const bound = 8 << 20
	p := newProcess(t, engine.Config{MaxBytes: bound, Evict: true}, 2)
	leader, follower := replicated(t, p.engines[0]), replicated(t, p.engines[1])
	leader.r.Lead(start)
	flood := func(at int, n *node) {
		p.flood(at, 2000, 1)
		_, _ = n.r.Cut(1 << 20)
		n.l.Commit()
	}
	for range 40 {
		flood(0, leader)
	}
	require.Equal(t, 80_000, leader.e.Stats().Keys)
	follower.r.Lead(start)
	for range 100 {
		flood(1, follower)
	}
	require.LessOrEqual(t, p.most, int64(bound+bound/100))
	_, _ = follower.r.Cut(1 << 20)
	follower.l.Commit()
	follower.r.Depose()
	kept := follower.e.Stats().Keys
	follower.e.SetMemory(bound/2, true)
	for range 5000 {
		p.sweep()
	}
	require.Equal(t, kept, follower.e.Stats().Keys, "it is sealed")
	_, _ = leader.r.Cut(1 << 20)
	leader.l.Commit()
	require.InDelta(t, bound/4, leader.e.Stats().Bytes, bound/16, "the leader makes room for it")
	follower.r.Lead(start)
	for range 10_000 {
		p.sweep()
	}
	require.LessOrEqual(t, p.engines[0].PoolBytes(), int64(bound/2)+bound/100)
}

// TestOneRunServesAllEngines: expired keys of all engines go.
func TestOneRunServesAllEngines(t *testing.T) {
	engines := engine.NewEngines(engine.Config{}, 3)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { engines[0].Run(ctx) })
	defer wg.Wait()
	defer stop()
	for i, e := range engines {
		s := e.NewSession()
		_, err := s.Set(e.Now(), []byte("key"), []byte("v"), &engine.SetOptions{Deadline: e.Now() + int64(time.Millisecond)})
		require.NoError(t, err)
		s.Close()
		require.Eventually(t, func() bool { return e.Len() == 0 }, 10*time.Second, time.Millisecond, "engine %d", i)
	}
}

// TestManySmallTablesAreCold: it is their sum that the caches must hold.
func TestManySmallTablesAreCold(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	p := newProcess(t, engine.Config{Shards: 16}, 12)
	require.False(t, p.sessions[0].Cold())
	for i := 1; i < 12; i++ {
		p.flood(i, 10_000, 1)
		require.Less(t, p.engines[i].Stats().Bytes, int64(2<<20))
	}
	require.True(t, p.sessions[0].Cold())
}

// TestEnginesRankTogether: RL.TOP has the keys of all engines.
func TestEnginesRankTogether(t *testing.T) {
	p := newProcess(t, engine.Config{}, 3)
	require.Equal(t, p.engines[0].Seed(), p.engines[2].Seed())
	for i, s := range p.sessions {
		for range i + 1 {
			_, err := s.Decide(start, fmt.Append(nil, "key", i), perMinute(algo.Token, 100), 1, &algo.Options{})
			require.NoError(t, err)
		}
	}
	for _, e := range p.engines {
		require.Len(t, e.Top(engine.TopHot, 10), 3)
		require.Equal(t, "key2", string(e.Top(engine.TopHot, 10)[0].Key))
	}
}
