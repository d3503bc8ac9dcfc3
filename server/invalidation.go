package server

import (
	"slices"
	"strings"
	"sync"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # What clients may cache
//
// CLIENT TRACKING is Redis's promise to tell a client when a key that it has read
// changes. No table of who has read what is kept here. Instead what a client has
// read is invalidated at once, right behind the reply: whatever the client has put
// into its cache leaves it again, and no stale value is ever served. With BCAST,
// which promises news of keys that other connections have read too, that is told
// of every read on this node.

// broadcasts are the connections that track with BCAST.
type broadcasts struct {
	mu  sync.RWMutex
	set map[*conn]struct{} // guarded by mu
}

// setTracking makes t what the connection has asked for.
func (c *conn) setTracking(t tracking) {
	was := c.meta.Load().tracking
	c.setMeta(func(m *clientMeta) { m.tracking = t })
	c.caching = false
	c.mode &^= modeTracking
	if t.on {
		c.mode |= modeTracking
	}
	if was.bcast || t.bcast {
		c.srv.broadcasts.put(c, t.bcast)
	}
}

// put adds a connection, or takes it out.
func (b *broadcasts) put(c *conn, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		b.set = make(map[*conn]struct{})
	}
	if on {
		b.set[c] = struct{}{}
	} else {
		delete(b.set, c)
	}
	c.srv.setMode(modeTracking, len(b.set) > 0)
}

// tracks reports whether the keys of the command being run are tracked for the
// connection itself.
func (c *conn) tracks() bool {
	t := &c.meta.Load().tracking
	switch {
	case !t.on || t.bcast:
		return false
	case t.optin:
		return c.caching
	case t.optout:
		return !c.caching
	}
	return true
}

// endCaching ends what CLIENT CACHING said of one command, or transaction.
func (c *conn) endCaching(cmd *command.Spec) {
	if c.tx == nil && cmd != nil && !strings.HasPrefix(cmd.Full, "client|") {
		c.caching = false
	}
}

// hasRead invalidates what a command has read, or is about to read on a worker.
func (c *conn) hasRead(cmd *command.Spec, args [][]byte) {
	keys, tracked := readKeys(cmd, args), c.tracks()
	if c.stall&stallWorker != 0 {
		c.jobRead, c.jobTracked = keys, tracked
		return
	}
	c.invalidate(keys, tracked)
}

// readKeys returns the keys that a command has read and whose values a client may
// have cached.
func readKeys(cmd *command.Spec, args [][]byte) (keys []string) {
	if cmd.Flags&command.Readonly == 0 || !cmd.HasKeys() {
		return nil
	}
	for _, i := range cmd.Keys.Positions(args, nil) {
		keys = append(keys, string(args[i]))
	}
	return keys
}

// invalidate tells those who may cache keys that were read that they have
// changed. tracked tells that the connection is one of them.
func (c *conn) invalidate(keys []string, tracked bool) {
	if len(keys) == 0 {
		return
	}
	if tracked {
		c.sendInvalidation(keys)
	}
	if c.srv.mode.Load()&uint32(modeTracking) == 0 {
		return
	}
	b := &c.srv.broadcasts
	b.mu.RLock()
	defer b.mu.RUnlock()
	for other := range b.set {
		other.sendInvalidation(other.meta.Load().tracking.concerned(keys))
	}
}

// concerned returns those of keys that begin with a prefix of BCAST.
func (t *tracking) concerned(keys []string) []string {
	if len(t.prefixes) == 0 {
		return keys
	}
	var out []string
	for _, key := range keys {
		if slices.ContainsFunc(t.prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			out = append(out, key)
		}
	}
	return out
}

// sendInvalidation sends keys to the connection, or to the one that it redirects
// to. RESP2 has no pushes: there it is a message to those who have subscribed.
// Any thread may call it.
func (c *conn) sendInvalidation(keys []string) {
	if len(keys) == 0 {
		return
	}
	to, redirected := c, false
	if id := c.meta.Load().tracking.redirect; id != 0 {
		redirected = true
		if to = c.srv.connection(uint64(id)); to == nil {
			c.push(0, func(w *resp.Writer) {
				if w.RESP3 {
					w.Push(2)
					w.BulkString("tracking-redir-broken")
					w.Int(id)
				}
			})
			return
		}
	}
	size := 0
	for _, key := range keys {
		size += len(key) + command.ArgOverhead
	}
	to.push(size, func(w *resp.Writer) {
		switch {
		case w.RESP3:
			w.Push(2)
			w.BulkString("invalidate")
		case redirected && to.subs != nil:
			w.Array(3)
			w.BulkString("message")
			w.BulkString("__redis__:invalidate")
		default:
			return
		}
		w.Array(len(keys))
		for _, key := range keys {
			w.BulkString(key)
		}
	})
}
