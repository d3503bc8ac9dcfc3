// Package goredis connects Headgate's client by go-redis.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/internal/nodes"
)

const dialTimeout = time.Second

// New returns a client with connections of its own to one of the nodes, any of which
// answers. o may be nil; its Addr and Dialer do not count, and New sets what a limiter
// needs: no command is sent twice, and deadlines of contexts count. Close of the client
// closes the connections.
func New(addresses []string, o *redis.Options, options headgate.Options) *headgate.Client {
	var own redis.Options
	if o != nil {
		own = *o
	}
	own.MaxRetries = -1
	own.ContextTimeoutEnabled = true
	own.DialerRetries = 1
	// Otherwise NewClient resolves the address, which takes 2 s if no name server answers.
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if own.DialTimeout == 0 {
		own.DialTimeout = dialTimeout
	}
	n := nodes.New(addresses, net.Dialer{Timeout: own.DialTimeout}, own.TLSConfig)
	if len(addresses) > 0 {
		own.Addr = addresses[0]
	}
	own.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx) }
	return headgate.New(&owned{redis.NewClient(&own)}, options)
}

// Doer returns a client of go-redis as a Doer, and warns of options that would hurt. The
// logger is slog.Default if it is nil.
func Doer(c redis.UniversalClient, logger *slog.Logger) headgate.Doer {
	if logger == nil {
		logger = slog.Default()
	}
	for _, warning := range Warnings(c) {
		logger.Warn("headgate: an option of go-redis hurts: " + warning)
	}
	return doer{c}
}

// Warnings returns what is wrong with the options of a client, for a limiter.
func Warnings(c redis.UniversalClient) (warnings []string) {
	var heeds bool
	var retries int
	switch c := c.(type) {
	case *redis.Client:
		heeds, retries = c.Options().ContextTimeoutEnabled, c.Options().MaxRetries
	case *redis.ClusterClient: // it repeats what failed as a redirect
		heeds, retries = c.Options().ContextTimeoutEnabled, max(c.Options().MaxRetries, c.Options().MaxRedirects)
	case *redis.Ring:
		heeds, retries = c.Options().ContextTimeoutEnabled, c.Options().MaxRetries
	default:
		return nil
	}
	if !heeds {
		warnings = append(warnings, "set ContextTimeoutEnabled, or a call that was given up keeps its connection for ReadTimeout")
	}
	if retries > 0 {
		warnings = append(warnings, "set MaxRetries to -1, and MaxRedirects of a cluster, or a call is charged again after a failure")
	}
	return warnings
}

type doer struct{ redis.UniversalClient }

// owned is a doer that closes its client.
type owned struct{ c *redis.Client }

func (d doer) Do(ctx context.Context, args ...any) (any, error) {
	return result(d.UniversalClient.Do(ctx, args...).Result())
}

// Close does nothing: the application closes its client.
func (d doer) Close() error { return nil }

func (d *owned) Do(ctx context.Context, args ...any) (any, error) {
	return result(d.c.Do(ctx, args...).Result())
}

func (d *owned) Close() error { return d.c.Close() }

func result(reply any, err error) (any, error) {
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return nil, fmt.Errorf("%w: %w", headgate.ErrNotSent, err)
	}
	return reply, err
}
