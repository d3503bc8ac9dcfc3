package reservation_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/reservation"
)

// Each hash is given once, not before its end, and within a second after it. That holds
// for any ends and any jumps of the clock.
func TestTheIndexGivesWhatHasEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		var x reservation.Index
		now, ends := start, make(map[uint64]int64)
		for hash := uint64(1); hash < 3000; hash++ {
			end := now + rnd.Int64N(reservation.MaxTTL)
			if hash%7 == 0 {
				end = now + second + rnd.Int64N(3*second)
			}
			x.Enter(now, end, hash)
			ends[hash] = end
			if hash%50 != 0 {
				continue
			}
			switch now += rnd.Int64N(4 * second); rnd.IntN(20) {
			case 0:
				now += rnd.Int64N(3 * reservation.MaxTTL)
			case 1:
				now -= second / 2
			}
			for hashes := x.Take(now); hashes != nil; hashes = x.Take(now) {
				for _, h := range hashes {
					end, ok := ends[h]
					require.True(t, ok, "given twice")
					require.LessOrEqual(t, end, now)
					delete(ends, h)
				}
			}
			require.Equal(t, len(ends), x.DueKeys)
			for h, end := range ends {
				require.Greater(t, end+second, now, "%d is late", h)
			}
		}
	}
}

// The first that was settled makes room, then one that ends in the first second.
func TestTheIndexVictims(t *testing.T) {
	var x reservation.Index
	rnd := rand.New(rand.NewPCG(5, 6))
	var ends []int64
	at := make(map[uint64]int64)
	now := start + 100*second // in the middle of a word of marks
	for hash := uint64(1); hash <= 1000; hash++ {
		end := now + rnd.Int64N(reservation.MaxTTL)
		if hash%100 == 0 { // the last second that there is, just before the first in the ring
			end = now + 2*reservation.MaxTTL
		}
		x.Enter(now, end, hash)
		at[hash] = end / second
		ends = append(ends, end/second)
	}
	for hash := uint64(2000); hash < 2200; hash++ {
		x.Settle(start, hash)
	}
	for want := uint64(2000); want < 2200; want++ {
		v, ok := x.Victim()
		require.True(t, ok)
		require.Equal(t, reservation.Victim{Hash: want, Settled: true}, v)
	}
	slices.Sort(ends)
	for _, want := range ends {
		v, ok := x.Victim()
		require.Equal(t, []any{want, false, true}, []any{at[v.Hash], v.Settled, ok})
	}
	_, ok := x.Victim()
	require.False(t, ok)
	require.Zero(t, x.DueKeys)
	require.Zero(t, x.DoneKeys)
}

func TestTheIndexForgets(t *testing.T) {
	var x reservation.Index
	for i := range int64(10 * 60) {
		x.Settle(start+i, uint64(i))
	}
	x.Forget(start + 5*60)
	require.Equal(t, 5*60, x.DoneKeys, "chunk by chunk")
	v, _ := x.Victim()
	require.EqualValues(t, 5*60, v.Hash)
	x.Forget(start + 20*60)
	require.Zero(t, x.DoneKeys)
	_, ok := x.Victim()
	require.False(t, ok)
}
