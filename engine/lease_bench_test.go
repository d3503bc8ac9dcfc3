package engine_test

import (
	"fmt"
	"testing"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// BenchmarkLease renews leases of one key that has so many holders, beside decisions on a
// key with and without leases.
func BenchmarkLease(b *testing.B) {
	l := algo.Limit{Limit: 1_000_000_000, Period: second}
	for _, holders := range []int{1, 1000} {
		s := engine.New(engine.Config{}).NewSession()
		q := engine.Lease{Key: []byte("k"), Limit: l, Request: algo.Request{Want: 10, TTL: 2 * second}}
		ids := make([][]byte, holders)
		now := start
		renew := func(i int) {
			now += 1000
			q.Seq++
			q.ID, q.Held = ids[i%holders], 3
			if _, err := s.Leases().Take(now, &q); err != nil {
				b.Fatal(err)
			}
		}
		for i := range ids {
			ids[i] = fmt.Append(nil, "holder:", i)
			renew(i)
		}
		b.Run(fmt.Sprintf("take/%d", holders), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				renew(i)
			}
		})
		b.Run(fmt.Sprintf("decide/%d", holders), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				if _, err := s.Decide(now, q.Key, l, 1, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	s := engine.New(engine.Config{}).NewSession()
	now, key := start, []byte("k")
	b.Run("decide/0", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now += 1000
			if _, err := s.Decide(now, key, l, 1, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
