package scenario

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The metronome sees a jump that is larger than what a reading can hide, however slow the answers. A rate that clocks
// may have is no jump.
func TestMetronome(t *testing.T) {
	for name, c := range map[string]struct {
		before, after int64 // ppm, the rates before and after a change of leaders
		jump          time.Duration
	}{
		"even":         {0, 0, 0},
		"at the worst": {-metronomeRate, metronomeRate, 0},
		"the reverse":  {metronomeRate, -metronomeRate, 0},
		"forward":      {-metronomeRate, 0, 5 * time.Millisecond},
		"back":         {0, 0, -30 * time.Millisecond},
	} {
		const change = 30 * time.Second
		clock := func(at time.Duration) time.Duration {
			if at < change {
				return at + at*time.Duration(c.before)/1_000_000
			}
			return at + change*time.Duration(c.before)/1_000_000 + (at-change)*time.Duration(c.after)/1_000_000 + c.jump
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		m := &metronome{}
		for at := time.Second; at < 2*change; at += 20 * time.Millisecond {
			way := time.Duration(rnd.Int64N(int64(2 * time.Millisecond)))
			back := time.Duration(rnd.Int64N(int64(2 * time.Millisecond)))
			wait := (time.Hour - clock(at+way)).Truncate(time.Millisecond) + time.Millisecond // rounded up
			m.sample(at, at+way+back, wait)
		}
		require.Equal(t, c.jump > 0, m.forward > metronomeTick, "%s: %v forward", name, m.forward)
		require.Equal(t, c.jump < 0, m.back > lostByChange, "%s: %v back", name, m.back)
	}
}
