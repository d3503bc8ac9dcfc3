package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// The room for a copy may be that of its source.
func TestACopySurvivesTheEvictionOfItsSource(t *testing.T) {
	s := engine.New(engine.Config{Shards: 1, MaxBytes: 256 << 10, Evict: true}).NewSession()
	rnd := rand.New(rand.NewPCG(5, 5))
	value := func(i int) string { return string(bytes.Repeat(fmt.Appendf(nil, "%04d", i), 500)) }
	evicted := 0
	for i := range 3000 {
		from, to := fmt.Sprint("from", i), fmt.Sprint("to", i)
		set(t, s, from, value(i))
		done, err := s.Copy(start, []byte(from), []byte(to), uint8(rnd.IntN(2)), true)
		if err != nil {
			require.ErrorIs(t, err, engine.ErrNoKey)
			continue
		}
		require.True(t, done)
		for db := range uint8(2) {
			s.Use(db)
			if got := text(t, s, to); got != "(none)" {
				require.Equal(t, value(i), got)
			}
		}
		s.Use(0)
		if text(t, s, from) == "(none)" {
			evicted++
		}
	}
	require.Positive(t, evicted)
}
