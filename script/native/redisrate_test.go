package native

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	shaAllowN      = "f52a5b566060d79fd321d695df55bc918339c4aa"
	shaAllowAtMost = "054143318f521948424aa25df61d7f7ba835a9d7"
)

// exactRate is the oracle: a GCRA in fractions, which have no rounding.
type exactRate struct{ tat *big.Rat }

func (x *exactRate) allow(now, ei *big.Rat, burst, cost int64, most bool) (granted, remaining int64) {
	if x.tat == nil || x.tat.Cmp(now) < 0 {
		x.tat = now
	}
	left := new(big.Rat).Sub(new(big.Rat).Mul(ei, rat(burst, 1)), new(big.Rat).Sub(x.tat, now))
	units := new(big.Rat).Quo(left, ei)
	spent := new(big.Rat).Mul(ei, rat(cost, 1))
	switch {
	case !most && units.Cmp(rat(cost, 1)) < 0, most && units.Cmp(rat(1, 1)) < 0:
		return 0, 0
	case units.Cmp(rat(cost, 1)) < 0:
		spent, cost, units = left, floor(units), rat(floor(units), 1)
	}
	x.tat = new(big.Rat).Add(x.tat, spent)
	return cost, floor(units.Sub(units, rat(cost, 1)))
}

func floor(x *big.Rat) int64 { return new(big.Int).Div(x.Num(), x.Denom()).Int64() }

// redis_rate grants, and reports as left, exactly what its arguments mean, for
// any rate and any number of calls.
func TestRedisRateIsExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		r := newRig(t)
		var oracle exactRate
		rate, burst, ms := 1+rnd.Int64N(30), 1+rnd.Int64N(20), []int64{1, 100, 1000, 60_000, 3_600_000}[rnd.IntN(5)]
		ei := rat(ms, 1000*rate)
		period := strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", ms/1000, ms%1000), "0"), ".")
		for range 100 {
			cost, most := rnd.Int64N(4), rnd.IntN(2) == 0
			sha := shaAllowN
			if most {
				sha, cost = shaAllowAtMost, cost+1
			}
			granted, remaining := oracle.allow(rat(r.now/1000, 1_000_000), ei, burst, cost, most)
			args := fmt.Sprintf("%d %d %s %d", burst, rate, period, cost)
			reply := r.run(sha, "k", args)
			require.True(t, strings.HasPrefix(reply, fmt.Sprintf("*4 :%d :%d ", granted, remaining)),
				"round %d, %s: %s instead of %d %d", round, args, reply, granted, remaining)
			if rnd.IntN(2) == 0 {
				r.now += rnd.Int64N(1+2*ms*int64(time.Millisecond)/rate) / 1000 * 1000
			}
		}
	}
}

// A key holds seconds since 2017, as the Lua reads and writes them, and lives
// until they have passed, by the second.
func TestRedisRateStores(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "*4 :1 :9 $2 -1 $3 0.1", r.run(shaAllowN, "k", "10 10 1 1"))
	value, left := r.get("k")
	require.Equal(t, "316771200.223456000000", value)
	require.EqualValues(t, 1000, left)
	r.now += 1000
	require.Equal(t, "*4 :2 :7 $2 -1 $8 0.299999", r.run(shaAllowN, "k", "10 10 1 2"))
	require.Equal(t, "*4 :0 :0 $9 99.299999 $8 0.299999", r.run(shaAllowN, "k", "10 10 1 1000"))
	require.Equal(t, "*4 :0 :7 $2 -1 $8 0.299999", r.run(shaAllowN, "k", "10 10 1 0"))
	require.Equal(t, "*4 :7 :0 $2 -1 $1 1", r.run(shaAllowAtMost, "k", "10 10 1 20"))
	require.Equal(t, "*4 :0 :0 $3 0.1 $1 1", r.run(shaAllowAtMost, "k", "10 10 1 20"))

	// Values that the Lua has stored are read, to 8 decimals, and integers too.
	r.set("lua", "316771203.12345701", 100)
	require.Equal(t, "*4 :1 :8 $2 -1 $10 3.10000001", r.run(shaAllowN, "lua", "40 10 1 1"))
	r.set("whole", "316771201", 100)
	require.Equal(t, "*4 :1 :30 $2 -1 $8 0.976543", r.run(shaAllowN, "whole", "40 10 1 1"))
}

// A number that is not written plainly, or is too large, is left to the Lua, and
// nothing has changed.
func TestRedisRateDeclines(t *testing.T) {
	r := newRig(t)
	for _, args := range []string{
		"10 10 1", "x 10 1 1", "10 0 1 1", "10 -1 1 1", "-1 10 1 1", "10 10 0 1", "10 10 -1 1", "10 10 1e3 1", "10 10 1. 1", "10 10 .5 1",
		"10 10 1 -1", "10 10 1 1.5", "10 10 1 0x10", "10 10 10000000 1", "1000000 1 10000 1", "10 10 1.0000000000001 1", "10.5 10 1 1", "10 10 '' 1",
	} {
		require.Equal(t, declined, r.run(shaAllowN, "k", args), args)
		require.Equal(t, declined, r.run(shaAllowAtMost, "k", args), args)
	}
	require.EqualValues(t, -2, r.left("k"))
	for _, value := range []string{"x", "-1", "1e9", "316771200.", "316771200.1234567890123", "999999999", "''"} {
		r.set("k", strings.ReplaceAll(value, "''", ""), 0)
		require.Equal(t, declined, r.run(shaAllowN, "k", "10 10 1 1"), value)
		got, left := r.get("k")
		require.Equal(t, strings.ReplaceAll(value, "''", ""), got)
		require.EqualValues(t, -1, left)
	}
	r.hset("hash", "a 1")
	require.Equal(t, declined, r.run(shaAllowN, "hash", "10 10 1 1"))
	require.Equal(t, declined, r.run("b51fcf1fec2622e401ecd1495ba719a525362891", "new", "10 10 1 0"), "it stores for no time, an error")
}

// Versions before 9.1 round what remains to the nearest whole.
func TestRedisRateOldVersions(t *testing.T) {
	r := newRig(t)
	const allowN, atMost, gcra = "ed56c8a55853f0875fb1b3ec6a5f0d599ae50fb7", "879df209aa81c6045299275bd92eddc98dc3ba7d", "c63c96596849c7e5dd745dda1f81821c2f36a85d"
	require.Equal(t, "*4 :2 :0 $2 -1 $3 0.2", r.run(allowN, "k", "2 10 1 2"))
	r.now += int64(60 * time.Millisecond)
	require.Equal(t, "*4 :1 :0 $2 -1 $4 0.24", r.run(allowN, "k", "2 10 1 1"), "six tenths are a whole")
	require.Equal(t, "*4 :0 :0 $4 0.14 $4 0.24", r.run(allowN, "k", "2 10 1 1"))
	require.Equal(t, "*4 :1 :0 $4 0.14 $4 0.24", r.run(gcra, "k", "2 10 1 1"))
	require.Equal(t, "*4 :0 :9 $2 -1 $3 0.1", r.run(gcra, "other", "10 10 1 1"))
	require.Equal(t, "*4 :1 :2 $2 -1 $3 0.1", r.run(atMost, "most", "3 10 1 1"))
	require.Equal(t, "*4 :2 :0 $2 -1 $3 0.3", r.run(atMost, "most", "3 10 1 5"))
	require.Equal(t, "*4 :0 :0 $3 0.1 $3 0.3", r.run(atMost, "most", "3 10 1 5"))
}
