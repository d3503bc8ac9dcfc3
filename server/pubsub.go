package server

import (
	"maps"
	"slices"
	"sync"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/glob"
)

// hub connects publishers and subscribers. A message is put into the inbox of each
// subscriber. What waits there counts against its output buffer's limit, so a
// subscriber that falls behind is closed and nobody's memory grows.
type hub struct {
	memory *clientMemory
	// mu guards the fields below.
	mu       sync.RWMutex
	channels map[string]*topic
	patterns map[string]*topic
	// To match a channel of n bytes with all patterns takes at most
	// fixed + n*perByte steps.
	fixed, perByte int
}

// topic is what connections are subscribed to: a channel, or the channels that
// match a pattern.
type topic struct {
	pattern     *glob.Pattern // nil for a channel
	subscribers map[*conn]struct{}
}

const (
	// maxChannel bounds the name of a channel, in bytes, and with it the time
	// that a message takes to find its subscribers.
	maxChannel = 1 << 10

	// maxSubscriptions bounds the channels and patterns of a connection: all of
	// them end together with it, which takes its thread about 1 µs each.
	maxSubscriptions = 4096

	// publishInline is how many steps of finding a message's subscribers, and
	// how many of these, a loop takes by itself: about 0.1 ms.
	publishInline = 10_000
	publishReach  = 256
)

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

func (h *hub) init(memory *clientMemory) {
	h.memory = memory
	h.channels = make(map[string]*topic)
	h.patterns = make(map[string]*topic)
}

// add makes c a subscriber of name in one of the hub's maps, and own its set of
// names of that map. pattern is nil for a channel.
func (h *hub) add(all map[string]*topic, own map[string]struct{}, name string, pattern *glob.Pattern, c *conn) {
	own[name] = struct{}{}
	c.subs.size += subscriptionSize(name, pattern)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := all[name]
	if t == nil {
		t = &topic{pattern, make(map[*conn]struct{})}
		all[name] = t
		h.weigh(pattern, 1)
	}
	t.subscribers[c] = struct{}{}
}

func (h *hub) remove(all map[string]*topic, own map[string]struct{}, name string, c *conn) {
	delete(own, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := all[name]
	c.subs.size -= subscriptionSize(name, t.pattern)
	delete(t.subscribers, c)
	if len(t.subscribers) == 0 {
		delete(all, name)
		h.weigh(t.pattern, -1)
	}
}

// weigh adds a pattern, or takes it away, where sign is -1. It must be called
// with mu held.
func (h *hub) weigh(p *glob.Pattern, sign int) {
	if p != nil {
		h.fixed += sign * p.Steps(0)
		h.perByte += sign * (p.Steps(1) - p.Steps(0))
	}
}

// subscriptionSize is about what a subscription takes.
func subscriptionSize(name string, pattern *glob.Pattern) int {
	size := len(name) + subscriptionOverhead
	if pattern != nil {
		size += pattern.Size()
	}
	return size
}

// wide reports whether a message takes long to send: there are many patterns to
// compare its channel with, or many subscribers of the channel itself.
func (h *hub) wide(channel string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.channels[channel]; t != nil && len(t.subscribers) > publishReach {
		return true
	}
	return h.fixed+len(channel)*h.perByte > publishInline
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

// publish sends a message, of which it makes a copy if somebody gets it, and
// returns how many connections' subscriptions it met. Patterns are compared
// outside of the lock, which those who subscribe wait for. The error is
// errClientMemory.
func (h *hub) publish(channel string, message []byte) (receivers int, err error) {
	return h.send(channel, func() *payload {
		p := h.memory.payload(len(channel) + len(message))
		if p != nil {
			p.text = append([]byte{}, message...)
		}
		return p
	})
}

// publishOwn is publish of a message that is nobody else's, which finds room.
func (h *hub) publishOwn(channel string, message []byte) {
	_, _ = h.send(channel, func() *payload { return h.memory.payloadOf(message) })
}

// send sends what make makes once somebody gets it.
func (h *hub) send(channel string, make func() *payload) (receivers int, err error) {
	var p *payload
	for _, t := range h.reached(channel) {
		if t.pattern != nil && !t.pattern.Match(channel) {
			continue
		}
		if p == nil {
			if p = make(); p == nil {
				return 0, errClientMemory
			}
			defer p.drop()
		}
		receivers += h.sendTo(t, channel, p)
	}
	return receivers, nil
}

// publishTo sends a message, which stays as it is, to those who have subscribed to a
// channel by its name.
func (h *hub) publishTo(channel string, message []byte) {
	h.mu.RLock()
	t := h.channels[channel]
	h.mu.RUnlock()
	if t != nil {
		p := h.memory.payloadOf(message)
		h.sendTo(t, channel, p)
		p.drop()
	}
}

// reached returns the topic of a channel, if there is one, and those of all
// patterns.
func (h *hub) reached(channel string) []*topic {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var topics []*topic
	if t := h.channels[channel]; t != nil {
		topics = append(topics, t)
	}
	return slices.AppendSeq(slices.Grow(topics, len(h.patterns)), maps.Values(h.patterns))
}

// sendTo puts a message into the inboxes of the subscribers of a topic and returns
// how many they are.
func (h *hub) sendTo(t *topic, channel string, p *payload) int {
	d := delivery{p, func(w *resp.Writer) {
		if t.pattern == nil {
			w.Push(3)
			w.BulkString("message")
		} else {
			w.Push(4)
			w.BulkString("pmessage")
			w.BulkString(t.pattern.String())
		}
		w.BulkString(channel)
	}}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for c := range t.subscribers {
		c.put(d)
	}
	return len(t.subscribers)
}

// subscriptionOverhead is added to the size of a subscription, for its place in
// two maps.
const subscriptionOverhead = 128

// receivers is how many would get a message on a channel.
func (h *hub) receivers(channel string) (n int) {
	for _, t := range h.reached(channel) {
		if t.pattern == nil || t.pattern.Match(channel) {
			h.mu.RLock()
			n += len(t.subscribers)
			h.mu.RUnlock()
		}
	}
	return n
}

// names returns the channels with subscribers that match pattern; nil matches
// all.
func (h *hub) names(pattern *glob.Pattern) []string {
	h.mu.RLock()
	out := slices.AppendSeq(make([]string, 0, len(h.channels)), maps.Keys(h.channels))
	h.mu.RUnlock()
	if pattern == nil {
		return out
	}
	return slices.DeleteFunc(out, func(name string) bool { return !pattern.Match(name) })
}

// subscribers returns how many connections are subscribed to a channel itself.
func (h *hub) subscribers(channel string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.channels[channel]; t != nil {
		return len(t.subscribers)
	}
	return 0
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
