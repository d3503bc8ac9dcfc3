// Package rueidis connects Headgate's client by rueidis.
package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/internal/nodes"
)

const (
	dialTimeout  = time.Second
	writeTimeout = 500 * time.Millisecond
	keepAlive    = time.Second
)

// New returns a client with a connection of its own to one of the nodes in o.InitAddress,
// any of which answers. It sets what a limiter needs: no command is sent twice, and nothing
// is cached. It connects with the first call, so a server that is away at the start is no
// error. Close of the client closes the connection.
func New(o rueidis.ClientOption, options headgate.Options) *headgate.Client {
	o.DisableRetry, o.DisableCache, o.ForceSingleClient = true, true, true
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = dialTimeout
	}
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = keepAlive
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = writeTimeout
	}
	n := nodes.New(o.InitAddress, o.Dialer, o.TLSConfig)
	if len(o.InitAddress) > 1 {
		o.InitAddress = o.InitAddress[:1]
	}
	o.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return n.Dial(ctx)
	}
	return headgate.New(&lazy{o: o}, options)
}

// Doer returns a client of rueidis as a Doer. The client must have DisableRetry: what rueidis
// sends again is charged again. rueidis does not tell its options, so nothing checks it.
func Doer(c rueidis.Client) headgate.Doer {
	return headgate.DoerFunc(func(ctx context.Context, args ...any) (any, error) { return do(ctx, c, args) })
}

// lazy connects with the first call.
type lazy struct {
	o      rueidis.ClientOption
	mu     sync.Mutex
	c      rueidis.Client
	trying chan struct{} // closed when the attempt under way has ended
	err    error         // of the last attempt
	closed bool
}

func (l *lazy) Do(ctx context.Context, args ...any) (any, error) {
	c, err := l.client(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", headgate.ErrNotSent, err)
	}
	return do(ctx, c, args)
}

func (l *lazy) client(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	if l.c != nil {
		defer l.mu.Unlock()
		return l.c, nil
	}
	if l.trying == nil {
		l.trying = make(chan struct{})
		go l.connect(l.trying)
	}
	trying := l.trying
	l.mu.Unlock()
	select {
	case <-trying:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c, l.err
}

func (l *lazy) connect(done chan struct{}) {
	c, err := rueidis.NewClient(l.o)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.err = err
	case l.closed:
		c.Close()
		l.err = rueidis.ErrClosing
	default:
		l.c, l.err = c, nil
	}
	l.trying = nil
	close(done)
}

// Close closes the connection.
func (l *lazy) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.c != nil {
		l.c.Close()
	}
	return nil
}

func do(ctx context.Context, c rueidis.Client, args []any) (any, error) {
	words := make([]string, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			words[i] = a
		case int64:
			words[i] = strconv.FormatInt(a, 10)
		default:
			return nil, fmt.Errorf("headgate: argument %d is a %T", i, a)
		}
	}
	reply, err := c.Do(ctx, c.B().Arbitrary(words...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	var server *rueidis.RedisError
	if errors.As(err, &server) {
		return nil, errors.New(coded(server.Error()))
	}
	return reply, err
}

// codes are what errors of a server begin with, but for ERR.
var codes = strings.Fields("ASK BUSY BUSYKEY CLUSTERDOWN CROSSSLOT DENIED EXECABORT IDCONFLICT LOADING MASTERDOWN MISCONF MOVED NOAUTH " +
	"NOHOLD NOPERM NOPOLICY NOPROTO NOREPLICAS NOSCRIPT OOM READONLY TRYAGAIN UNCERTAIN WRONGPASS WRONGTYPE")

// coded returns an error of the server with its code: rueidis cuts ERR off.
func coded(message string) string {
	if code, _, _ := strings.Cut(message, " "); slices.Contains(codes, code) {
		return message
	}
	return "ERR " + message
}
