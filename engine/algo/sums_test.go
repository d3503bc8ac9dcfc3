package algo

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// However blocks come and go, the sums of an Outstanding are those of its entries, and Ends
// looks at enough entries.
func TestTheSumsOfAnOutstandingAreThoseOfItsEntries(t *testing.T) {
	const second = 1_000_000_000
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		r := Compile(Limit{Limit: 1 + rnd.Int64N(5000), Period: 1 + rnd.Int64N(20*second), Algorithm: [...]Algorithm{Token, Token, Fixed}[rnd.IntN(3)]})
		now := int64(1_800_000_000 * second)
		var o Outstanding
		var blocks []Block
		for range 200 {
			now += rnd.Int64N(second / 10)
			o.Forget(now)
			if at := rnd.IntN(len(blocks) + 1); at < len(blocks) && rnd.IntN(2) == 0 {
				if blocks[at].Deadline > now {
					o.remove(&r, &blocks[at], now)
				}
				blocks = append(blocks[:at], blocks[at+1:]...)
			} else {
				b := Block{Began: now, RefillEnds: now, Deadline: now + 1 + rnd.Int64N(3*second), Units: rnd.Int64N(r.Burst) + 1}
				if rnd.IntN(2) == 0 && r.Decides == Token {
					b.Refill, b.RefillEnds = 1+rnd.Int64N(50), now+1+rnd.Int64N(second)
				}
				blocks = append(blocks, b)
				o.add(&r, &b)
			}
			for _, at := range []int64{now, now + rnd.Int64N(second)} {
				var all Due
				ends := at
				for i := range o.due {
					d := &o.due[i]
					if d.At <= at {
						continue
					}
					all.Units, all.Blocks, all.Inflow = all.Units+d.Units, all.Blocks+d.Blocks, all.Inflow+d.Inflow
					ends = max(ends, d.At)
					if r.Decides != Token {
						continue
					}
					units, inflow := int64(0), Span{}
					for _, later := range o.due[i:] {
						units, inflow = units+later.Units, inflow.add(flowed(later.Inflow, later.At-d.At))
					}
					ends = max(ends, filled(&r, units).add(inflow).after(d.At).TAT+1)
				}
				units, n := o.Sum(at)
				require.Equal(t, all, Due{Units: units, Blocks: n, Inflow: o.Reserved(at)})
				require.InDelta(t, ends, o.Ends(&r, at), float64(len(o.due)), "each entry may be rounded")
			}
		}
	}
}
