package effects_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/effects/effectstest"
	"github.com/headgate-io/headgate/shard"
)

const (
	minute = int64(time.Minute)
	start  = int64(1_800_000_000) * int64(time.Second)
)

// eachAlgorithm are those of RL.LIMIT.
var eachAlgorithm = []algo.Algorithm{algo.Token, algo.Leaky, algo.Fixed, algo.Sliding, algo.Log}

// limits are limits by id.
type limits map[uint32]*algo.Limit

func (m limits) LimitOf(id uint32) *algo.Limit { return m[id] }

func (m limits) add(l algo.Limit) uint32 {
	id := uint32(len(m))
	m[id] = &l
	return id
}

// randomKey has long and short, shared and unshared parts.
func randomKey(rnd *rand.Rand) []byte {
	key := bytes.Repeat([]byte("prefix:"), rnd.IntN(5))
	if rnd.IntN(20) == 0 {
		key = bytes.Repeat([]byte("x"), rnd.IntN(shard.MaxKeyLen-100))
	}
	for range rnd.IntN(40) {
		key = append(key, byte('a'+rnd.IntN(3)))
	}
	return key
}

func TestEffectsAreReadAsWritten(t *testing.T) {
	deadlines := []int64{0, 1, start, start + minute, math.MaxInt64, math.MinInt64, -1}
	wordCounts := []int{0, 1, 1, 1, 2, 3, 10, 62, 63, 64, 300}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(1, seed))
		limits := make(limits)
		db := func() uint8 { return uint8(rnd.IntN(algo.Databases)) }
		ids := make([]uint32, 1+rnd.IntN(5))
		for i := range ids {
			l := algo.Limit{DB: db(), Algorithm: eachAlgorithm[rnd.IntN(len(eachAlgorithm))], Limit: 1 + int64(i), Period: minute}
			if rnd.IntN(2) == 0 {
				l.DB, l.Algorithm, l.Resets, l.Scalings = 0, l.Algorithm.OfPolicy(), uint16(rnd.Uint32()), uint16(rnd.Uint32())
			} else if rnd.IntN(3) == 0 {
				l = [...]algo.Limit{
					{Algorithm: algo.Token, Limit: 1 + int64(i), Period: minute, Burst: 7, Leased: true},
					{Algorithm: algo.Fixed, Limit: 1 + int64(i), Period: minute, Align: algo.First, Leased: true},
					{Algorithm: algo.Sliding, Limit: 1 + int64(i), Period: minute, Leased: true},
					{Algorithm: algo.LeaseRecord, DB: algo.LeaseSpace},
					{Algorithm: algo.BlockRecord, DB: algo.BlockSpace},
				}[rnd.IntN(5)]
			}
			ids[i] = limits.add(l)
		}
		most := 64 + rnd.IntN(4000)
		enc := effects.NewEncoder(limits, effects.FirstFormats, most, rnd.IntN(2*most))
		var want, got []effectstest.Effect
		for range rnd.IntN(200) {
			key := randomKey(rnd)
			if rnd.IntN(4) == 0 {
				of := db()
				enc.Remove(of, key)
				want = append(want, effectstest.Effect{Key: string(key), DB: of})
				continue
			}
			im := shard.Image{Key: key, Meta: ids[rnd.IntN(len(ids))], Deadline: deadlines[rnd.IntN(len(deadlines))] + rnd.Int64N(3)}
			im.State = make([]byte, 8*wordCounts[rnd.IntN(len(wordCounts))])
			for i := range im.State {
				if rnd.IntN(3) == 0 {
					im.State[i] = byte(rnd.Uint32())
				}
			}
			enc.Put(im)
			want = append(want, effectstest.Effect{Key: string(key), DB: limits[im.Meta].DB, Present: true, Limit: *limits[im.Meta], Deadline: im.Deadline, State: string(im.State)})
		}
		for _, p := range enc.Finish() {
			list := effectstest.ReadAll(t, p)
			require.NotEmpty(t, list)
			require.True(t, len(p) <= most || len(list) == 1, "a payload of %d bytes, at most %d", len(p), most)
			got = append(got, list...)
		}
		require.Equal(t, want, got, "seed %d", seed)
	}
}

func TestAnEffectIsSmall(t *testing.T) {
	limits := make(limits)
	id := limits.add(algo.Limit{Limit: 100, Period: 24 * 60 * minute})
	enc := effects.NewEncoder(limits, effects.FirstFormats, 1<<20, 0)
	rnd := rand.New(rand.NewPCG(2, 2))
	const n = 1000
	for range n {
		enc.Put(shard.Image{Key: fmt.Appendf(nil, "key:%012d", rnd.IntN(1_000_000)), Meta: id, Deadline: start + rnd.Int64N(24*60*minute), State: make([]byte, 8)})
	}
	require.Less(t, len(enc.Finish()[0]), 17*n)
}
