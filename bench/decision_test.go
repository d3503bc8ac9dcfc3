package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// BenchmarkDecide is one decision by a token limit on a random key of a full table. A
// server does this between parsing and replying to a pipeline of 16 commands. It asks for
// the states of all of them before the first one runs. A hundred thousand keys fit the
// last-level cache of today's machines, ten million do not.
func BenchmarkDecide(b *testing.B) {
	for _, keys := range []int{100_000, 10_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { benchmarkDecide(b, keys) })
	}
}

func benchmarkDecide(b *testing.B, keys int) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	defer s.Close()
	// Long enough that no key expires, and that every call is admitted.
	lim := algo.Limit{Limit: 1_000_000, Period: int64(24 * time.Hour)}
	now := e.Now()
	var key []byte
	for i := range keys {
		key = fmt.Appendf(key[:0], "key:%012d", i)
		if _, err := s.Decide(now, key, lim, 1, nil); err != nil {
			b.Fatal(err)
		}
	}
	// Keys lie one after the other, as in a connection's input buffer. So reading them
	// costs no cache miss that a server would not have.
	const calls, size, batch = 1 << 20, 16, 16
	r := rand.New(rand.NewPCG(1, 2))
	input := make([]byte, 0, calls*size)
	for range calls {
		input = fmt.Appendf(input, "key:%012d", r.IntN(keys))
	}
	ahead := make([][]byte, batch)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ { // fills the table once, whatever the number of iterations
		at := i % calls * size
		if i%batch == 0 && s.Cold() {
			for j := range ahead {
				ahead[j] = input[at+j*size : at+(j+1)*size]
			}
			s.Warm(ahead)
		}
		now += 100
		d, err := s.Decide(now, input[at:at+size], lim, 1, nil)
		if err != nil || !d.OK {
			b.Fatal(d, err)
		}
	}
}

func TestParseBenchmarks(t *testing.T) {
	runs, order := parseBenchmarks(`goos: linux
BenchmarkDecide/keys=100000   	23456789	        77.5 ns/op	       0 B/op	       0 allocs/op
BenchmarkDecide/keys=100000   	23456789	        79.5 ns/op	       0 B/op	       1 allocs/op
BenchmarkDecide/keys=10000000-2 	1	        190 ns/op
BenchmarkDecide/keys=10000000 	1	        190 ns/op
PASS`, "keys", 1)
	require.Equal(t, []int{100_000, 10_000_000}, order)
	require.Equal(t, []benchmark{{n: 100_000, nanos: 77.5}, {n: 100_000, nanos: 79.5, allocs: 1}}, runs[100_000])
	require.Len(t, runs[10_000_000], 1, "-cpu 1 leaves no suffix; another count of cores is not this row")
	runs, order = parseBenchmarks("BenchmarkLocal/keys=1-2 \t5000000\t 250.4 ns/op\t 2.000 cores\t 102.0 p50-ns\t 451.0 p99-ns\t 0 B/op\t 0 allocs/op", "keys", 2)
	require.Equal(t, []int{1}, order)
	require.Equal(t, []benchmark{{n: 1, nanos: 250.4, p99: 451}}, runs[1])
}
