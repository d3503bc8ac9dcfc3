package keycopy

import (
	"context"
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
	refused := map[string]error{}
	cfg := Config{Refused: func(key string, why error) { refused[key] = why }, From: from, To: to, Match: "rl:*", Progress: func(t Totals) { told = t }}
	got, err := Copy(ctx, cfg)
	require.NoError(t, err)
	require.Equal(t, Totals{Copied: 7, Kept: 1, Unsupported: 1, TooLarge: 1}, got)
	require.Equal(t, got, told)
	require.Len(t, refused, 2)
	require.EqualError(t, refused["rl:stream"], "the target does not hold the type stream")
	require.EqualError(t, refused["rl:large"], fmt.Sprintf("the target holds values of this type up to a size of %d, and this one has %d", packed.MaxBytes, packed.MaxBytes+1))
	for _, read := range [][]any{
		{"GET", "rl:string"}, {"GET", "rl:" + binary}, {"HGETALL", "rl:hash"}, {"ZRANGE", "rl:zset", 0, -1, "WITHSCORES"},
		{"LRANGE", "rl:list", 0, -1}, {"SMISMEMBER", "rl:set", "a", "b", binary}, {"SCARD", "rl:set"},
	} {
		require.Equal(t, from.Do(ctx, read...).Val(), to.Do(ctx, read...).Val(), read)
	}
	for key, ttl := range map[string]time.Duration{"rl:string": time.Hour, "rl:hash": time.Minute} {
		ends := to.PExpireTime(ctx, key).Val()
		require.InDelta(t, from.PExpireTime(ctx, key).Val().Milliseconds(), ends.Milliseconds(), 2, "%s, %v", key, ttl)
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
	refused := map[string]error{}
	got, err := Copy(ctx, Config{From: from, To: to, Refused: func(key string, why error) { refused[key] = why }})
	require.NoError(t, err)
	require.Equal(t, 2, got.Failed)
	require.Len(t, refused, 2)
	require.ErrorContains(t, refused["a"], "OOM")

	require.NoError(t, to.Close())
	_, err = Copy(ctx, Config{From: from, To: to})
	require.True(t, errors.Is(err, redis.ErrClosed), err)
}

// slowTarget delays what is written, as a busy machine does.
type slowTarget struct{}

func (slowTarget) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (slowTarget) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (slowTarget) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(100 * time.Millisecond)
		return next(ctx, cmds)
	}
}

// A key expires at the same moment at both ends, however long the copy takes.
func TestCopyKeepsTheMomentOfExpiry(t *testing.T) {
	ctx := t.Context()
	from, to := client(t, redistest.Start(t), 0), client(t, redistest.Start(t), 0)
	require.NoError(t, from.Set(ctx, "a", 1, time.Minute).Err())
	to.AddHook(slowTarget{})
	_, err := Copy(ctx, Config{From: from, To: to})
	require.NoError(t, err)
	require.InDelta(t, from.PExpireTime(ctx, "a").Val().Milliseconds(), to.PExpireTime(ctx, "a").Val().Milliseconds(), 2)
}
