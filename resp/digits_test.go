package resp

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAppendInt(t *testing.T) {
	f := func(n int64) {
		require.Equal(t, "x"+strconv.FormatInt(n, 10), string(AppendInt([]byte("x"), n)))
	}
	for n := int64(1); n < math.MaxInt64/10; n *= 10 {
		for d := int64(-2); d <= 2; d++ {
			f(n + d)
			f(-n + d)
		}
	}
	f(math.MaxInt64)
	f(math.MinInt64)
	for bits := range 63 {
		for range 200 {
			f(rand.Int64N(1<<bits + 1))
		}
	}
}

func BenchmarkAppendInt(b *testing.B) {
	for _, n := range []int64{7, 42, 999, 60_000, 999_987, 86_399_999} {
		b.Run(strconv.FormatInt(n, 10), func(b *testing.B) {
			buf := make([]byte, 0, 64)
			for b.Loop() {
				buf = AppendInt(buf[:0], n)
			}
		})
	}
}
