package pubsub

import (
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// setTracking changes the connection's CLIENT TRACKING.
func (s *Subscriber) setTracking(t tracking) {
	s.caching = false
	was := &s.Shown().tracking
	if !was.on && !t.on {
		return
	}
	broadcasts := was.bcast || t.bcast
	s.show(func(shown *Shown) { shown.tracking = t })
	if broadcasts {
		s.hub.broadcasts.put(s, t.bcast)
	}
	s.conn.Changed()
}

// Tracks reports whether the connection itself tracks the keys of the running command.
func (s *Subscriber) Tracks() bool {
	t := &s.Shown().tracking
	switch {
	case !t.on || t.bcast:
		return false
	case t.optin:
		return s.caching
	case t.optout:
		return !s.caching
	}
	return true
}

// TrackAgain makes Tracks return tracked for a command that runs again. tracked is what Tracks
// returned when the command arrived.
func (s *Subscriber) TrackAgain(tracked bool) {
	if t := &s.Shown().tracking; t.on {
		s.caching = tracked == t.optin
	}
}

// EndCaching is called after each command cmd. It ends the effect of CLIENT CACHING, which
// lasts for one command or transaction.
func (s *Subscriber) EndCaching(cmd *command.Spec) {
	if !strings.HasPrefix(cmd.Full, "client|") {
		s.caching = false
	}
}

// HasRead sends invalidations of the keys that a command has read, so that no client keeps
// their values in a cache. later reports that a job is still about to read the keys;
// Answered is then called afterwards.
func (s *Subscriber) HasRead(cmd *command.Spec, args [][]byte, later bool) {
	keys, tracked := readKeys(cmd, args), s.Tracks()
	if later {
		s.read, s.readOwn = keys, tracked
		return
	}
	s.invalidate(keys, tracked)
}

// Answered sends invalidations of the keys that a job has read.
func (s *Subscriber) Answered() {
	s.invalidate(s.read, s.readOwn)
	s.read = nil
}

// ReadBy sends invalidations of the keys that the leader has read for a command of the
// connection. tracked is what Tracks returned when the command arrived.
func (s *Subscriber) ReadBy(cmd *command.Spec, args [][]byte, tracked bool) {
	s.invalidate(readKeys(cmd, args), tracked)
}

// readKeys returns the keys that a command has read and that a client may have cached.
func readKeys(cmd *command.Spec, args [][]byte) (keys []string) {
	if cmd.Flags&command.Readonly == 0 || !cmd.HasKeys() {
		return nil
	}
	for _, i := range cmd.Keys.Positions(args, nil) {
		keys = append(keys, string(args[i]))
	}
	return keys
}

// invalidate sends invalidations of keys that were read to all clients that may cache them.
// tracked reports whether this connection is such a client.
func (s *Subscriber) invalidate(keys []string, tracked bool) {
	if len(keys) == 0 {
		return
	}
	if tracked {
		s.sendInvalidation(keys)
	}
	s.hub.broadcasts.each(func(other *Subscriber) {
		other.sendInvalidation(other.Shown().tracking.concerned(keys))
	})
}

// concerned returns the keys that begin with one of the client's prefixes (BCAST PREFIX).
// Without prefixes it returns all keys.
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

// sendInvalidation sends an invalidation of keys to the connection, or to the connection
// that REDIRECT names. RESP2 has no push messages; over RESP2 the invalidation is a message
// to connections that have subscribed to its channel. Any thread may call it.
func (s *Subscriber) sendInvalidation(keys []string) {
	if len(keys) == 0 {
		return
	}
	to, redirected := s, false
	if id := s.Shown().tracking.redirect; id != 0 {
		redirected = true
		if to = s.hub.find(uint64(id)); to == nil {
			s.push(0, func(w *resp.Writer) {
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
