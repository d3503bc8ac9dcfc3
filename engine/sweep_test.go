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
