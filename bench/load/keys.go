package load

import (
	"math/rand/v2"
	"sync/atomic"
)

// Distribution is how key numbers are drawn.
type Distribution uint8

const (
	// Uniform draws every key with the same probability.
	Uniform Distribution = iota
	// Hot uses one key only.
	Hot
	// Zipf draws key k with probability proportional to (1+k)^-s.
	Zipf
	// Sequential counts through the keys, over all connections together: with
	// Count equal to Keys every key is used once.
	Sequential
)

// String is the name used in results.
func (d Distribution) String() string {
	switch d {
	case Hot:
		return "hot"
	case Zipf:
		return "zipf"
	case Sequential:
		return "sequential"
	}
	return "uniform"
}

// picker returns a source of key numbers below cfg.Keys. Each connection has
// its own, seeded by the run's seed and the connection's number, so that a run
// can be repeated and no two connections walk the same sequence; drawn is the
// run's, for Sequential.
func picker(cfg *Config, conn int, drawn *atomic.Uint64) func() uint64 {
	r := rand.New(rand.NewPCG(cfg.Seed, uint64(conn)))
	switch cfg.Distribution {
	case Hot:
		return func() uint64 { return 0 }
	case Zipf:
		return rand.NewZipf(r, cfg.ZipfS, 1, cfg.Keys-1).Uint64
	case Sequential:
		return func() uint64 { return (drawn.Add(1) - 1) % cfg.Keys }
	}
	return func() uint64 { return r.Uint64N(cfg.Keys) }
}
