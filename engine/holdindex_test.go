package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

// What is due is given once, none before its end, and all of it within a second
// behind that, whatever ends when and however the clock jumps.
func TestHoldIndexGivesWhatHasEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine")
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		var x holdIndex
		now, ends := start, make(map[uint64]int64)
		for hash := uint64(1); hash < 3000; hash++ {
			end := now + rnd.Int64N(MaxHoldTTL)
			if hash%7 == 0 {
				end = now + second + rnd.Int64N(3*second)
			}
			x.enter(now, end, hash)
			ends[hash] = end
			if hash%50 != 0 {
				continue
			}
			switch now += rnd.Int64N(4 * second); rnd.IntN(20) {
			case 0:
				now += rnd.Int64N(3 * MaxHoldTTL)
			case 1:
				now -= second / 2
			}
			for hashes := x.take(now); hashes != nil; hashes = x.take(now) {
				for _, h := range hashes {
					end, ok := ends[h]
					require.True(t, ok, "given twice")
					require.LessOrEqual(t, end, now)
					delete(ends, h)
				}
			}
			require.Equal(t, len(ends), x.dueKeys)
			for h, end := range ends {
				require.Greater(t, end+second, now, "%d is late", h)
			}
		}
	}
}

// Where the clock was set back by much, what is found before its end is entered again.
func TestHoldIndexBehindItsClock(t *testing.T) {
	s := newTestSession(t, Config{})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 100), costs(40))
	end := func(now int64) { s.e.SettleEnded(context.Background(), s, now) }
	reserve(t, s, start, "a", func(r *Reserve) { r.TTL = second }, c)
	at := start + 2*MaxHoldTTL
	reserve(t, s, at, "b", nil, c)
	end(start + 2*second)
	require.Equal(t, HoldReleased, settle(t, s, start+3*second, "a", Settlement{State: HoldReleased}).State)
	for now := start + 2*second; now < at+minute; now += MaxHoldTTL / 3 {
		end(now)
	}
	require.EqualValues(t, 60, remaining(t, s, at+minute-second, c))
	end(at + minute + 2*second)
	r, err := s.Reservation(at+minute+2*second, []byte("b"))
	require.NoError(t, err)
	require.Equal(t, HoldReleased, r.State)
}

// The first that was settled makes room, then one that ends in the first second.
func TestHoldIndexVictims(t *testing.T) {
	var x holdIndex
	rnd := rand.New(rand.NewPCG(5, 6))
	var ends []int64
	at := make(map[uint64]int64)
	now := start + 100*second // in the middle of a word of marks
	for hash := uint64(1); hash <= 1000; hash++ {
		end := now + rnd.Int64N(MaxHoldTTL)
		if hash%100 == 0 { // the last second that there is, just before the first in the ring
			end = now + 2*MaxHoldTTL
		}
		x.enter(now, end, hash)
		at[hash] = end / holdTick
		ends = append(ends, end/holdTick)
	}
	for hash := uint64(2000); hash < 2200; hash++ {
		x.settle(start, hash)
	}
	for want := uint64(2000); want < 2200; want++ {
		v, ok := x.victim()
		require.True(t, ok)
		require.Equal(t, victim{want, true}, v)
	}
	slices.Sort(ends)
	for _, want := range ends {
		v, ok := x.victim()
		require.Equal(t, []any{want, false, true}, []any{at[v.hash], v.settled, ok})
	}
	_, ok := x.victim()
	require.False(t, ok)
	require.Zero(t, x.dueKeys)
	require.Zero(t, x.doneKeys)
}

func TestHoldIndexForgets(t *testing.T) {
	var x holdIndex
	for i := range int64(10 * hashChunkLen) {
		x.settle(start+i, uint64(i))
	}
	x.forget(start + 5*hashChunkLen)
	require.Equal(t, 5*hashChunkLen, x.doneKeys, "chunk by chunk")
	v, _ := x.victim()
	require.EqualValues(t, 5*hashChunkLen, v.hash)
	x.forget(start + 20*hashChunkLen)
	require.Zero(t, x.doneKeys)
	require.Nil(t, x.done.tail)
}

// What is settled long before its end does not stay in the index until then.
func TestHoldIndexIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine")
	}
	s := newTestSession(t, Config{})
	c := of(t, s, "@p:a", algo.Limit{Algorithm: algo.Fixed, Limit: algo.MaxCount, Period: minute})
	long := func(r *Reserve) { r.TTL, r.Keep = MaxHoldTTL, second }
	reserve(t, s, start, "open", long, c)
	for i := range staleKeys + 100 {
		id := fmt.Sprint(i)
		reserve(t, s, start, id, long, c)
		settle(t, s, start, id, cancelled())
	}
	for i := range s.e.table.Shards() {
		for cursor := s.e.table.Sweep(i, 0, start+5*second); cursor != 0; {
			cursor = s.e.table.Sweep(i, cursor, start+5*second)
		}
	}
	require.Equal(t, 1, s.e.Reservations())
	s.e.holds.index.forget(start + 5*second) // else the index is made anew for these
	require.Zero(t, s.e.holds.index.doneKeys)
	require.Greater(t, s.e.holds.index.dueKeys, staleKeys)
	s.e.SettleEnded(context.Background(), s, start+5*second)
	require.Equal(t, 1, s.e.holds.index.dueKeys)
	s.e.SettleEnded(context.Background(), s, start+MaxHoldTTL+2*second)
	require.Equal(t, HoldReleased, settle(t, s, start+MaxHoldTTL+2*second, "open", Settlement{State: HoldReleased}).State)
}

// A call that has come anew under the name of one that is gone is not dropped in the
// place of that.
func TestAHoldThatIsOpenAgainMakesNoRoom(t *testing.T) {
	s := newTestSession(t, Config{})
	c := of(t, s, "@p:a", perMinute(algo.Token, 100))
	reserve(t, s, start, "a", func(r *Reserve) { r.Keep = second }, c)
	settle(t, s, start, "a", cancelled())
	at := start + 3*second
	reserve(t, s, at, "first", func(r *Reserve) { r.TTL = second }, c)
	reserve(t, s, at, "a", func(r *Reserve) { r.TTL = 2 * minute }, c)
	s.e.holds.most = 2
	reserve(t, s, at, "b", nil, c)
	_, err := s.Reservation(at, []byte("first"))
	require.ErrorIs(t, err, ErrNoHold)
	r, err := s.Reservation(at, []byte("a"))
	require.NoError(t, err)
	require.Equal(t, HoldOpen, r.State)
}
