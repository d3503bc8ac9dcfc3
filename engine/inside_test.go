package engine

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/shard"
)

// The rig of white-box tests, and those of them that have no file of their own. All
// others are black-box.

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = int64(1_800_000_000) * second / minute * minute
)

func newTestSession(t *testing.T, c Config) *Session {
	t.Helper()
	s := New(c).NewSession()
	t.Cleanup(s.Close)
	return s
}

func decide(t *testing.T, s *Session, now int64, key string, l algo.Limit, cost int64, o algo.Options) algo.Decision {
	t.Helper()
	d, err := s.Decide(now, []byte(key), l, cost, &o)
	require.NoError(t, err)
	return d
}

// node is an engine with its replica.
type node struct {
	e *Engine
	l *ledger.Ledger
	r *Replica
	s *Session
}

func newNode(t testing.TB, c Config) *node {
	n := &node{e: New(c), l: ledger.New(ledger.Hooks{})}
	n.r = n.e.Replicate(n.l)
	n.s = n.e.NewSession()
	t.Cleanup(n.s.Close)
	return n
}

// A table has fewer shards where little memory is allowed, or for one of several groups.
func TestShardsOfSmallBounds(t *testing.T) {
	require.Equal(t, 256, (&Config{MaxBytes: 64 << 20}).shards(1))
	require.Equal(t, 256, (&Config{}).shards(1))
	require.Equal(t, 16, (&Config{Shards: 16}).shards(1))
	require.Equal(t, 4, (&Config{Shards: 100, MaxBytes: 1 << 20}).shards(1))
	require.Equal(t, 1, (&Config{MaxBytes: 1}).shards(1))
	require.Equal(t, 32, (&Config{}).shards(12))
	require.Equal(t, 32, (&Config{Shards: 256}).shards(12))
	require.Equal(t, 256, (&Config{}).shards(2))
	require.Equal(t, 8, (&Config{Shards: 8}).shards(12))
	require.Equal(t, 4096, (&Config{Shards: 1 << 16}).shards(2))
	require.Equal(t, 1<<16, (&Config{Shards: 1 << 16}).shards(1))
	require.Equal(t, 16, (&Config{}).shards(1024))
	require.Equal(t, 4, (&Config{MaxBytes: 16 << 20}).shards(12))
}

// Several engines have as many limits together as one, but each has a few.
func TestEnginesDivideTheirLimits(t *testing.T) {
	engines := NewEngines(Config{}, 4)
	require.Equal(t, maxInterned/4, engines[3].limits.bound)
	engines[0].SetMemory(64<<20, true)
	require.Equal(t, 64<<20/2/internedBytes/4, engines[3].limits.bound)
	engines[0].SetMemory(1<<20, true)
	require.Equal(t, minInterned, engines[3].limits.bound)
}

func TestTheLargestEffectFitsAChunk(t *testing.T) {
	limits := newInterner()
	it, err := limits.acquire(algo.Limit{Algorithm: algo.Log, Limit: 5, Period: minute})
	require.NoError(t, err)
	enc := effects.NewEncoder(limits, effects.FirstFormats, 1<<10, 0)
	im := shard.Image{Key: make([]byte, shard.MaxKeyLen), Meta: it.id, Deadline: math.MinInt64, State: bytes.Repeat([]byte{0xff}, 8*textWords(MaxValueLen))}
	enc.Put(im)
	parts := enc.Finish()
	require.Len(t, parts, 1)
	require.Less(t, len(parts[0]), snapshotMost)
}

func TestSnapshotWhileRestoring(t *testing.T) {
	n := newNode(t, Config{Shards: 4})
	n.r.Lead(start)
	for i := range 40 {
		decide(t, n.s, start, fmt.Sprint("k", i), algo.Limit{Algorithm: algo.Fixed, Limit: 100, Period: minute}, 1, algo.Options{})
	}
	_, ok := n.r.Cut(512)
	require.True(t, ok)
	n.l.Commit()
	n.r.Depose()
	n.l.Depose()
	var installed bytes.Buffer
	require.NoError(t, n.r.Snapshot().Persist(&installed))

	own := n.r.Snapshot()
	const held = 2
	n.e.table.Shard(held).Lock()
	persisted := make(chan error)
	go func() { persisted <- own.Persist(io.Discard) }()
	restored := make(chan error)
	go func() { restored <- n.r.Restore(&installed, start) }()
	require.Eventually(t, func() bool { return n.r.epoch.Load() == 1 }, 10*time.Second, time.Millisecond)
	n.e.table.Shard(held).Unlock()
	require.ErrorIs(t, <-persisted, errRestored)
	require.NoError(t, <-restored)
	require.NoError(t, n.r.Snapshot().Persist(io.Discard))
}

