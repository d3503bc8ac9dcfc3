package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/ledger"
)

// benchBatch is how many keys a batch of the replication benchmarks has: what
// 10 to 20 ms of load make dirty.
const benchBatch = 5000

// benchLeader is a leader whose table holds keys, nothing of it dirty.
func benchLeader(b *testing.B, keys [][]byte) (*engine.Replica, *engine.Session, *ledger.Ledger) {
	e := engine.New(engine.Config{})
	l := ledger.New(ledger.Hooks{})
	r := e.Replicate(l)
	r.Lead(start)
	s := e.NewSession()
	for _, k := range keys {
		benchDirty(b, s, k, start)
	}
	r.Cut(benchMaxEntry)
	l.Commit()
	return r, s, l
}

const benchMaxEntry = 256 << 10

// benchLimit is the limit of bench's replicated loads.
var benchLimit = algo.Limit{Limit: 100, Period: 24 * 60 * minute}

func benchDirty(b *testing.B, s *engine.Session, key []byte, now int64) {
	if _, err := s.Decide(now, key, benchLimit, 1, &algo.Options{Force: true}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCut measures a leader's work for an effect, apart from the decision: marking
// the key, cutting and encoding it. It reports the bytes of an effect.
func BenchmarkCut(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", n), func(b *testing.B) {
			keys := benchKeys(n)
			r, s, log := benchLeader(b, keys)
			rnd := rand.New(rand.NewPCG(1, 1))
			effects, size := 0, 0
			now := start
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for range benchBatch {
					now += 1000
					benchDirty(b, s, keys[rnd.IntN(n)], now)
				}
				b.StartTimer()
				parts, _ := r.Cut(benchMaxEntry)
				log.Commit()
				effects += benchBatch
				for _, p := range parts {
					size += len(p)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(effects), "ns/decision")
			b.ReportMetric(float64(size)/float64(effects), "B/decision")
		})
	}
}

// BenchmarkApply measures a follower's work for an effect, apart from the log.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", n), func(b *testing.B) {
			keys := benchKeys(n)
			leader, s, _ := benchLeader(b, keys)
			follower, _, _ := benchLeader(b, keys)
			follower.Depose()
			rnd := rand.New(rand.NewPCG(1, 1))
			batches := make([][][]byte, 100)
			for i := range batches {
				for range benchBatch {
					benchDirty(b, s, keys[rnd.IntN(n)], start)
				}
				batches[i], _ = leader.Cut(benchMaxEntry)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := follower.Apply(batches[i%len(batches)], start); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i*benchBatch), "ns/decision")
		})
	}
}

// BenchmarkCutLog cuts one key that has a full sliding log of a thousand
// entries, so many hits after the cut before. It reports the bytes of a cut and
// those of a hit.
func BenchmarkCutLog(b *testing.B) {
	for _, hits := range []int{1, 20, 1000} {
		b.Run(fmt.Sprintf("hits=%d", hits), func(b *testing.B) {
			r, s, log := benchLeader(b, nil)
			// A thousand hits a second, of which a thousand count.
			l := algo.Limit{Algorithm: algo.Log, Limit: 1000, Period: second}
			rnd := rand.New(rand.NewPCG(1, 1))
			now, cuts, size := start, 0, 0
			hit := func() {
				now += second/1000 + rnd.Int64N(second/2000) - second/4000
				if _, err := s.Decide(now, []byte("key"), l, 1, &algo.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			for range 2000 {
				hit()
			}
			r.Cut(benchMaxEntry)
			log.Commit()
			for b.Loop() {
				for range hits {
					hit()
				}
				parts, _ := r.Cut(benchMaxEntry)
				log.Commit()
				cuts++
				for _, p := range parts {
					size += len(p)
				}
			}
			b.ReportMetric(float64(size)/float64(cuts), "B/cut")
			b.ReportMetric(float64(size)/float64(cuts*hits), "B/hit")
		})
	}
}

// BenchmarkCutLogSet cuts a sliding log of a thousand entries in a sorted set, a number
// of hits after the cut before, and applies it elsewhere. It reports the bytes of a cut,
// and their ratio to the bytes of the changes: the new members with their scores.
func BenchmarkCutLogSet(b *testing.B) {
	for _, hits := range []int{1, 5, 20, 200, 1000} {
		b.Run(fmt.Sprintf("hits=%d", hits), func(b *testing.B) {
			leader, s, log := benchLeader(b, nil)
			follower, _, _ := benchLeader(b, nil)
			follower.Depose()
			at, size, cuts := 0, 0, 0
			var applying time.Duration
			hit := func(n int) { logSet(b, s, at, at+n); at += n }
			apply := func(parts [][]byte) {
				log.Commit()
				for _, p := range parts {
					size += len(p)
				}
				begin := time.Now()
				if err := follower.Apply(parts, start); err != nil {
					b.Fatal(err)
				}
				applying += time.Since(begin)
				cuts++
			}
			hit(1000)
			parts, _ := leader.Cut(benchMaxEntry)
			apply(parts)
			size, cuts, applying = 0, 0, 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				hit(hits)
				b.StartTimer()
				parts, _ := leader.Cut(benchMaxEntry)
				b.StopTimer()
				apply(parts)
				b.StartTimer()
			}
			change := float64(len(logMember(0)) + 8)
			b.ReportMetric(float64(size)/float64(cuts), "B/cut")
			b.ReportMetric(float64(size)/float64(cuts*hits)/change, "x-changes")
			b.ReportMetric(float64(applying.Nanoseconds())/float64(cuts), "ns/apply")
		})
	}
}
