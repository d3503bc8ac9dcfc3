package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// client is one connection of a run.
type client struct {
	conn    net.Conn
	cmd     *template
	key     func() uint64
	verdict verdict
	rec     *recorder
	in      []byte // reply bytes not yet scanned are in[r:w]
	r, w    int

	// sent and answered count commands; broken is set when the connection
	// has failed. The open loop's writer and reader share them.
	sent, answered atomic.Int64
	broken         atomic.Bool
}

// dial opens one connection, with TLS and AUTH if the run has them.
func dial(ctx context.Context, cfg *Config) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		conn = tls.Client(conn, cfg.TLS)
	}
	if cfg.Password == "" {
		return conn, nil
	}
	if err := auth(conn, cfg.Password); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func auth(conn net.Conn, password string) error {
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
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
		rep, used, err := scanReply(buf, 0)
		switch {
		case err != nil:
			return fmt.Errorf("authenticate: %w", err)
		case rep.failure != nil:
			return fmt.Errorf("authenticate: %s", rep.failure)
		case used > 0:
			return conn.SetDeadline(time.Time{})
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
	rep, n, err := scanReply(c.in[c.r:c.w], 0)
	c.r += n
	return rep, n > 0, err
}

// fail records why the connection broke.
func (c *client) fail(err error) {
	if !c.broken.Swap(true) {
		c.rec.failed(breakKind(err))
	}
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