func TestTopRanksOffenders(t *testing.T) {
	e := New(Config{TopK: 4})
	s := e.NewSession()
	l := algo.Limit{Limit: 1, Period: minute}
	for i := range 60 {
		decide(t, s, start, "bad", l, 1, algo.Options{})
		if i%2 == 0 {
			decide(t, s, start, "worse-than-most", l, 1, algo.Options{})
		}
		decide(t, s, start, fmt.Sprint("good", i), l, 1, algo.Options{})
	}
	top := e.Top(TopDenied, 2)
	require.Len(t, top, 2)
	require.Equal(t, "bad", string(top[0].Key))
	require.Equal(t, uint64(59), top[0].Count)
	require.Equal(t, "worse-than-most", string(top[1].Key))
	e.shared.tops.decay()
	require.Equal(t, uint64(29), e.Top(TopDenied, 1)[0].Count)
	e.ResetTop()
	require.Empty(t, e.Top(TopHot, 10))
}

// The remembered charges are bounded: beyond that a key is not decided, unless it already
// has a charge.
func TestLocalRemembersABoundedNumberOfKeys(t *testing.T) {
	l := algo.Limit{Algorithm: algo.Token, Limit: 30, Period: minute}
	local, out := NewLocal(newNode(t, Config{}).e), make([]algo.Decision, 1)
	local.Begin(3, 0)
	decideOn := func(key string) error {
		_, err := local.Decide(start, []Segment{{[]byte(key), l, 1}}, &algo.Options{}, out)
		return err
	}
	local.order = make([]*spending, localKeys-1)
	require.NoError(t, decideOn("k"))
	require.ErrorIs(t, decideOn("other"), ErrNotLocal)
	require.NoError(t, decideOn("k"))
}

// A counter that an edit has voided keeps no window.
func TestSharesOfAnEditBeginTheirOwnWindow(t *testing.T) {
	s := New(Config{}).NewSession()
	monthly := func(end int64, resets uint16) Check {
		r, err := s.e.Ready(algo.Limit{Algorithm: algo.PolicyCalendar, Limit: 30, Resets: resets})
		require.NoError(t, err)
		return Check{Key: []byte("@p:m"), Hash: s.e.table.Hash([]byte("@p:m")), Limit: r, Cost: 1, Window: &algo.Window{End: end, Next: end + 30*minute}}
	}
	_, err := s.Check(start, []Check{monthly(start+10*minute, 0)}, CheckOptions{}, make([]Checked, 1))
	require.NoError(t, err)
	c := monthly(start+7*minute, 1)
	require.Equal(t, c.Window, s.e.windowOf(start, &c))
	c = monthly(start+7*minute, 0)
	require.Equal(t, &algo.Window{End: start + 10*minute, Next: start + 37*minute}, s.e.windowOf(start, &c))
	require.Equal(t, c.Window, s.e.windowOf(start+10*minute, &c))
	c.Window = nil
	require.Equal(t, &algo.Window{End: start + 10*minute}, s.e.windowOf(start, &c))
}

func TestCollectingAtOnceForgetsALimitOnce(t *testing.T) {
	e := New(Config{})
	s := e.NewSession()
	defer s.Close()
	for round := range int64(20) {
		for i := range int64(5000) {
			decide(t, s, start, "k", algo.Limit{Limit: 1 + 5000*round + i, Period: minute}, 0, algo.Options{})
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(e.collectLimits)
		}
		wg.Wait()
	}
	ids := make(map[uint32]bool)
	for _, id := range e.limits.free {
		require.False(t, ids[id], "id %d is free twice", id)
		ids[id] = true
	}
	for _, it := range e.limits.byLimit {
		require.False(t, ids[it.id], "id %d is free and in use", it.id)
	}
}
