package keycopy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/internal/redistest"
)

func client(t *testing.T, addr string, db int) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, DB: db, Protocol: 2})
	t.Cleanup(func() { c.Close() })
	return c
}

// Both ends are real: what arrives is compared by the servers' own answers. The
// test of headgate copy has Headgate as the target.
func TestCopy(t *testing.T) {
	ctx := t.Context()
	from, to := client(t, redistest.Start(t), 1), client(t, redistest.Start(t), 2)
	binary := "a\x00\r\n\xff"
	require.NoError(t, from.Set(ctx, "rl:string", binary, time.Hour).Err())
	require.NoError(t, from.Set(ctx, "rl:"+binary, "7", 0).Err())
	require.NoError(t, from.HSet(ctx, "rl:hash", "last", "1.5", "tokens", binary, "a", "1").Err())
	require.NoError(t, from.PExpire(ctx, "rl:hash", time.Minute).Err())
	var scores []redis.Z
	for i := range 2500 {
		scores = append(scores, redis.Z{Score: float64(i) / 3, Member: fmt.Sprint("m", i)})
	}
	require.NoError(t, from.ZAdd(ctx, "rl:zset", scores...).Err())
	const ages = int64(30_000_000_000_000) // ms, more than a time.Duration has
	require.NoError(t, from.Do(ctx, "SET", "rl:ages", 1, "PX", ages).Err())
	require.NoError(t, from.SAdd(ctx, "rl:set", "a", "b", binary).Err())
	require.NoError(t, from.RPush(ctx, "rl:list", "b", "a", binary, "a").Err())
	require.NoError(t, from.XAdd(ctx, &redis.XAddArgs{Stream: "rl:stream", Values: []string{"a", "b"}}).Err())
	require.NoError(t, from.Set(ctx, "rl:large", strings.Repeat("x", packed.MaxBytes+1), 0).Err())
	require.NoError(t, from.Set(ctx, "rl:kept", "source", 0).Err())
	require.NoError(t, to.Set(ctx, "rl:kept", "target", 0).Err())
	require.NoError(t, from.Set(ctx, "other", "1", 0).Err())

	var told Totals
	cfg := Config{From: from, To: to, Match: "rl:*", Progress: func(t Totals) { told = t }}
	got, err := Copy(ctx, cfg)
	require.NoError(t, err)
	require.Equal(t, Totals{Copied: 7, Kept: 1, Unsupported: 1, TooLarge: 1}, got)
	require.Equal(t, got, told)
	for _, read := range [][]any{
		{"GET", "rl:string"}, {"GET", "rl:" + binary}, {"HGETALL", "rl:hash"}, {"ZRANGE", "rl:zset", 0, -1, "WITHSCORES"},
		{"LRANGE", "rl:list", 0, -1}, {"SMISMEMBER", "rl:set", "a", "b", binary}, {"SCARD", "rl:set"},
	} {
		require.Equal(t, from.Do(ctx, read...).Val(), to.Do(ctx, read...).Val(), read)
	}
	for key, ttl := range map[string]time.Duration{"rl:string": time.Hour, "rl:hash": time.Minute} {
		left := to.PTTL(ctx, key).Val()
		require.LessOrEqual(t, left, ttl)
		require.Greater(t, left, ttl-30*time.Second)
	}
	require.EqualValues(t, -1, to.PTTL(ctx, "rl:zset").Val())
	left, err := to.Do(ctx, "PTTL", "rl:ages").Int64()
	require.NoError(t, err)
	require.InDelta(t, ages, left, 30_000)
	require.Equal(t, "target", to.Get(ctx, "rl:kept").Val())
	require.EqualValues(t, 8, to.DBSize(ctx).Val())

	cfg.Replace, cfg.Match = true, "rl:kept"
	got, err = Copy(ctx, cfg)
	require.NoError(t, err)
	require.Equal(t, Totals{Copied: 1}, got)
	require.Equal(t, "source", to.Get(ctx, "rl:kept").Val())
}

func TestCopyTellsWhatFailed(t *testing.T) {
	ctx := t.Context()
	from := client(t, redistest.Start(t), 0)
	to := client(t, redistest.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction"), 0)
	require.NoError(t, from.MSet(ctx, "a", 1, "b", 2).Err())
	got, err := Copy(ctx, Config{From: from, To: to})
	require.NoError(t, err)
	require.Equal(t, 2, got.Failed)
	require.ErrorContains(t, got.FirstError, "OOM")

	require.NoError(t, to.Close())
	_, err = Copy(ctx, Config{From: from, To: to})
	require.True(t, errors.Is(err, redis.ErrClosed), err)
}
