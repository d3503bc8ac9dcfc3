package reservation_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = int64(1_800_000_000) * second
)

var eachAlgorithm = []algo.Algorithm{algo.Token, algo.Leaky, algo.Fixed, algo.Sliding, algo.Log}

func TestARecordIsReadAsWritten(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var reader reservation.Reader // whatever it has read before
	for range 2000 {
		r := reservation.Record{State: reservation.State(1 + rnd.IntN(6)), Named: rnd.IntN(2) == 0, Listed: rnd.IntN(2) == 0, Charges: rnd.IntN(2) == 0, Part: rnd.IntN(2) == 0, Asked: rnd.IntN(2) == 0, Ends: rnd.Int64(), Keep: rnd.Int64N(reservation.MaxKeep), Version: rnd.Uint64(), Applied: rnd.IntN(16)}
		for range rnd.IntN(4) {
			r.Limits = append(r.Limits, reservation.Held{
				Key: fmt.Appendf(nil, "@p:%d;user=%d", rnd.IntN(3), rnd.IntN(100)), Limit: algo.Limit{Algorithm: eachAlgorithm[rnd.IntN(5)].OfPolicy(), Limit: 1 + rnd.Int64N(1000), Period: minute, Resets: uint16(rnd.IntN(3))},
				Mode: algo.Mode(rnd.IntN(3)), Cost: rnd.Int64N(algo.MaxCount), Debt: rnd.Int64N(9), Name: "l", CostBy: []string{"", "tokens"}[rnd.IntN(2)], Each: rnd.Int64N(9),
				Receipt: algo.Receipt{Generation: rnd.Uint32(), Taken: algo.Span{NS: rnd.Uint64(), Frac: rnd.Uint32()}, Stamp: algo.Span{NS: rnd.Uint64(), Frac: rnd.Uint32()}},
			})
			l := &r.Limits[len(r.Limits)-1]
			l.Limit.Scalings, l.Limit.Burst = uint16(rnd.IntN(2)), rnd.Int64N(2)*burstOf(l.Limit)
			if l.Receipt.Whole = rnd.IntN(2) == 0; l.Receipt.Whole {
				l.Receipt.Taken = algo.Span{}
			}
		}
		if r.State != reservation.Open && len(r.Limits) == 0 {
			r.Ends = 0
		}
		if r.State == reservation.Committed || r.State == reservation.Cancelled {
			r.Answer = reservation.Settled{State: r.State, Name: "l", Decision: algo.Decision{OK: true, Limit: rnd.Int64(), Remaining: rnd.Int64(), RetryAfter: algo.Never}, Over: rnd.Int64N(5), Version: r.Version, Applied: r.Applied}
		}
		if r.Named {
			r.Print = reservation.Fingerprint{byte(rnd.Uint32()), 15: byte(rnd.Uint32())}
			r.First = reservation.Settled{Name: "first", Decision: algo.Decision{OK: true, Limit: rnd.Int64(), Remaining: rnd.Int64(), Delay: 3}}
		}
		b := reservation.Append(nil, &r)
		require.Zero(t, len(b)%8)
		got, ok := reservation.Read(append(b, make([]byte, 8*rnd.IntN(3))...))
		require.True(t, ok)
		require.Equal(t, r, got)
		for range 20 { // what is damaged is refused, or reads as something
			bad := bytes.Clone(b)
			bad[rnd.IntN(len(bad))] = byte(rnd.Uint32())
			if rnd.IntN(2) == 0 {
				bad = bad[:rnd.IntN(len(bad)+1)]
			}
			got, ok := reservation.Read(bad)
			for range 2 {
				require.Equal(t, ok, reader.Read(bad))
			}
			if ok && len(got.Limits) > 0 {
				require.Equal(t, got, reader.Record)
			}
		}
	}
}

// burstOf is a burst that a limit may have.
func burstOf(l algo.Limit) int64 {
	if l.Algorithm.Decider() == algo.Token {
		return l.Limit
	}
	return 0
}
