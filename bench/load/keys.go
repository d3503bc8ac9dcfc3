package load

import (
	"math/rand/v2"
	"sync/atomic"
)

// picker returns a source of key numbers below cfg.Keys: random ones, or with
// cfg.Sequential the next of the run, which drawn counts. The run's seed and the
// connection's number seed it. So a run can be repeated, and no two connections draw the
// same sequence.
func picker(cfg *Config, conn int, drawn *atomic.Uint64) func() uint64 {
	if cfg.Sequential {
		return func() uint64 { return (drawn.Add(1) - 1) % cfg.Keys }
	}
	r := rand.New(rand.NewPCG(cfg.Seed, uint64(conn)))
	return func() uint64 { return r.Uint64N(cfg.Keys) }
}
