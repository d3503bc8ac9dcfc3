package server

import (
	"maps"
	"slices"
	"sync"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/glob"
	"github.com/headgate-io/headgate/server/memory"
)

// hub connects publishers and subscribers. A message is put into the inbox of each
// subscriber. What waits there counts against its output buffer's limit, so a
// subscriber that falls behind is closed and nobody's memory grows.
type hub struct {
	memory *clientMemory
	// mu guards the fields below.
	mu     sync.RWMutex
	topics [kinds]map[string]*topic
	// To match a channel of n bytes with all patterns takes at most
	// fixed + n*perByte steps.
	fixed, perByte int
}

// kind is a kind of what connections are subscribed to. Each has names of its own.
type kind uint8

const (
	channels kind = iota
	patterns
	shards // sharded channels: clients of a cluster find their node by the slot of the name
	kinds
)

// words are what a kind is called in commands, confirmations and messages.
func (k kind) words() *kindWords { return &allWords[k] }

type kindWords struct{ subscribe, unsubscribe, message string }

var allWords = [kinds]kindWords{
	{"subscribe", "unsubscribe", "message"}, {"psubscribe", "punsubscribe", "pmessage"}, {"ssubscribe", "sunsubscribe", "smessage"},
}

// topic is what connections are subscribed to: a channel, or the channels that
// match a pattern.
type topic struct {
	kind        kind
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
	names [kinds]map[string]struct{}
	size  int // bytes of the names
}

func newSubscriptions() *subscriptions {
	s := new(subscriptions)
	for k := range s.names {
		s.names[k] = make(map[string]struct{})
	}
	return s
}

// counts returns how many names there are of each kind.
func (s *subscriptions) counts() (n [kinds]int) {
	if s != nil {
		for k := range s.names {
			n[k] = len(s.names[k])
		}
	}
	return n
}

// count returns how many names there are.
func (s *subscriptions) count() (n int) {
	for _, of := range s.counts() {
		n += of
	}
	return n
}

// told returns the number in the confirmations of a kind. As in Redis, sharded
// channels count by themselves.
func (s *subscriptions) told(k kind) int {
	n := s.counts()
	if k == shards {
		return n[shards]
	}
	return n[channels] + n[patterns]
}

func (h *hub) init(memory *clientMemory) {
	h.memory = memory
	for k := range h.topics {
		h.topics[k] = make(map[string]*topic)
	}
}

// add makes c a subscriber of name. pattern is nil for a channel.
func (h *hub) add(k kind, name string, pattern *glob.Pattern, c *conn) {
	c.subs.names[k][name] = struct{}{}
	c.subs.size += subscriptionSize(name, pattern)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[k][name]
	if t == nil {
		t = &topic{k, pattern, make(map[*conn]struct{})}
		h.topics[k][name] = t
		h.weigh(pattern, 1)
	}
	t.subscribers[c] = struct{}{}
}

// remove ends a subscription of c.
func (h *hub) remove(k kind, name string, c *conn) {
	delete(c.subs.names[k], name)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[k][name]
	c.subs.size -= subscriptionSize(name, t.pattern)
	delete(t.subscribers, c)
	if len(t.subscribers) == 0 {
		delete(h.topics[k], name)
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
func (h *hub) wide(k kind, channel string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.topics[k][channel]; t != nil && len(t.subscribers) > publishReach {
		return true
	}
	if k != channels {
		return false
	}
	return h.fixed+len(channel)*h.perByte > publishInline
}

// leave ends all subscriptions of c.
func (h *hub) leave(c *conn) {
	if c.subs == nil {
		return
	}
	for k := range kinds {
		for name := range c.subs.names[k] {
			h.remove(k, name, c)
		}
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
	c.setMeta(func(m *clientMeta) { m.subs = c.subs.counts() })
}

// publish sends a message, of which it makes a copy if somebody gets it, and
// returns how many connections' subscriptions it met. Patterns are compared
// outside of the lock, which those who subscribe wait for. The error is
// memory.ErrFull.
func (h *hub) publish(k kind, channel string, message []byte) (receivers int, err error) {
	return h.send(k, channel, func() *payload {
		p := h.memory.payload(len(channel) + len(message))
		if p != nil {
			p.text = append([]byte{}, message...)
		}
		return p
	})
}

// publishOwn is publish of a message that is nobody else's, which finds room.
func (h *hub) publishOwn(k kind, channel string, message []byte) {
	_, _ = h.send(k, channel, func() *payload { return h.memory.payloadOf(message) })
}

// send sends what make makes once somebody gets it.
func (h *hub) send(k kind, channel string, make func() *payload) (receivers int, err error) {
	var p *payload
	for _, t := range h.reached(k, channel) {
		if t.pattern != nil && !t.pattern.Match(channel) {
			continue
		}
		if p == nil {
			if p = make(); p == nil {
				return 0, memory.ErrFull
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
	t := h.topics[channels][channel]
	h.mu.RUnlock()
	if t != nil {
		p := h.memory.payloadOf(message)
		h.sendTo(t, channel, p)
		p.drop()
	}
}

// reached returns the topic of a channel, if there is one, and those of all
// patterns, which sharded channels do not match.
func (h *hub) reached(k kind, channel string) []*topic {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var topics []*topic
	if t := h.topics[k][channel]; t != nil {
		topics = append(topics, t)
	}
	if k != channels {
		return topics
	}
	return slices.AppendSeq(slices.Grow(topics, len(h.topics[patterns])), maps.Values(h.topics[patterns]))
}

// sendTo puts a message into the inboxes of the subscribers of a topic and returns
// how many they are.
func (h *hub) sendTo(t *topic, channel string, p *payload) int {
	d := delivery{p, func(w *resp.Writer) {
		if t.pattern == nil {
			w.Push(3)
			w.BulkString(t.kind.words().message)
		} else {
			w.Push(4)
			w.BulkString(t.kind.words().message)
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
func (h *hub) receivers(k kind, channel string) (n int) {
	for _, t := range h.reached(k, channel) {
		if t.pattern == nil || t.pattern.Match(channel) {
			h.mu.RLock()
			n += len(t.subscribers)
			h.mu.RUnlock()
		}
	}
	return n
}

// names returns the channels of a kind with subscribers that match pattern; nil
// matches all.
func (h *hub) names(k kind, pattern *glob.Pattern) []string {
	h.mu.RLock()
	out := slices.AppendSeq(make([]string, 0, len(h.topics[k])), maps.Keys(h.topics[k]))
	h.mu.RUnlock()
	if pattern == nil {
		return out
	}
	return slices.DeleteFunc(out, func(name string) bool { return !pattern.Match(name) })
}

// subscribers returns how many connections are subscribed to a channel itself.
func (h *hub) subscribers(k kind, channel string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.topics[k][channel]; t != nil {
		return len(t.subscribers)
	}
	return 0
}

// count returns how many names of a kind have subscribers.
func (h *hub) count(k kind) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.topics[k])
}
