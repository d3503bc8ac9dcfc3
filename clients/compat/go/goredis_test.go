package clients_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// goRedis adapts go-redis to client.
type goRedis struct{ *redis.Client }

func goRedisOptions(at endpoint, protocol int) *redis.Options {
	o := &redis.Options{Addr: at.addr, Password: at.password, Protocol: protocol}
	if at.tls != nil {
		o.TLSConfig = at.tls.Clone()
	}
	return o
}

func newGoRedis(t *testing.T, at endpoint, protocol int) *redis.Client {
	c := redis.NewClient(goRedisOptions(at, protocol))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func dialGoRedis(protocol int) func(*testing.T, endpoint) client {
	return func(t *testing.T, at endpoint) client { return goRedis{newGoRedis(t, at, protocol)} }
}

func (c goRedis) do(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	reply, err := c.Do(ctx, args...).Result()
	return goRedisValue(reply), err
}

func (c goRedis) pipeline(commands [][]any) ([]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	p := c.Pipeline()
	for _, args := range commands {
		p.Do(ctx, args...)
	}
	done, err := p.Exec(ctx)
	if err != nil {
		return nil, err
	}
	replies := make([]any, len(done))
	for i, cmd := range done {
		replies[i] = goRedisValue(cmd.(*redis.Cmd).Val())
	}
	return replies, nil
}

func (goRedis) serverError(err error) (string, bool) {
	var e redis.Error
	if !errors.As(err, &e) {
		return "", false
	}
	return e.Error(), true
}

// goRedisValue names the keys of go-redis's untyped maps.
func goRedisValue(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = goRedisValue(v[i])
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for name, value := range v {
			m[fmt.Sprint(name)] = goRedisValue(value)
		}
		return m
	}
	return v
}

// forGoRedis runs a test in both protocols.
func forGoRedis(t *testing.T, test func(*testing.T, *redis.Client)) {
	for protocol := 2; protocol <= 3; protocol++ {
		t.Run(fmt.Sprintf("resp%d", protocol), func(t *testing.T) { test(t, newGoRedis(t, plain(), protocol)) })
	}
}

func TestGoRedisTransaction(t *testing.T) {
	forGoRedis(t, func(t *testing.T, c *redis.Client) {
		ctx, key := t.Context(), newKey()
		done, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, "CL.THROTTLE", key, 4, 5, 3600)
			p.Do(ctx, "INCREX", key) // the wrong type of key
			p.Do(ctx, "CL.THROTTLE", key, 4, 5, 3600)
			return nil
		})
		require.ErrorContains(t, err, "WRONGTYPE")
		require.Len(t, done, 3)
		require.Equal(t, ints(0, 5, 4, -1, 720), done[0].(*redis.Cmd).Val())
		require.ErrorContains(t, done[1].Err(), "WRONGTYPE")
		require.Equal(t, ints(0, 5, 3, -1, 1440), done[2].(*redis.Cmd).Val(), "an error does not undo the others")

		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, "CL.THROTTLE", key, 4, 5, 3600)
			p.Do(ctx, "CL.THROTTLE", key) // refused when queued
			return nil
		})
		require.Error(t, err)
		reply, err := c.Do(ctx, "CL.THROTTLE", key, 4, 5, 3600, 0).Slice()
		require.NoError(t, err)
		require.Equal(t, int64(3), reply[2], "an aborted transaction runs nothing")
	})
}

func TestGoRedisWatch(t *testing.T) {
	forGoRedis(t, func(t *testing.T, c *redis.Client) {
		ctx, key := t.Context(), newKey()
		charge := func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				return p.Do(ctx, "RL.LIMIT", key, 10, "1d").Err()
			})
			return err
		}
		require.NoError(t, c.Watch(ctx, charge, key))
		err := c.Watch(ctx, func(tx *redis.Tx) error {
			require.NoError(t, c.Do(ctx, "RL.LIMIT", key, 10, "1d").Err()) // on another connection
			return charge(tx)
		}, key)
		require.ErrorIs(t, err, redis.TxFailedErr)
	})
}

func TestGoRedisPubSub(t *testing.T) {
	forGoRedis(t, func(t *testing.T, c *redis.Client) {
		ctx, channel := t.Context(), newKey()
		sub := c.Subscribe(ctx, channel)
		defer sub.Close()
		_, err := sub.Receive(ctx) // the confirmation
		require.NoError(t, err)
		require.NoError(t, sub.PSubscribe(ctx, channel+":*"))
		_, err = sub.Receive(ctx)
		require.NoError(t, err)
		require.NoError(t, sub.Ping(ctx))

		n, err := c.Publish(ctx, channel, "one").Result()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.NoError(t, c.Publish(ctx, channel+":x", "two").Err())
		for _, want := range []redis.Message{
			{Channel: channel, Payload: "one"},
			{Channel: channel + ":x", Pattern: channel + ":*", Payload: "two"},
		} {
			got, err := sub.ReceiveMessage(ctx) // passes over the PONG
			require.NoError(t, err)
			require.Equal(t, want, *got)
		}
	})
}

