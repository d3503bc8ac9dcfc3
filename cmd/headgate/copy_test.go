package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
)

// A Redis server's keys arrive at a server of ours, which then answers as Redis
// did.
func TestCopyCommand(t *testing.T) {
	ctx := t.Context()
	from := redistest.Start(t)
	to := start(t)
	open := func(addr string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, DB: 1, Protocol: 2})
		t.Cleanup(func() { c.Close() })
		return c
	}
	source, target := open(from), open(to.redis)
	require.NoError(t, source.Set(ctx, "rl:counter", 41, time.Hour).Err())
	require.NoError(t, source.Set(ctx, "rl:text", "a\x00\r\n", 0).Err())
	require.NoError(t, source.HSet(ctx, "rl:hash", "tokens", "9.5", "last", "1700000000.25").Err())
	require.NoError(t, source.ZAdd(ctx, "rl:zset", redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: 1, Member: "b"}).Err())
	require.NoError(t, source.SAdd(ctx, "rl:set", "a", "b").Err())
	require.NoError(t, source.RPush(ctx, "rl:list", "a", "b", "a").Err())
	require.NoError(t, source.PFAdd(ctx, "other", "a").Err())
	require.NoError(t, source.XAdd(ctx, &redis.XAddArgs{Stream: "rl:stream", Values: []string{"a", "b"}}).Err())

	url := func(addr string) string { return fmt.Sprintf("redis://%s/1", addr) }
	var stdout, stderr bytes.Buffer
	err := run(context.Background(), []string{"copy", "--from", url(from), "--to", url(to.redis), "--match", "rl:*"}, &stdout, &stderr)
	require.EqualError(t, err, "1 of 7 keys were not copied")
	require.Contains(t, stderr.String(), `not copied: key "rl:stream": the target does not hold the type stream`)
	require.Equal(t, "copied 6, kept 0 that the target already had, 0 expired or were deleted during the copy; not copied: 1 of another type, 0 too large, 0 failed\n", stdout.String())
	for _, read := range [][]any{
		{"INCR", "rl:counter"}, {"GET", "rl:text"}, {"HGETALL", "rl:hash"}, {"ZRANGE", "rl:zset", 0, -1, "WITHSCORES"},
		{"SMISMEMBER", "rl:set", "a", "b"}, {"LRANGE", "rl:list", 0, -1}, {"TTL", "rl:text"},
	} {
		require.Equal(t, source.Do(ctx, read...).Val(), target.Do(ctx, read...).Val(), read)
	}
	left := target.TTL(ctx, "rl:counter").Val()
	require.Greater(t, left, 59*time.Minute)
	require.LessOrEqual(t, left, time.Hour)

	// And back.
	require.NoError(t, source.FlushDB(ctx).Err())
	require.NoError(t, target.Del(ctx, "rl:counter").Err())
	require.NoError(t, run(context.Background(), []string{"copy", "--from", url(to.redis), "--to", url(from)}, &stdout, &stderr))
	require.Equal(t, target.HGetAll(ctx, "rl:hash").Val(), source.HGetAll(ctx, "rl:hash").Val())
	require.EqualValues(t, 5, source.DBSize(ctx).Val())
	require.NoError(t, target.Do(ctx, "RL.LIMIT", "own", 5, "1h").Err())
	err = run(context.Background(), []string{"copy", "--from", url(to.redis), "--to", url(from)}, &stdout, &stderr)
	require.EqualError(t, err, "1 of 6 keys were not copied")

	for _, args := range [][]string{{"copy"}, {"copy", "--from", "localhost"}, {"copy", "--from", "redis://127.0.0.1:1"}, {"copy", "--from", url(from), "--to", "redis://127.0.0.1:1"}} {
		require.Error(t, run(context.Background(), args, &stdout, &stderr), args)
	}
}

// A server that is away is one line, without the log of the Redis client.
func TestCopyWithoutServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	away := l.Addr().String()
	require.Equal(t, "headgate: source: dial tcp "+away+": connect: connection refused\n", fails(t, command(t, "copy", "--from=redis://"+away)))
}
