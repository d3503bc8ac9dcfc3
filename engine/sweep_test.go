package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Expired keys leave the count of keys soon, even if most keys live.
func TestExpiredKeysAreNotCountedForLong(t *testing.T) {
	e := New(Config{})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx) })
	defer wg.Wait()
	defer stop()
	s := e.NewSession()
	const live, brief = 10_000, 300
	for i := range live {
		_, err := s.Set(e.Now(), fmt.Append(nil, "live", i), []byte("v"), &SetOptions{})
		require.NoError(t, err)
	}
	at := e.Now() + int64(50*time.Millisecond)
	for i := range brief {
		_, err := s.Set(e.Now(), fmt.Append(nil, "brief", i), []byte("v"), &SetOptions{Deadline: at})
		require.NoError(t, err)
	}
	for e.Len() > live {
		require.Less(t, e.Now(), at+int64(4*time.Second))
		time.Sleep(time.Millisecond)
	}
}

// The pauses of a turn add up to what the constants say, with few and with many shards.
func TestSweeperPauses(t *testing.T) {
	for _, engines := range []int{1, 12} {
		es := NewEngines(Config{}, engines)
		s := es[0].NewSession()
		for i := range 20_000 {
			_, err := s.Set(start, fmt.Append(nil, "key:", i), []byte("1"), &SetOptions{})
			require.NoError(t, err)
		}
		pauses, calls := time.Duration(0), 0
		for next, turned := 0, false; !turned; calls++ {
			before := next
			var rest time.Duration
			next, rest = es[0].shared.sweep(next)
			pauses += rest
			turned = next <= before
		}
		require.GreaterOrEqual(t, pauses, sweepLeast*9/10, "%d engines", engines)
		require.LessOrEqual(t, pauses, 2*sweepTurn, "%d engines", engines)
		t.Logf("%d engines: %d calls, %v", engines, calls, pauses)
	}
}

// BenchmarkSweepTurn reports the processor time of a turn over a table, and how long it
// lasts.
func BenchmarkSweepTurn(b *testing.B) {
	for _, keys := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			e := New(Config{})
			s := e.NewSession()
			for i := range keys {
				_, _ = s.Set(start, fmt.Append(nil, "key:", i), []byte("1"), &SetOptions{})
			}
			lasts := time.Duration(0)
			for b.Loop() {
				for next, turned := 0, false; !turned; {
					var rest time.Duration
					before := next
					next, rest = e.shared.sweep(next)
					lasts += rest
					turned = next <= before
				}
			}
			b.ReportMetric(lasts.Seconds()/float64(b.N), "s/turn")
		})
	}
}
