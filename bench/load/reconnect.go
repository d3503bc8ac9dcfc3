package load

import (
	"context"
	"net"
	"time"
)

// A pause before an attempt to connect again doubles with each, up to the
// longest, until a connection has brought a reply.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
)

// reconnect gives c another connection in place of its failed one. It returns
// false when the last command is due or ctx ends before it has. Only c's reader
// may call it.
func (r *run) reconnect(ctx context.Context, c *client) bool {
	ctx, cancel := context.WithDeadline(ctx, r.start.Add(r.end))
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(c.pause):
		}
		c.pause = min(2*c.pause, longestPause)
		conn, err := dial(ctx, &r.cfg)
		switch {
		case err == nil:
			return r.replace(c, conn)
		case ctx.Err() == nil:
			c.rec.failed("connect", err)
		}
	}
}

// replace makes conn the connection of c, unless the run is over.
func (r *run) replace(c *client, conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.setDeadlines(conn) != nil || r.interrupted.Load() {
		conn.Close()
		return false
	}
	c.conn, c.broken = conn, nil
	c.r, c.w = 0, 0
	c.lost.Store(c.sent.Load() - c.answered.Load())
	return true
}
