package shard

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// key16 returns key number i, 16 bytes.
func key16(i int) []byte {
	k := []byte("user:123........")
	setKey16(k, uint64(i))
	return k
}

func setKey16(k []byte, i uint64) { binary.BigEndian.PutUint64(k[8:], i) }

// fill inserts n 16-byte keys with one word of state.
func fill(tb testing.TB, t *Table, n int) {
	for i := range n {
		k := key16(i)
		h := t.Hash(k)
		s := t.At(h)
		s.Lock()
		_, err := s.Insert(h, k, 1, 1, math.MaxInt64, 0)
		s.Unlock()
		require.NoError(tb, err)
	}
}

// BenchmarkFindUpdate is the store's part of a decision: hash, lock, find, read
// the state, write it and the deadline, unlock; of random keys.
func BenchmarkFindUpdate(b *testing.B) {
	for _, n := range []int{1, 100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			if n > 1_000_000 && testing.Short() {
				b.Skip("needs 600 MB")
			}
			t := New(Config{})
			fill(b, t, n)
			k := key16(0)
			x := uint64(1)
			b.ReportAllocs()
			b.ResetTimer()
			missing := 0
			for range b.N {
				x = x*6364136223846793005 + 1442695040888963407
				setKey16(k, x>>32*uint64(n)>>32)
				h := t.Hash(k)
				s := t.At(h)
				s.Lock()
				if e, ok := s.Find(h, k); ok {
					e.SetWord(0, e.Word(0)+1)
					e.SetDeadline(e.Deadline() - 1)
				} else {
					missing++
				}
				s.Unlock()
			}
			require.Zero(b, missing)
			b.ReportMetric(float64(t.Bytes())/float64(n), "bytes/key")
		})
	}
}

// BenchmarkInsert grows a table from nothing: splits, directories and chunks
// included.
func BenchmarkInsert(b *testing.B) {
	b.ReportAllocs()
	t := New(Config{})
	fill(b, t, b.N)
	b.ReportMetric(float64(t.Bytes())/float64(b.N), "bytes/key")
}

// BenchmarkMemory reports what keys cost: accounted and in the heap as the
// runtime sees it.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			if n > 1_000_000 && testing.Short() {
				b.Skip("needs 600 MB")
			}
			for range b.N {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				t := New(Config{})
				fill(b, t, n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(t.Bytes())/float64(n), "bytes/key")
				b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/float64(n), "heap-bytes/key")
				b.ReportMetric(float64(residentBytes())/float64(n), "rss-bytes/key")
				b.ReportMetric(float64(after.PauseTotalNs-before.PauseTotalNs)/float64(after.NumGC-before.NumGC), "ns/gc-pause")
				runtime.KeepAlive(t)
			}
		})
	}
}

// residentBytes returns the resident memory of this process, 0 where /proc does
// not tell.
func residentBytes() int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * os.Getpagesize()
}
