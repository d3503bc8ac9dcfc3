package server

import (
	"sync"

	"github.com/headgate-io/headgate/server/resp"
)

// hub connects publishers and subscribers. A message is posted to each
// subscriber's driver thread; a connection's bytes that are posted and not yet
// taken count against its output buffer's limit, so a subscriber that falls
// behind is closed and nobody's memory grows.
type hub struct {
	mu       sync.RWMutex
	channels map[string]map[*conn]struct{} // guarded by mu
	patterns map[string]map[*conn]struct{} // guarded by mu
}

// subscriptions are the channels and patterns of a connection; they belong to
// its driver thread.
type subscriptions struct {
	channels map[string]struct{}
	patterns map[string]struct{}
	size     int // bytes of the names
}

func (s *subscriptions) count() int {
	if s == nil {
		return 0
	}
	return len(s.channels) + len(s.patterns)
}

func (h *hub) init() {
	h.channels = make(map[string]map[*conn]struct{})
	h.patterns = make(map[string]map[*conn]struct{})
}

// add makes c a subscriber of name in one of the hub's maps, and own its set of
// names of that map.
func (h *hub) add(all map[string]map[*conn]struct{}, own map[string]struct{}, name string, c *conn) {
	own[name] = struct{}{}
	c.subs.size += len(name) + pushOverhead
	h.mu.Lock()
	defer h.mu.Unlock()
	if all[name] == nil {
		all[name] = make(map[*conn]struct{})
	}
	all[name][c] = struct{}{}
}

func (h *hub) remove(all map[string]map[*conn]struct{}, own map[string]struct{}, name string, c *conn) {
	delete(own, name)
	c.subs.size -= len(name) + pushOverhead
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(all[name], c)
	if len(all[name]) == 0 {
		delete(all, name)
	}
}

// leave ends all subscriptions of c.
func (h *hub) leave(c *conn) {
	if c.subs == nil {
		return
	}
	for name := range c.subs.channels {
		h.remove(h.channels, c.subs.channels, name, c)
	}
	for name := range c.subs.patterns {
		h.remove(h.patterns, c.subs.patterns, name, c)
	}
	c.subscribed()
}

// subscribed brings what follows from the number of subscriptions up to date.
func (c *conn) subscribed() {
	n := c.subs.count()
	if n == 0 {
		c.subs = nil
	}
	if n > 0 && !c.resp3 {
		c.mode |= modeSubscribed
	} else {
		c.mode &^= modeSubscribed
	}
	m := *c.meta.Load()
	m.channels, m.patterns = 0, 0
	if c.subs != nil {
		m.channels, m.patterns = len(c.subs.channels), len(c.subs.patterns)
	}
	c.meta.Store(&m)
}

// publish sends a message and returns how many connections' subscriptions it
// met.
func (h *hub) publish(channel string, message []byte) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	receivers := 0
	if subs := h.channels[channel]; len(subs) > 0 {
		text := append([]byte(nil), message...)
		for c := range subs {
			receivers++
			c.push(len(text), func(w *resp.Writer) {
				w.Push(3)
				w.BulkString("message")
				w.BulkString(channel)
				w.Bulk(text)
			})
		}
	}
	for pattern, subs := range h.patterns {
		if !glob(pattern, channel) {
			continue
		}
		text := append([]byte(nil), message...)
		for c := range subs {
			receivers++
			c.push(len(text), func(w *resp.Writer) {
				w.Push(4)
				w.BulkString("pmessage")
				w.BulkString(pattern)
				w.BulkString(channel)
				w.Bulk(text)
			})
		}
	}
	return receivers
}

// pushOverhead is added to the size of a posted message, for the post and its
// closure, and of a subscription, for its place in two maps.
const pushOverhead = 128

// push sends an out-of-band message of about size bytes, which write writes on
// the driver thread. Any goroutine may call it. A connection that does not take
// its messages is closed.
func (c *conn) push(size int, write func(w *resp.Writer)) {
	size += pushOverhead
	limit := int64(c.srv.cfg.OutputBufferLimit)
	n := c.pushed.Add(int64(size))
	if n > limit {
		// Once only: later messages find the same and add nothing.
		if n-int64(size) <= limit {
			c.srv.stats.counts[countOutputKills].Add(1)
			c.post(c.kill)
		}
		return
	}
	c.post(func() {
		c.pushed.Add(int64(-size))
		start := len(c.w.B)
		write(c.w)
		c.finish(start, false)
	})
}

// names returns the channels with subscribers that match pattern; an empty
// pattern matches all.
func (h *hub) names(pattern string) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := make([]string, 0, len(h.channels))
	for name := range h.channels {
		if pattern == "" || glob(pattern, name) {
			out = append(out, name)
		}
	}
	return out
}

// subscribers returns how many connections are subscribed to a channel itself.
func (h *hub) subscribers(channel string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.channels[channel])
}

// channelCount returns how many channels have subscribers.
func (h *hub) channelCount() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.channels)
}

// patternCount returns how many patterns have subscribers.
func (h *hub) patternCount() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.patterns)
}
