package clients_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// redigoClient adapts a pool of redigo to client.
type redigoClient struct{ *redis.Pool }

func dialRedigo(t *testing.T, at endpoint) client { return redigoClient{newRedigo(t, at)} }

// newRedigo returns a pool as redigo's documentation sets one up: connections
// that have been idle are checked before use.
func newRedigo(t *testing.T, at endpoint) *redis.Pool {
	options := []redis.DialOption{redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout)}
	if at.password != "" {
		options = append(options, redis.DialPassword(at.password))
	}
	if at.tls != nil {
		options = append(options, redis.DialUseTLS(true), redis.DialTLSConfig(at.tls.Clone()))
	}
	p := &redis.Pool{
		MaxActive: 10, MaxIdle: 10, Wait: true,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", at.addr, options...) },
		TestOnBorrow: func(c redis.Conn, _ time.Time) error {
			_, err := c.Do("PING")
			return err
		},
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (c redigoClient) do(args ...any) (any, error) {
	conn := c.Get()
	defer conn.Close()
	reply, err := conn.Do(args[0].(string), args[1:]...)
	return redigoValue(reply), err
}

func (c redigoClient) pipeline(commands [][]any) ([]any, error) {
	conn := c.Get()
	defer conn.Close()
	for _, args := range commands {
		if err := conn.Send(args[0].(string), args[1:]...); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	for i := range replies {
		reply, err := conn.Receive()
		if err != nil {
			return nil, err
		}
		replies[i] = redigoValue(reply)
	}
	return replies, nil
}

func (redigoClient) serverError(err error) (string, bool) {
	var e redis.Error
	return string(e), errors.As(err, &e) && e != ""
}

// redigoValue makes strings of redigo's byte slices.
func redigoValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case []any:
		for i := range v {
			v[i] = redigoValue(v[i])
		}
	}
	return v
}

func TestRedigoTransaction(t *testing.T) {
	conn := newRedigo(t, plain()).Get()
	defer conn.Close()
	key := newKey()
	require.NoError(t, conn.Send("MULTI"))
	require.NoError(t, conn.Send("CL.THROTTLE", key, 4, 5, 3600))
	require.NoError(t, conn.Send("INCREX", key))
	require.NoError(t, conn.Send("CL.THROTTLE", key, 4, 5, 3600))
	replies, err := redis.Values(conn.Do("EXEC"))
	require.NoError(t, err)
	require.Len(t, replies, 3)
	require.Equal(t, ints(0, 5, 4, -1, 720), replies[0])
	require.IsType(t, redis.Error(""), replies[1])
	require.ErrorContains(t, replies[1].(error), "WRONGTYPE")
	require.Equal(t, ints(0, 5, 3, -1, 1440), replies[2])

	_, err = conn.Do("MULTI")
	require.NoError(t, err)
	_, err = conn.Do("CL.THROTTLE", key)
	require.Error(t, err)
	_, err = conn.Do("EXEC")
	require.ErrorContains(t, err, "EXECABORT")
}

func TestRedigoPubSub(t *testing.T) {
	pool := newRedigo(t, plain())
	channel := newKey()
	sub := redis.PubSubConn{Conn: pool.Get()}
	defer sub.Close()
	require.NoError(t, sub.Subscribe(channel))
	require.Equal(t, redis.Subscription{Kind: "subscribe", Channel: channel, Count: 1}, sub.Receive())
	require.NoError(t, sub.PSubscribe(channel+"*"))
	require.Equal(t, redis.Subscription{Kind: "psubscribe", Channel: channel + "*", Count: 2}, sub.Receive())
	require.NoError(t, sub.Ping("alive"))
	require.Equal(t, redis.Pong{Data: "alive"}, sub.Receive())

	conn := pool.Get()
	defer conn.Close()
	n, err := redis.Int(conn.Do("PUBLISH", channel, "hello"))
	require.NoError(t, err)
	require.Equal(t, 2, n, "the channel and the pattern")
	require.ElementsMatch(t, []any{
		redis.Message{Channel: channel, Data: []byte("hello")},
		redis.Message{Channel: channel, Pattern: channel + "*", Data: []byte("hello")},
	}, []any{sub.Receive(), sub.Receive()})
	require.NoError(t, sub.Unsubscribe())
	require.Equal(t, redis.Subscription{Kind: "unsubscribe", Channel: channel, Count: 1}, sub.Receive())
}

// TestRedigoScan iterates as redigo's users do: it has no iterator.
func TestRedigoScan(t *testing.T) {
	conn := newRedigo(t, plain()).Get()
	defer conn.Close()
	prefix := newKey()
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprintf("%s:%03d", prefix, i))
		_, err := conn.Do("RL.LIMIT", want[i], 10, "1d")
		require.NoError(t, err)
	}
	var got []string
	for cursor := 0; ; {
		reply, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", prefix+":*", "COUNT", 50))
		require.NoError(t, err)
		var batch []string
		_, err = redis.Scan(reply, &cursor, &batch)
		require.NoError(t, err)
		got = append(got, batch...)
		if cursor == 0 {
			break
		}
	}
	slices.Sort(got)
	require.Equal(t, want, slices.Compact(got))
}

func TestRedigoAuthentication(t *testing.T) {
	at := endpoints()["auth"]
	_, err := redis.Dial("tcp", at.addr, redis.DialPassword("wrong"))
	require.ErrorContains(t, err, "WRONGPASS")
	conn, err := redis.Dial("tcp", at.addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")
	_, err = conn.Do("AUTH", at.password)
	require.NoError(t, err)
	_, err = conn.Do("PING")
	require.NoError(t, err)
}
