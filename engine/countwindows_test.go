package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// Windows agree with a slow model, over edits and resets.
func TestCountWindowsAgainstModel(t *testing.T) {
	e := engine.New(engine.Config{Shards: 8})
	s := e.NewSession()
	rnd := rand.New(rand.NewPCG(1, 2))
	type held struct {
		window, count int64
		resets        uint16
	}
	model := map[string]held{}
	now, resets := int64(1_700_000_000e9), uint16(1)
	for i := range 20_000 {
		now += rnd.Int64N(2e9)
		if rnd.IntN(500) == 0 {
			resets++
		}
		var checks []engine.Check
		var units []int64
		peek := rnd.IntN(5) == 0
		for _, k := range rnd.Perm(6)[:1+rnd.IntN(4)] {
			key := fmt.Sprint("@p:descriptors;", k)
			ready, err := s.Ready(algo.Limit{Algorithm: algo.PolicyFixed, Limit: 1 + rnd.Int64N(3), Period: int64(k+1) * 1e9, Resets: resets})
			require.NoError(t, err)
			checks = append(checks, engine.Check{Key: []byte(key), Hash: e.Table().Hash([]byte(key)), Limit: ready, TooMuch: true})
			u := rnd.Int64N(9) - 3
			if rnd.IntN(50) == 0 {
				u = []int64{math.MaxInt64, math.MinInt64, algo.MaxCount}[rnd.IntN(3)]
			}
			units = append(units, u)
		}
		out := make([]engine.Counted, len(checks))
		require.NoError(t, s.CountWindows(now, checks, units, engine.CheckOptions{Peek: peek}, out))
		for j := range checks {
			period := checks[j].Limit.Limit().Period
			h := model[string(checks[j].Key)]
			if h.window != now/period || h.resets != resets {
				h = held{window: now / period, resets: resets}
			}
			before := h.count
			switch u := units[j]; {
			case u > 0 && u > algo.MaxCount-h.count:
				h.count = algo.MaxCount
			case u < -h.count:
				h.count = 0
			default:
				h.count += u
			}
			require.Equal(t, engine.Counted{h.count, before, period - now%period}, out[j], "step %d", i)
			if !peek {
				model[string(checks[j].Key)] = h
			}
		}
	}
	require.NoError(t, s.CountWindows(now, nil, nil, engine.CheckOptions{}, nil))
	top := e.Top(engine.TopDenied, 10)
	require.NotEmpty(t, top)
}

// A step is atomic: a refused step changes nothing.
func TestCountWindowsRefuses(t *testing.T) {
	e := engine.New(engine.Config{Shards: 8})
	s := e.NewSession()
	ready := func(resets uint16) engine.Ready {
		r, err := s.Ready(algo.Limit{Algorithm: algo.PolicyFixed, Limit: 1, Period: 1e9, Resets: resets})
		require.NoError(t, err)
		return r
	}
	check := func(key string, resets uint16) engine.Check {
		return engine.Check{Key: []byte(key), Hash: e.Table().Hash([]byte(key)), Limit: ready(resets)}
	}
	count := func(checks ...engine.Check) ([]engine.Counted, error) {
		out, units := make([]engine.Counted, len(checks)), make([]int64, len(checks))
		for i := range units {
			units[i] = 1
		}
		return out, s.CountWindows(1e18, checks, units, engine.CheckOptions{}, out)
	}
	_, err := count(check("a", 2))
	require.NoError(t, err)
	_, err = count(check("b", 1), check("a", 1))
	require.ErrorIs(t, err, engine.ErrStale)
	_, err = count(check("b", 1), check("b", 1))
	require.ErrorIs(t, err, engine.ErrDuplicateKey)
	many := make([]engine.Check, engine.MaxChecks+1)
	_, err = count(many...)
	require.ErrorIs(t, err, engine.ErrTooManyChecks)
	out, err := count(check("b", 1))
	require.NoError(t, err)
	require.EqualValues(t, 1, out[0].Units)
}