func TestGoRedisShardedPubSub(t *testing.T) {
	forGoRedis(t, func(t *testing.T, c *redis.Client) {
		ctx, channel := t.Context(), newKey()
		sub := c.SSubscribe(ctx, channel)
		defer sub.Close()
		_, err := sub.Receive(ctx) // the confirmation
		require.NoError(t, err)
		n, err := c.SPublish(ctx, channel, "one").Result()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		got, err := sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, redis.Message{Channel: channel, Payload: "one"}, *got)
		require.Equal(t, map[string]int64{channel: 1}, c.PubSubShardNumSub(ctx, channel).Val())
		require.Equal(t, map[string]int64{channel: 0}, c.PubSubNumSub(ctx, channel).Val())
		require.Equal(t, []string{channel}, c.PubSubShardChannels(ctx, channel).Val())
	})
}

func TestGoRedisScanIterator(t *testing.T) {
	forGoRedis(t, func(t *testing.T, c *redis.Client) {
		ctx, prefix := t.Context(), newKey()
		var want []string
		p := c.Pipeline()
		for i := range 500 {
			want = append(want, fmt.Sprintf("%s:%03d", prefix, i))
			p.Do(ctx, "RL.LIMIT", want[i], 10, "1d")
		}
		_, err := p.Exec(ctx)
		require.NoError(t, err)
		var got []string
		for it := c.Scan(ctx, 0, prefix+":*", 50).Iterator(); it.Next(ctx); {
			got = append(got, it.Val())
			require.NoError(t, it.Err())
		}
		slices.Sort(got)
		require.Equal(t, want, slices.Compact(got))

		keys, _, err := c.ScanType(ctx, 0, prefix+":*", 100000, "string").Result()
		require.NoError(t, err)
		require.Empty(t, keys)
		n, err := c.Unlink(ctx, want...).Result()
		require.NoError(t, err)
		require.EqualValues(t, len(want), n)
	})
}

func TestGoRedisIncrEX(t *testing.T) {
	forGoRedis(t, func(t *testing.T, c *redis.Client) {
		ctx, key := t.Context(), newKey()
		args := redis.IncrEXIntArgs{
			By: 3, HasBy: true, UBound: 5, HasUBound: true,
			Expiration: &redis.ExpirationOption{Mode: redis.EX, Value: 60}, ENX: true,
		}
		for _, want := range []redis.IncrEXIntResult{{Value: 3, AppliedIncrement: 3}, {Value: 3}} {
			got, err := c.IncrEXInt(ctx, key, args).Result()
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		got, err := c.IncrEXFloat(ctx, newKey(), redis.IncrEXFloatArgs{By: 0.5, UBound: 1, HasUBound: true}).Result()
		require.NoError(t, err)
		require.Equal(t, redis.IncrEXFloatResult{Value: 0.5, AppliedIncrement: 0.5}, got)
		ttl, err := c.TTL(ctx, key).Result()
		require.NoError(t, err)
		require.InDelta(t, time.Minute, ttl, float64(2*time.Second))
	})
}

// TestGoRedisPool checks that many tasks share few connections, and that the
// server tells them by the name that each was given.
func TestGoRedisPool(t *testing.T) {
	o := goRedisOptions(plain(), 3)
	o.PoolSize, o.MinIdleConns, o.ClientName = 5, 2, "pool-test"
	c := redis.NewClient(o)
	defer c.Close()
	ctx, key := t.Context(), newKey()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 10 {
				if err := c.Do(ctx, "RL.LIMIT", key, 1000, "1d").Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, c.PoolStats().TotalConns, uint32(5))
	require.Zero(t, c.PoolStats().Timeouts)
	reply, err := c.Do(ctx, "CL.THROTTLE", key, 999, 1000, 86400, 0).Slice()
	require.NoError(t, err)
	require.Equal(t, ints(0, 1000, 500), reply[:3], "another command sees the same bucket")
	list, err := c.ClientList(ctx).Result()
	require.NoError(t, err)
	require.Contains(t, list, "name=pool-test")
}

func TestGoRedisAuthentication(t *testing.T) {
	for protocol := 2; protocol <= 3; protocol++ {
		ctx := t.Context()
		at := endpoints()["auth"]
		at.password = "wrong"
		require.ErrorContains(t, newGoRedis(t, at, protocol).Ping(ctx).Err(), "WRONGPASS")
		at.password = ""
		require.ErrorContains(t, newGoRedis(t, at, protocol).Ping(ctx).Err(), "NOAUTH")
	}
}

func TestGoRedisTLSVerifies(t *testing.T) {
	at := endpoints()["tls"]
	at.tls = &tls.Config{}
	var unknown *tls.CertificateVerificationError
	require.ErrorAs(t, newGoRedis(t, at, 3).Ping(t.Context()).Err(), &unknown)
}
