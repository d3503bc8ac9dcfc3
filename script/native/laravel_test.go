package native

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	shaAdd      = "a08c9c69b7c07ae2485190873b90d128a23e502d"
	shaRelease  = "647c65a442733a1aa440f99908d249d13b4d6c4a"
	shaThrottle = "29cc07bd431ccbf64637e5dcb60484560fdfa2da"
	shaTooMany  = "1c5d436d6863e949247f4fa66fa1e32b7fa18da9"
	shaFunnel   = "420ca604de4310d8301943a71390ee669720d640"
)

func TestLaravelAdd(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "+OK", r.run(shaAdd, "k", "i:0; 60"))
	require.Equal(t, "$-1", r.run(shaAdd, "k", "other 10"))
	value, left := r.get("k")
	require.Equal(t, "i:0;", value)
	require.EqualValues(t, 60_000, left)
	r.now += int64(time.Minute) + 1
	require.Equal(t, "+OK", r.run(shaAdd, "k", "0 1"), "it has expired")
	require.Equal(t, declined, r.run(shaAdd, "new", "0 0"))
	require.Equal(t, declined, r.run(shaAdd, "new", "0 x"))
	require.EqualValues(t, -2, r.left("new"))
}

func TestLaravelRelease(t *testing.T) {
	r := newRig(t)
	r.set("k", "owner", 60)
	require.Equal(t, ":0", r.run(shaRelease, "k", "another"))
	require.EqualValues(t, 60_000, r.left("k"))
	require.Equal(t, ":1", r.run(shaRelease, "k", "owner"))
	require.EqualValues(t, -2, r.left("k"))
	require.Equal(t, ":0", r.run(shaRelease, "k", "owner"))
	r.set("number", "12", 0)
	require.Equal(t, ":1", r.run(shaRelease, "number", "12"))
}

func TestLaravelThrottle(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "*2 :0 :1700000010", r.run(shaTooMany, "k", "1700000000.5 1700000000 10 2"))
	require.Equal(t, "*3 :1 :1700000010 :1", r.run(shaThrottle, "k", "1700000000.5 1700000000 10 2"))
	require.Equal(t, "start 1700000000 end 1700000010 count 1", r.hash("k"))
	require.EqualValues(t, 20_000, r.left("k"))
	require.Equal(t, "*3 :1 $10 1700000010 :0", r.run(shaThrottle, "k", "1700000009.5 1700000009 10 2"))
	require.Equal(t, "*2 $10 1700000010 :0", r.run(shaTooMany, "k", "1700000009.5 1700000009 10 2"))
	require.Equal(t, "*3 $-1 $10 1700000010 :-1", r.run(shaThrottle, "k", "1700000009.5 1700000009 10 2"))
	require.Equal(t, "start 1700000000 end 1700000010 count 3", r.hash("k"))

	// The caller's clock counts, and its text: 1700000010.1 is not at most
	// 1700000010, and 17000000101 begins like it.
	require.Equal(t, "*3 :1 :1700000020 :1", r.run(shaThrottle, "k", "1700000010.1 1700000010 10 2"))
	require.Equal(t, "*3 $-1 $10 1700000020 :-1", r.run(shaThrottle, "k", "1700000011 1700000011 10 1"))
	require.Equal(t, "*3 :1 :170000009 :1", r.run(shaThrottle, "k", "16 169999999 10 2"), "before the window")
}

func TestLaravelThrottleDeclines(t *testing.T) {
	r := newRig(t)
	for _, args := range []string{"1 1 10", "1 x 10 2", "1 1 x 2", "1 1 10 x", "1 1 0 2", "1 1.5 10 2"} {
		require.Equal(t, declined, r.run(shaThrottle, "k", args), args)
	}
	require.EqualValues(t, -2, r.left("k"))
	for i, pairs := range []string{"end 5 count 1", "start 1 count 1", "start 1 end 5", "start 1 end 5 count x", "start 1 end 5 count 1.5"} {
		key := "hash" + strconv.Itoa(i)
		r.hset(key, pairs)
		require.Equal(t, declined, r.run(shaThrottle, key, "3 3 10 2"), pairs)
		require.Equal(t, declined, r.run(shaTooMany, key, "3 3 10 2"), pairs)
		require.Equal(t, pairs, r.hash(key))
	}
}

func TestLaravelFunnel(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "$2 f1", r.run(shaFunnel, "f1 f2", "f 60 me"))
	require.Equal(t, "$2 f2", r.run(shaFunnel, "f1 f2", "f 60 you"))
	require.Equal(t, "$-1", r.run(shaFunnel, "f1 f2", "f 60 he"))
	value, left := r.get("f2")
	require.Equal(t, "you", value)
	require.EqualValues(t, 60_000, left)
	require.Equal(t, ":1", r.run("a50243715157b186c5162c69e02eff3bf0c7994a", "f1", "me"))
	require.Equal(t, "$2 f1", r.run(shaFunnel, "f1 f2", "f 60 he"))
	r.hset("hash", "a 1")
	require.Equal(t, declined, r.run(shaFunnel, "f1 hash", "f 60 me"))
	require.Equal(t, declined, r.run(shaFunnel, "f1", "f 0 me"))
}
