package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// keysOf returns how many keys a scan of the session's database passes.
func keysOf(t *testing.T, s *engine.Session) (n int) {
	t.Helper()
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var err error
		cursor, err = s.Scan(start, cursor, 10, func([]byte, algo.Algorithm) { n++ })
		require.NoError(t, err)
	}
	return n
}

func TestDatabasesAreApart(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	for db := range uint8(algo.Databases) {
		s.Use(db)
		require.Equal(t, "(none)", text(t, s, "k"))
		set(t, s, "k", fmt.Sprint("in ", db))
		d := decide(t, s, start, "limit", perMinute(algo.Token, 5), 1+int64(db%2), algo.Options{})
		require.Equal(t, 4-int64(db%2), d.Remaining)
	}
	for db := range uint8(algo.Databases) {
		s.Use(db)
		require.Equal(t, fmt.Sprint("in ", db), text(t, s, "k"))
		require.Equal(t, 2, s.Engine().DatabaseLen(db))
		require.Equal(t, 2, keysOf(t, s))
		key, ok, err := s.Random(start, rand.Uint64)
		require.NoError(t, err)
		require.True(t, ok)
		require.Contains(t, []string{"k", "limit"}, string(key))
	}
	s.Use(3)
	_, err := s.Delete(start, []byte("k"))
	require.NoError(t, err)
	require.Equal(t, 1, s.Engine().DatabaseLen(3))
	require.Equal(t, 2*algo.Databases-1, s.Engine().Len())
}

// A scan looks at keys of other databases without passing them, and its calls stay short.
func TestAScanOfASmallDatabaseEnds(t *testing.T) {
	s := engine.New(engine.Config{Shards: 4}).NewSession()
	for i := range 20_000 {
		set(t, s, fmt.Sprint("key:", i), "v")
	}
	s.Use(1)
	for i := range 50 {
		set(t, s, fmt.Sprint("key:", i), "v")
	}
	require.Equal(t, 50, keysOf(t, s))
	most := 0
	s.Engine().Table().ScanIf(0, 10, false, func(shard.Entry) bool { most++; return false })
	require.Less(t, most, 2000)
	for range 20 {
		key, ok, err := s.Random(start, rand.Uint64)
		require.NoError(t, err)
		require.True(t, ok)
		n := 0
		_, err = fmt.Sscanf(string(key), "key:%d", &n)
		require.NoError(t, err)
		require.Less(t, n, 50)
	}
}

func TestFlushDatabaseLeavesTheOthers(t *testing.T) {
	leader, follower := newNode(t, engine.Config{}), newNode(t, engine.Config{})
	leader.r.Lead(start)
	fill := func(db uint8) {
		leader.s.Use(db)
		for i := range 3000 {
			set(t, leader.s, fmt.Sprint("key:", i), string(bytes.Repeat([]byte("v"), i%300)))
		}
	}
	replicate := func() {
		if parts := leader.cut(); parts != nil {
			require.NoError(t, follower.r.Apply(parts, start))
			leader.l.Commit()
		}
		require.Equal(t, leader.table(start), follower.table(start))
	}
	fill(0)
	fill(1)
	replicate()
	require.NoError(t, leader.s.FlushDatabase())
	require.Equal(t, 0, leader.e.DatabaseLen(1))
	require.Equal(t, 3000, leader.e.DatabaseLen(0))
	replicate()
	require.Equal(t, 3000, follower.e.DatabaseLen(0))
	require.Equal(t, 0, follower.e.DatabaseLen(1))

	// The only database in use goes in one record.
	leader.s.Use(0)
	require.NoError(t, leader.s.FlushDatabase())
	require.Zero(t, leader.e.Len())
	parts, _ := leader.r.Cut(1 << 20)
	require.Len(t, parts, 1)
	require.Len(t, parts[0], 2)
	require.NoError(t, follower.r.Apply(parts, start))
	require.Zero(t, follower.e.Len())
	require.Zero(t, follower.e.DatabaseLen(0))
}

// A flush that is taken back brings the counts of the databases back.
func TestDatabasesAreCountedThroughAFlush(t *testing.T) {
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	n.s.Use(2)
	for i := range 100 {
		set(t, n.s, fmt.Sprint(i), "v")
	}
	n.cut()
	n.l.Commit()
	require.NoError(t, n.s.Flush())
	require.Zero(t, n.e.DatabaseLen(2))
	set(t, n.s, "after", "v")
	require.Equal(t, 1, n.e.DatabaseLen(2))
	n.depose()
	require.Equal(t, 100, n.e.DatabaseLen(2))
	require.Equal(t, 100, n.e.Len())
}

func TestLocalSharesKnowDatabases(t *testing.T) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	limit := perMinute(algo.Token, 10)
	s.Use(1)
	decide(t, s, start, "k", limit, 10, algo.Options{})
	l := engine.NewLocal(e)
	l.Begin(1, 0)
	out := make([]algo.Decision, 1)
	for db, allowed := range []bool{true, false} {
		limit.DB = uint8(db)
		_, err := l.Decide(start, []engine.Segment{{[]byte("k"), limit, 1}}, &algo.Options{}, out)
		require.NoError(t, err)
		require.Equal(t, allowed, out[0].OK, "database %d", db)
	}
	limit.DB = 2
	_, err := l.Decide(start, []engine.Segment{{[]byte("k"), limit, 4}}, &algo.Options{}, out)
	require.NoError(t, err)
	s.Use(5)
	_, err = s.ChargeOnce(start, "n1", 1, l.Take(10))
	require.NoError(t, err)
	require.EqualValues(t, 5, s.Database())
	for db, left := range map[uint8]int64{0: 9, 1: 0, 2: 6, 5: 10} {
		s.Use(db)
		require.Equal(t, left, decide(t, s, start, "k", limit, 0, algo.Options{}).Remaining, "database %d", db)
	}
}
