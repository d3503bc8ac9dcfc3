package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/httplimit"
)

// BenchmarkMiddleware measures a request without a network: without middleware, and with
// middleware that decides from a lease.
func BenchmarkMiddleware(b *testing.B) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	c := headgate.New(headgate.DoerFunc(func(_ context.Context, args ...any) (any, error) {
		if args[0] == "RL.LEASE" {
			return values(1, 1000, 500, 0, 500, 0, 1<<40, 60_000, 0, 0, 1), nil
		}
		return values(1, 1000, 999, 0, 1, 0), nil
	}), headgate.Options{LeaseTTL: time.Minute})
	defer func() { _ = c.Close(context.Background()) }()
	wrap, err := httplimit.New(c, httplimit.Options{Limit: headgate.PerSecond(1000)})
	if err != nil {
		b.Fatal(err)
	}
	for limited, h := range []http.Handler{bare, wrap(bare)} {
		b.Run(fmt.Sprint("limited=", limited), func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			b.ReportAllocs()
			took := make([]time.Duration, 0, 1<<20)
			for b.Loop() {
				w := httptest.NewRecorder()
				began := time.Now()
				h.ServeHTTP(w, r)
				if n := time.Since(began); len(took) < cap(took) {
					took = append(took, n)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}
