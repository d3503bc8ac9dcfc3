package shard

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// key16 returns key number i, 16 bytes.
func key16(i int) []byte {
	k := []byte("user:00000000000")
	for p := len(k) - 1; i > 0; p-- {
		k[p] = '0' + byte(i%10)
		i /= 10
	}
	return k
}

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
			// The keys are made beforehand, in order of use, so that making
			// them is not measured and reading them is sequential.
			const uses = 1 << 20
			keys := make([]byte, 0, uses*16)
			x := uint64(1)
			for range uses {
				x = x*6364136223846793005 + 1442695040888963407
				keys = append(keys, key16(int((x>>33)%uint64(n)))...)
			}
			b.ReportAllocs()
			b.ResetTimer()
			missing := 0
			for i := range b.N {
				at := i & (uses - 1) * 16
				k := keys[at : at+16]
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
