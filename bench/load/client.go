package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// client is one connection of a run, and those that replace it when it fails.
// Its reader is the goroutine that takes the replies.
type client struct {
	cmd     *template
	key     func() uint64
	verdict verdict
	rec     *recorder
	in      []byte // reply bytes not yet scanned are in[r:w]
	r, w    int
	pause   time.Duration // before the next attempt to connect again; the reader's

	// sent and answered count commands, and lost those of sent whose connection
	// failed before their reply. The open loop's writer and reader share them.
	sent, answered, lost atomic.Int64

	// mu guards conn and broken. The writer looks at broken and adds to sent in one step,
	// and the reader changes conn and lost in one. Only the reader changes conn.
	mu     sync.Mutex
	conn   net.Conn
	broken error // why conn failed; nil while it works
}

// dialTimeout bounds the time until a connection is ready for commands.
const dialTimeout = 5 * time.Second

// dial opens one connection, with AUTH if the run has a password.
func dial(ctx context.Context, cfg *Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", cfg.Addr)
	if err != nil || cfg.Password == "" {
		return conn, err
	}
	if err := auth(ctx, conn, cfg.Password); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func auth(ctx context.Context, conn net.Conn, password string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	cmd := compile([]string{"AUTH", password})
	if _, err := conn.Write(cmd.raw); err != nil {
		return fmt.Errorf("write AUTH: %w", err)
	}
	var buf []byte
	for {
		var chunk [256]byte
		n, err := conn.Read(chunk[:])
		if err != nil {
			return fmt.Errorf("read the reply to AUTH: %w", err)
		}
		buf = append(buf, chunk[:n]...)
		rep, used, err := scanReply(buf)
		switch {
		case err != nil:
			return fmt.Errorf("authenticate: %w", err)
		case rep.failure != nil:
			return fmt.Errorf("authenticate: %s", rep.failure)
		case used > 0:
			if !stop() {
				return ctx.Err()
			}
			return nil
		}
	}
}

// appendCommands adds n commands to dst.
func (c *client) appendCommands(dst []byte, n int64) []byte {
	for range n {
		dst = c.cmd.append(dst, c.key())
	}
	return dst
}

// fill reads what the server has sent.
func (c *client) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	} else if c.w == len(c.in) {
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.in) {
		if len(c.in) >= maxReply {
			return errProtocol
		}
		c.in = append(c.in, make([]byte, max(len(c.in), 16<<10))...)
	}
	n, err := c.conn.Read(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// next takes one reply from the buffer; ok is false when there is none.
func (c *client) next() (rep reply, ok bool, err error) {
	if c.r == c.w {
		return reply{}, false, nil
	}
	rep, n, err := scanReply(c.in[c.r:c.w])
	c.r += n
	return rep, n > 0, err
}

// begin takes note of n commands that are about to be written. The connection
// for them is nil when it has failed.
func (c *client) begin(n int64) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return nil
	}
	c.sent.Add(n)
	return c.conn
}

// fail closes conn, and records why it failed unless that is known, or conn has
// been replaced.
func (c *client) fail(conn net.Conn, err error) {
	conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil && c.conn == conn {
		c.broken = err
		c.rec.failed(breakKind(err), err)
	}
}

// waits reports whether replies may still come.
func (c *client) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken == nil && c.answered.Load()+c.lost.Load() < c.sent.Load()
}

// breakKind names a connection's failure for Result.Errors.
func breakKind(err error) string {
	switch {
	case errors.Is(err, errProtocol):
		return "protocol"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return "closed"
	}
	return "connection"
}
