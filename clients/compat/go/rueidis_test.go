package clients_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// rueidisClient adapts rueidis to client.
type rueidisClient struct{ rueidis.Client }

func newRueidis(t *testing.T, at endpoint, resp2 bool) rueidis.Client {
	o := rueidis.ClientOption{InitAddress: []string{at.addr}, Password: at.password}
	if at.tls != nil {
		o.TLSConfig = at.tls.Clone()
	}
	if resp2 {
		o.AlwaysRESP2, o.DisableCache = true, true // without RESP3 there is no cache
	}
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func dialRueidis(resp2 bool) func(*testing.T, endpoint) client {
	return func(t *testing.T, at endpoint) client { return rueidisClient{newRueidis(t, at, resp2)} }
}

func (c rueidisClient) build(args []any) rueidis.Completed {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = fmt.Sprint(a)
	}
	return c.B().Arbitrary(words...).Build()
}

func (c rueidisClient) do(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return c.Do(ctx, c.build(args)).ToAny()
}

func (c rueidisClient) pipeline(commands [][]any) ([]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	built := make(rueidis.Commands, len(commands))
	for i, args := range commands {
		built[i] = c.build(args)
	}
	replies := make([]any, len(commands))
	for i, r := range c.DoMulti(ctx, built...) {
		var err error
		if replies[i], err = r.ToAny(); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

func (rueidisClient) serverError(err error) (string, bool) {
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		return "", false
	}
	return e.Error(), true
}

// forRueidis runs a test in both protocols.
func forRueidis(t *testing.T, test func(*testing.T, rueidis.Client)) {
	t.Run("resp2", func(t *testing.T) { test(t, newRueidis(t, plain(), true)) })
	t.Run("resp3", func(t *testing.T) { test(t, newRueidis(t, plain(), false)) })
}

// TestRueidisBuilders uses the commands that rueidis has builders for.
func TestRueidisBuilders(t *testing.T) {
	forRueidis(t, func(t *testing.T, c rueidis.Client) {
		ctx, key := t.Context(), newKey()
		take := func(n int64) []int64 {
			cmd := c.B().Gcra().Key(key).MaxBurst(4).TokensPerPeriod(5).Period(3600).Count(n).Build()
			reply, err := c.Do(ctx, cmd).AsIntSlice()
			require.NoError(t, err)
			return reply
		}
		require.Equal(t, []int64{0, 5, 2, -1, 2160}, take(3))
		require.Equal(t, []int64{1, 5, 2, 720, 2160}, take(3))

		key = newKey()
		for _, want := range [][]int64{{3, 3}, {3, 0}} {
			cmd := c.B().Increx().Key(key).Byint(3).Ubound(5).ExSeconds(60).Enx().Build()
			got, err := c.Do(ctx, cmd).AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		n, err := c.Do(ctx, c.B().Exists().Key(key).Build()).AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	})
}

func TestRueidisTransaction(t *testing.T) {
	forRueidis(t, func(t *testing.T, c rueidis.Client) {
		ctx, key := t.Context(), newKey()
		err := c.Dedicated(func(c rueidis.DedicatedClient) error {
			charge := c.B().Arbitrary("CL.THROTTLE").Keys(key).Args("4", "5", "3600").Build().Pin()
			replies := c.DoMulti(ctx, c.B().Multi().Build(), charge, charge,
				c.B().Increx().Key(key).Build(), c.B().Exec().Build())
			require.Len(t, replies, 5)
			queued, err := replies[1].ToString()
			require.NoError(t, err)
			require.Equal(t, "QUEUED", queued)
			results, err := replies[4].ToArray()
			require.NoError(t, err)
			require.Len(t, results, 3)
			second, err := results[1].AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, []int64{0, 5, 3, -1, 1440}, second)
			require.ErrorContains(t, results[2].Error(), "WRONGTYPE")

			for _, r := range c.DoMulti(ctx, c.B().Multi().Build(), charge, c.B().Discard().Build()) {
				require.NoError(t, r.Error())
			}
			peek, err := c.Do(ctx, c.B().Arbitrary("CL.THROTTLE").Keys(key).Args("4", "5", "3600", "0").Build()).AsIntSlice()
			require.NoError(t, err)
			require.EqualValues(t, 3, peek[2], "what is discarded charges nothing")
			return nil
		})
		require.NoError(t, err)
	})
}

func TestRueidisPubSub(t *testing.T) {
	forRueidis(t, func(t *testing.T, c rueidis.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		channel := newKey()
		got := make(chan rueidis.PubSubMessage, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- c.Receive(ctx, c.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { got <- m })
		}()
		require.Eventually(t, func() bool {
			n, err := c.Do(ctx, c.B().Publish().Channel(channel).Message("hello").Build()).AsInt64()
			return err == nil && n == 1
		}, timeout, 10*time.Millisecond, "until the subscription has arrived")
		require.Equal(t, rueidis.PubSubMessage{Channel: channel, Message: "hello"}, <-got)
		require.NoError(t, c.Do(ctx, c.B().Unsubscribe().Channel(channel).Build()).Error())
		require.NoError(t, <-ended)
	})
}

func TestRueidisScan(t *testing.T) {
	forRueidis(t, func(t *testing.T, c rueidis.Client) {
		ctx, prefix := t.Context(), newKey()
		var want []string
		var commands rueidis.Commands
		for i := range 500 {
			want = append(want, fmt.Sprintf("%s:%03d", prefix, i))
			commands = append(commands, c.B().Arbitrary("RL.LIMIT").Keys(want[i]).Args("10", "1d").Build())
		}
		for _, r := range c.DoMulti(ctx, commands...) {
			require.NoError(t, r.Error())
		}
		scanner := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
			return c.Do(ctx, c.B().Scan().Cursor(cursor).Match(prefix+":*").Count(50).Build()).AsScanEntry()
		})
		got := slices.Sorted(scanner.Iter())
		require.NoError(t, scanner.Err())
		require.Equal(t, want, slices.Compact(got))
	})
}

// TestRueidisTracking checks the handshake that rueidis makes for its
// client-side cache, and that it asks for a password as Redis does.
func TestRueidisTracking(t *testing.T) {
	c := newRueidis(t, plain(), false)
	info, err := c.Do(t.Context(), c.B().ClientTrackinginfo().Build()).AsMap()
	require.NoError(t, err)
	flags, err := ptr(info["flags"]).AsStrSlice()
	require.NoError(t, err)
	require.Contains(t, flags, "on")

	at := endpoints()["auth"]
	_, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{at.addr}, Password: "wrong"})
	require.ErrorContains(t, err, "WRONGPASS")
}

// TestRueidisCache checks that what rueidis caches on its side, for an hour if
// nobody says otherwise, is never stale.
func TestRueidisCache(t *testing.T) {
	c, other := newRueidis(t, plain(), false), newRueidis(t, plain(), false)
	ctx, key := t.Context(), newKey()
	for i := range 50 {
		want := strconv.Itoa(i)
		require.NoError(t, other.Do(ctx, other.B().Set().Key(key).Value(want).Build()).Error())
		// What invalidates the last value comes right behind its reply.
		require.Eventually(t, func() bool {
			got, err := c.DoCache(ctx, c.B().Get().Key(key).Cache(), time.Hour).ToString()
			return err == nil && got == want
		}, timeout, time.Millisecond)
	}
}

func ptr[T any](v T) *T { return &v }
