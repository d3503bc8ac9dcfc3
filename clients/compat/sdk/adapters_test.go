package sdk_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/goredis"
	adapter "github.com/headgate-io/headgate/clients/go/rueidis"
	"github.com/headgate-io/headgate/internal/hgtest"
)

func goRedis(c redis.UniversalClient) headgate.Doer { return goredis.Doer(c, nil) }

func newGoRedis(addr, password string, tls *tls.Config, protocol int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Password: password, TLSConfig: tls, Protocol: protocol, MaxRetries: -1, ContextTimeoutEnabled: true,
	})
}

// TestAdapters leases a key by each library, protocol and kind of server.
func TestAdapters(t *testing.T) {
	tlsConfig := func() *tls.Config { return &tls.Config{RootCAs: servers.Cert.Pool} }
	for server, at := range map[string]struct {
		addr, password string
		tls            *tls.Config
	}{
		"plain": {addr: servers.Plain.Addr},
		"auth":  {addr: servers.Auth.Addr, password: hgtest.Password},
		"tls":   {addr: servers.TLS.Addr, tls: tlsConfig()},
	} {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("go-redis/%s/RESP%d", server, protocol), func(t *testing.T) {
				c := newGoRedis(at.addr, at.password, at.tls, protocol)
				defer func() { _ = c.Close() }()
				contract(t, goRedis(c))
			})
			t.Run(fmt.Sprintf("rueidis/%s/RESP%d", server, protocol), func(t *testing.T) {
				c, err := rueidis.NewClient(rueidis.ClientOption{
					InitAddress: []string{at.addr}, Password: at.password, TLSConfig: at.tls, AlwaysRESP2: protocol == 2,
					DisableCache: true, DisableRetry: true, ForceSingleClient: true,
				})
				require.NoError(t, err)
				defer c.Close()
				contract(t, adapter.Doer(c))
			})
		}
	}
}

// contract is what every Doer must get.
func contract(t *testing.T, d headgate.Doer) {
	ctx := context.Background()
	c := headgate.New(d, headgate.Options{Timeout: 5 * time.Second})
	key := newKey()
	limit := headgate.Limit{Units: 1000, Period: time.Hour, Burst: 1000}
	for i := range int64(1000) {
		dec, err := c.Allow(ctx, key, limit, 1)
		require.NoError(t, err)
		require.True(t, dec.Allowed, "call %d: %+v", i, dec)
		require.Equal(t, int64(1000), dec.Limit)
	}
	dec, err := c.Allow(ctx, key, limit, 1)
	require.NoError(t, err)
	require.False(t, dec.Allowed, "%+v", dec)
	require.Positive(t, dec.RetryAfter)
	dec, err = c.Allow(ctx, key, limit, 1)
	require.NoError(t, err)
	require.Equal(t, headgate.Denied, dec.Source)
	require.Less(t, c.Stats().Sent, int64(60), "commands for 1002 calls")

	// All, of a leased key and a key without a lease.
	key, other := newKey(), newKey()
	for range 20 {
		_, err = c.Allow(ctx, key, limit, 1)
		require.NoError(t, err)
	}
	three := headgate.Limit{Units: 3, Period: time.Hour, Algorithm: headgate.Sliding}
	for i := range 4 {
		dec, err = c.All(ctx, []headgate.KeyLimit{{Key: key, Limit: limit, Cost: 1}, {Key: other, Limit: three, Cost: 1}})
		require.NoError(t, err)
		require.Equal(t, i < 3, dec.Allowed, "%+v", dec)
	}
	require.NoError(t, c.Close(ctx))
	// All is back, but for what was spent, and a part of a unit that was becoming due.
	reply, err := d.Do(ctx, "RL.LIMIT", key, int64(1000), "1h", "BURST", int64(1000), "PEEK")
	require.NoError(t, err)
	require.InDelta(t, 1000-20-3-0.5, remaining(reply), 0.5)
}

func remaining(reply any) int64 {
	switch r := reply.(type) {
	case []any:
		return r[2].(int64)
	case map[string]any:
		return r["remaining"].(int64)
	case map[any]any:
		return r["remaining"].(int64)
	}
	return -1
}
