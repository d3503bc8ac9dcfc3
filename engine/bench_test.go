package engine_test

import (
	"fmt"
	"testing"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// benchKeys returns n keys of 16 bytes.
func benchKeys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%012d", i)
	}
	return keys
}

// BenchmarkDecide is one decision in process: hash, lock, find, decide, write,
// unlock. 20 000 keys fit the last-level cache.
func BenchmarkDecide(b *testing.B) {
	for _, a := range eachAlgorithm {
		b.Run(a.String(), func(b *testing.B) { benchmarkDecide(b, 20_000, perMinute(a, 1000)) })
	}
}

// BenchmarkDecideWarm decides in batches of 16 whose states were asked for
// first, as the server does with a pipeline.
func BenchmarkDecideWarm(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		for _, batch := range []int{1, 16} {
			b.Run(fmt.Sprintf("keys=%d/batch=%d", n, batch), func(b *testing.B) { benchmarkWarm(b, n, batch) })
		}
	}
}

func benchmarkWarm(b *testing.B, n, batch int) {
	s := engine.New(engine.Config{}).NewSession()
	keys := benchKeys(n)
	l := algo.Limit{Limit: 1000, Period: 60 * minute}
	var o algo.Options
	for _, k := range keys {
		if _, err := s.Decide(start, k, l, 1, &o); err != nil {
			b.Fatal(err)
		}
	}
	// Keys lie one after the other, as in a connection's input buffer.
	const calls, size = 1 << 16, 16
	var input []byte
	i := uint64(0)
	for range calls {
		i = i*6364136223846793005 + 1442695040888963407
		input = append(input, keys[(i>>33)%uint64(n)]...)
	}
	now := start
	ahead := make([][]byte, batch)
	b.ReportAllocs()
	for j := 0; b.Loop(); j++ {
		at := j % calls * size
		if j%batch == 0 {
			for k := range ahead {
				ahead[k] = input[at+k*size : at+(k+1)*size]
			}
			s.Warm(ahead)
		}
		now += 1000
		if _, err := s.Decide(now, input[at:at+size], l, 1, &o); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkDecide(b *testing.B, n int, l algo.Limit) {
	s := engine.New(engine.Config{}).NewSession()
	keys := benchKeys(n)
	var o algo.Options
	for _, k := range keys {
		if _, err := s.Decide(start, k, l, 1, &o); err != nil {
			b.Fatal(err)
		}
	}
	now := start
	i := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		i = i*6364136223846793005 + 1442695040888963407
		now += 1000
		if _, err := s.Decide(now, keys[(i>>33)%uint64(n)], l, 1, &o); err != nil {
			b.Fatal(err)
		}
	}
}
