package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// Integers without a time to live are found, in every database, and nothing else.
func TestEndlessCounters(t *testing.T) {
	e := engine.New(engine.Config{Shards: 4})
	s := e.NewSession()
	now := e.Now()
	incr := func(key string, n int64) {
		_, err := s.Incr(now, []byte(key), n)
		require.NoError(t, err)
	}
	incr("endless", 41)
	s.Use(3)
	incr("other", 1)
	s.Use(0)
	incr("ends", 1)
	_, err := s.Expire(now, []byte("ends"), now+int64(1e12), 0)
	require.NoError(t, err)
	_, err = s.Set(now, []byte("text"), []byte("x"), &engine.SetOptions{})
	require.NoError(t, err)
	_, err = s.Decide(now, []byte("limit"), algo.Limit{Algorithm: algo.Token, Limit: 5, Period: 1e9}, 1, &algo.Options{})
	require.NoError(t, err)

	found := e.EndlessCounters(1000, 10)
	require.Equal(t, 5, found.Keys)
	require.Equal(t, 3, found.Counters)
	require.Equal(t, 2, found.Found)
	require.ElementsMatch(t, []engine.EndlessCounter{{0, []byte("endless"), 41}, {3, []byte("other"), 1}}, found.Sample)
	require.Len(t, e.EndlessCounters(1000, 1).Sample, 1)
}

// A large table is looked at in parts, until all of it was seen.
func TestEndlessCountersGoOn(t *testing.T) {
	const keys, look = 20_000, 2000
	e := engine.New(engine.Config{Shards: 16})
	s := e.NewSession()
	for i := range keys {
		_, err := s.Incr(e.Now(), fmt.Appendf(nil, "key:%d", i), 1)
		require.NoError(t, err)
	}
	seen := make(map[string]bool)
	for range 2 * keys / look {
		found := e.EndlessCounters(look, keys)
		require.GreaterOrEqual(t, found.Keys, look)
		require.Less(t, found.Keys, 2*look)
		for _, k := range found.Sample {
			seen[string(k.Key)] = true
		}
	}
	require.Len(t, seen, keys)
}
