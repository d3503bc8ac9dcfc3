package engine_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/ledger"
)

// BenchmarkBucketHash is a token bucket in a hash: two fields read, then
// written, in a visit each.
func BenchmarkBucketHash(b *testing.B) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	defer s.Close()
	key, tokens, last := []byte("rl:user:42"), []byte("tokens"), []byte("last")
	pairs := [][]byte{tokens, nil, last, nil}
	b.ReportAllocs()
	for i := range b.N {
		v, err := s.Open(start, key, algo.Hash)
		if err != nil {
			b.Fatal(err)
		}
		h := packed.NewHash(v)
		h.Get(tokens)
		h.Get(last)
		v.Close()
		pairs[1] = strconv.AppendInt(pairs[1][:0], int64(i%1000), 10)
		pairs[3] = strconv.AppendInt(pairs[3][:0], int64(1_700_000_000+i), 10)
		if v, err = s.Open(start, key, algo.Hash); err != nil {
			b.Fatal(err)
		}
		h = packed.NewHash(v)
		if _, err := h.SetAll(pairs); err != nil {
			b.Fatal(err)
		}
		v.Close()
	}
}

// BenchmarkLogSet is a sliding log of 1000 in a sorted set: old members go, one comes.
// With a leader's cut after a number of hits it reports the bytes that travel for each.
func BenchmarkLogSet(b *testing.B) {
	for _, each := range []int{0, 20, 1000} {
		b.Run(fmt.Sprint("cut=", each), func(b *testing.B) {
			e := engine.New(engine.Config{})
			l := ledger.New(ledger.Hooks{})
			var r *engine.Replica
			if each > 0 {
				r = e.Replicate(l)
				r.Lead(start)
			}
			s := e.NewSession()
			defer s.Close()
			sent := 0
			b.ReportAllocs()
			for i := range b.N + 1000 {
				if i == 1000 {
					b.ResetTimer()
				}
				v, err := s.Open(start, []byte("rl:user:42"), algo.SortedSet)
				if err != nil {
					b.Fatal(err)
				}
				z := packed.NewSortedSet(v)
				z.RemoveRange(0, z.Below(float64(i-1000), true))
				if _, err := z.Put(strconv.AppendInt(nil, int64(1_700_000_000_000_000+i), 10), float64(i)); err != nil {
					b.Fatal(err)
				}
				v.Close()
				if each > 0 && i%each == 0 {
					parts, _ := r.Cut(benchMaxEntry)
					sent += len(parts[0])
					l.Commit()
				}
			}
			b.ReportMetric(float64(sent)/float64(b.N), "sent-B/op")
		})
	}
}
