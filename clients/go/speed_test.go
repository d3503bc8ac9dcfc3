package headgate_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
)

// busy returns a client that holds leases of so many keys.
func busy(tb testing.TB, keys int) (c *headgate.Client, names []string) {
	c = headgate.New(headgate.DoerFunc(func(_ context.Context, args ...any) (any, error) {
		switch args[0] {
		case "RL.LEASE":
			return granted(number(args, "NEED"), 1<<40, 60_000, 0, 0), nil
		case "RL.RETURN":
			return int64(0), nil
		}
		return ints(1, 1000, 999, 0, 1, 0), nil
	}), headgate.Options{LeaseTTL: time.Minute})
	tb.Cleanup(func() { _ = c.Close(context.Background()) })
	for i := range keys {
		name := fmt.Sprint("user:", i)
		names = append(names, name)
		for range 12 {
			if _, err := c.Allow(context.Background(), name, perSecond, 1); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return c, names
}

func TestLocalDecisionsDoNotAllocate(t *testing.T) {
	c, names := busy(t, 1)
	ctx := context.Background()
	if n := testing.AllocsPerRun(10_000, func() { _, _ = c.Allow(ctx, names[0], perSecond, 1) }); n != 0 {
		t.Errorf("%v allocations for a decision", n)
	}
}

func TestDecisionsWithoutAServerDoNotAllocate(t *testing.T) {
	ctx := context.Background()
	c := headgate.New(headgate.DoerFunc(func(context.Context, ...any) (any, error) { return nil, headgate.ErrNotSent }),
		headgate.Options{Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = c.Close(ctx) }()
	for range 5 {
		_, _ = c.Allow(ctx, "k", perSecond, 1)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = c.Allow(ctx, "k", perSecond, 1) }); n != 0 {
		t.Errorf("%v allocations for a decision", n)
	}
}

// BenchmarkLocal decides from leases on all cores: one key, and 10,000. The p99 has the
// time of two clock readings in it.
func BenchmarkLocal(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			c, names := busy(b, keys)
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			var mu sync.Mutex
			var took []time.Duration
			b.RunParallel(func(pb *testing.PB) {
				samples := make([]time.Duration, 0, 1<<20)
				for i := 0; pb.Next(); i += 7919 {
					began := time.Now()
					d, err := c.Allow(ctx, names[i%len(names)], perSecond, 1)
					if n := time.Since(began); len(samples) < cap(samples) {
						samples = append(samples, n)
					}
					if err != nil || d.Source != headgate.Lease {
						b.Errorf("%+v, %v", d, err)
						return
					}
				}
				mu.Lock()
				took = append(took, samples...)
				mu.Unlock()
			})
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
			b.ReportMetric(float64(runtime.GOMAXPROCS(0)), "cores")
		})
	}
}

// BenchmarkAway decides by the fallback while the breaker is open.
func BenchmarkAway(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			c := headgate.New(headgate.DoerFunc(func(context.Context, ...any) (any, error) { return nil, headgate.ErrNotSent }),
				headgate.Options{Logger: slog.New(slog.DiscardHandler)})
			defer func() { _ = c.Close(context.Background()) }()
			ctx := context.Background()
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprint("user:", i)
			}
			limit := headgate.PerSecond(1 << 40)
			for range 5 {
				_, _ = c.Allow(ctx, names[0], limit, 1)
			}
			b.ReportAllocs()
			b.ResetTimer()
			took := make([]time.Duration, 0, 1<<20)
			for i := 0; b.Loop(); i += 7919 {
				began := time.Now()
				d, err := c.Allow(ctx, names[i%len(names)], limit, 1)
				if n := time.Since(began); len(took) < cap(took) {
					took = append(took, n)
				}
				if err != nil || !d.Allowed || d.Source != headgate.Fallback {
					b.Fatalf("%+v, %v", d, err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}
