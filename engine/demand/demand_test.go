package demand

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const second = 1_000_000_000

// Of 1000 a second, shares are max-min fair.
func TestSharesAreFair(t *testing.T) {
	now := int64(second)
	for _, c := range []struct{ wants, shares []float64 }{
		{[]float64{2000, 100, 100, 100}, []float64{700, 100, 100, 100}},
		{[]float64{500, 500, 500, 500}, []float64{250, 250, 250, 250}},
		{[]float64{10, 20, 30}, []float64{10, 20, 30}},
		{[]float64{math.MaxInt64, 0}, []float64{1000, 0}},
	} {
		d := New(1)
		for range 3 {
			now += second
			for i, w := range c.wants {
				d.Share(0, 1, uint64(i), w, 1000, now+5*second, now)
			}
		}
		now += second
		for i, w := range c.wants {
			fair := d.Share(0, 1, uint64(i), w, 1000, now+5*second, now)
			require.InDelta(t, c.shares[i], float64(fair.Rate)/(1<<32)*1000, 0.01, "%v", c.wants)
			require.Equal(t, w > c.shares[i]+1, fair.Contended)
		}
	}
}

// What is remembered is bounded, by keys and by holders of one key, whatever comes. The
// limit that is asked for is not forgotten for its own holders.
func TestDemandIsBounded(t *testing.T) {
	d := New(2)
	d.most = 5000
	count := func() (n int64) {
		for _, limits := range d.shards {
			for _, l := range limits {
				n += int64(len(l.wants)) + 1
				require.LessOrEqual(t, len(l.wants), maxHolders)
			}
		}
		return n
	}
	for i := range uint64(20_000) {
		d.Share(int(i%2), i, 1, 10, 1000, second, 1)
		require.LessOrEqual(t, d.wants.Load(), d.most)
	}
	require.Equal(t, d.wants.Load(), count())
	// Known limits get more holders.
	for i := range uint64(20_000) {
		d.Share(0, i%4, i, 10, 1000, second, 1)
		require.LessOrEqual(t, d.wants.Load(), d.most)
	}
	require.Equal(t, d.wants.Load(), count())
	require.Greater(t, count(), int64(2000))
	// Holders that are no longer heard of make room.
	d.Share(0, 3, 1<<40, 10, 1000, 9*second, 5*second)
	require.Equal(t, d.wants.Load(), count())
	require.Len(t, d.shards[0][3].wants, 1)
}

// Ids that come once each do not make the table search a full limit for each of them.
func TestAFullLimitIsSearchedWhenItIsDue(t *testing.T) {
	d := New(1)
	for i := range uint64(maxHolders) {
		d.Share(0, 1, i, 10, 1000, second, second-1)
	}
	wants := func() int { return len(d.shards[0][1].wants) }
	d.shards[0][1].at = second - 1
	d.Share(0, 1, 1<<40, 10, 1000, 9*second, second+1)
	require.Equal(t, maxHolders, wants())
	d.Share(0, 1, 1<<40, 10, 1000, 9*second, second+maxHolders*divideFor)
	require.Equal(t, 1, wants())
}

// A limit for which there is no room has no measured demand: a holder gets what it wants.
func TestWithoutRoomThereIsNoDivision(t *testing.T) {
	d := New(2)
	d.most = 1
	d.Share(0, 1, 1, 10, 1000, second, 1)
	fair := d.Share(1, 1, 1, 10, 1000, second, 1)
	require.EqualValues(t, math.MaxUint32, fair.Rate)
	require.False(t, fair.Contended)
	require.True(t, d.Share(1, 1, 1, 2000, 1000, second, 1).Contended)
}

// Callers without a lease count with what they ask for, for as long as they do.
func TestPlainCallersHaveAShare(t *testing.T) {
	d := New(1)
	now := int64(second)
	rate := func() float64 {
		return float64(d.Share(0, 1, 1, 5000, 1000, now+second, now).Rate) / (1 << 32) * 1000
	}
	rate()
	for range 1000 {
		now += second / 1000
		d.Asked(0, 1, 2, now)
	}
	require.InDelta(t, 500, rate(), 5)
	now += forgottenAfter + second
	require.InDelta(t, 1000, rate(), 5)
	d.Asked(0, 2, 1, now) // nobody leases it
	require.Nil(t, d.shards[0][2])
}

// Wants that are chosen so that a division takes many rounds, by ids that are all new,
// cost no more than others.
func TestHostileWantsAreDividedInTime(t *testing.T) {
	d := New(1)
	level, left := 1e6/1025, 1e6
	wants := make([]float64, 1024)
	for i := range wants { // each is just below the part that the ones before leave
		wants[i] = level * (1 - 1e-7)
		left -= wants[i]
		level = left / float64(1024-i)
	}
	now := int64(second)
	for i, w := range wants {
		d.Share(0, 1, uint64(i), w, 1e6, now+1000*second, now)
	}
	d.Asked(0, 1, 0, now)
	begin := time.Now()
	const n = 2000
	for i := range uint64(n) {
		now += 20_000_000
		d.Share(0, 1, 1<<32+i, 1e9, 1e6, now+second, now)
	}
	require.Less(t, time.Since(begin)/n, 400*time.Microsecond)
}

// A holder counts until it gives back, or until the time that it said, although others
// go on asking.
func TestWhoLeavesIsForgotten(t *testing.T) {
	d := New(1)
	rate := func(id uint64, now int64) float64 {
		return float64(d.Share(0, 1, id, 2000, 1000, now+4*second, now).Rate) / (1 << 32) * 1000
	}
	rate(1, second)
	require.InDelta(t, 500, rate(2, 2*second), 0.01)
	require.InDelta(t, 500, rate(2, 4*second), 0.01)
	require.InDelta(t, 1000, rate(2, 6*second), 0.01)
	rate(3, 6*second)
	require.InDelta(t, 500, rate(2, 7*second), 0.01)
	d.Gone(0, 1, 3)
	require.InDelta(t, 1000, rate(2, 7*second+1), 0.01)
}
