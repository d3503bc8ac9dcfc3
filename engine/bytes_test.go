package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// The cost of a key of the data types, with its share of segments and chunks. 6250 keys a
// shard are a table of 1.6 million with 256 shards.
func TestBytesPerKeyOfDataTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector changes: make main runs it")
	}
	const n = 100_000
	perKey := func(name string, most float64, fill func(s *engine.Session, key []byte)) {
		e := engine.New(engine.Config{Shards: 16})
		s := e.NewSession()
		defer s.Close()
		for i := range n {
			fill(s, fmt.Appendf(nil, "key:%012d", i))
		}
		got := float64(e.Stats().Bytes) / n
		t.Logf("%s: %.1f bytes", name, got)
		require.LessOrEqual(t, got, most, name)
	}
	perKey("counter with a TTL", 64, func(s *engine.Session, key []byte) {
		_, err := s.Incr(start, key, 1)
		require.NoError(t, err)
		set, err := s.Expire(start, key, start+minute, 0)
		require.NoError(t, err)
		require.True(t, set)
	})
	perKey("token bucket in a hash of two fields", 110, func(s *engine.Session, key []byte) {
		v, err := s.Open(start, key, algo.Hash)
		require.NoError(t, err)
		h := packed.NewHash(v)
		_, err = h.Set([]byte("tokens"), []byte("9.5"))
		require.NoError(t, err)
		_, err = h.Set([]byte("last_refill"), []byte("1700000000.123"))
		require.NoError(t, err)
		v.SetDeadline(start + minute)
		v.Close()
	})
	perKey("string of 17 bytes", 80, func(s *engine.Session, key []byte) {
		_, err := s.Set(start, key, []byte("280123456.1234567"), &engine.SetOptions{Deadline: start + minute})
		require.NoError(t, err)
	})
}
