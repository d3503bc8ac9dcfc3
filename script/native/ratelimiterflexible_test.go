package native

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const shaFlexible = "a1de965f42e177aa339706bd580f049065eca79a"

func TestRateLimiterFlexible(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "*2 :2 :10000", r.run(shaFlexible, "k", "2 10 5 10"))
	r.now += int64(1500 * time.Millisecond)
	require.Equal(t, "*2 :3 :8500", r.run(shaFlexible, "k", "1 10"), "the first window stays")
	require.Equal(t, "*2 :1 :8500", r.run(shaFlexible, "k", "-2 99"))
	r.now++
	require.Equal(t, "*2 :1 :8500", r.run(shaFlexible, "k", "0 99"), "what has begun of a ms counts")
	r.now += int64(8500 * time.Millisecond)
	require.Equal(t, "*2 :1 :3000", r.run(shaFlexible, "k", "1 3"), "the window has passed")

	r.set("blocked", "100", 0)
	require.Equal(t, "*2 :101 :7000", r.run(shaFlexible, "blocked", "1 7"), "one that never expired does")
}

func TestRateLimiterFlexibleDeclines(t *testing.T) {
	r := newRig(t)
	for _, args := range []string{"1", "x 10", "1 x", "1.5 10", "1 1.5", "1 0", "1 -1", "1 99999999999999"} {
		require.Equal(t, declined, r.run(shaFlexible, "k", args), args)
	}
	require.EqualValues(t, -2, r.left("k"))
	r.set("text", "x", 0)
	r.set("full", "9223372036854775807", 0)
	r.hset("hash", "a 1")
	for _, key := range []string{"text", "full", "hash"} {
		require.Equal(t, declined, r.run(shaFlexible, key, "1 10"))
		require.EqualValues(t, -1, r.left(key))
	}
}
