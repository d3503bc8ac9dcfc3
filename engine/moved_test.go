package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// A hold's record sometimes makes the segment of its counter split: the counter is
// charged all the same.
func TestAHoldBesideItsCounter(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	c := of(t, s, "@p:a", perMinute(algo.Token, 10_000))
	for n := range int64(1000) {
		reserve(t, s, start, fmt.Sprint("hold", n), nil, c)
		require.Equal(t, 10_000-n-1, remaining(t, s, start, c), "holds: %d", n+1)
	}
}

// A settlement that deletes a counter moves the slots of others, in a segment as full as
// possible. It still charges the moved ones.
func TestASettlementThatMovesItsCounters(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	for n := range 200 {
		check(t, s, start, of(t, s, fmt.Sprint("@p:other;n=", n), perMinute(algo.Token, 10)))
	}
	for n := range 500 {
		gone, more := of(t, s, fmt.Sprint("@p:gone;n=", n), perMinute(algo.Token, 10)), of(t, s, fmt.Sprint("@p:more;n=", n), perMinute(algo.Token, 10))
		reserve(t, s, start, "hold", nil, gone, more)
		settle(t, s, start, "hold", cost(0, 3))
		require.EqualValues(t, 10, remaining(t, s, start, gone))
		require.EqualValues(t, 7, remaining(t, s, start, more), "%d", n)
		_, err := s.Delete(start, more.Key)
		require.NoError(t, err)
		hash := holdHash(s, "hold")
		sh := s.Engine().Table().At(hash)
		sh.Lock()
		hold, found := sh.Find(hash, []byte("hold"))
		require.True(t, found)
		sh.Delete(hold)
		sh.Unlock()
	}
}
