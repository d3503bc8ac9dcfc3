package pubsub

import (
	"maps"
	"slices"
	"sync"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
	"github.com/headgate-io/headgate/server/memory"
)

// Hub sends messages to their subscribers. It puts a message into each subscriber's inbox.
// Waiting messages count against the limit of the connection's output buffer. So a
// subscriber that falls behind is closed, and memory is bounded. All methods are safe for
// concurrent use.
type Hub struct {
	account              *memory.Account
	own                  string
	tell                 func(k Kind, channel string, message []byte)
	told                 func(call *command.Call) bool
	find                 func(id uint64) *Subscriber
	monitors, broadcasts group // MONITOR, CLIENT TRACKING with BCAST

	// mu guards the fields below.
	mu     sync.RWMutex
	topics [Kinds]map[string]*topic
	// fixed and perByte bound the steps to match a channel of n bytes with all patterns: at
	// most fixed + n*perByte.
	fixed, perByte int
}

// Config configures a Hub. All fields but Tell and Told must be set.
type Config struct {
	Account *memory.Account // for the messages that wait in inboxes
	// Own is the channel that clients may not publish to.
	Own string
	// Find returns the subscriber of a client by the client's id, or nil.
	Find func(id uint64) *Subscriber
	// Watched is called after each change of whether any client watches with MONITOR.
	// Tracked is called after each change of whether any client tracks with BCAST.
	Watched, Tracked func(bool)
	// Tell sends a message that a client or a script has published to the other nodes. It
	// does not keep the message. It is nil on a node without a cluster. Told reports whether a
	// call has come from another node in this way.
	Tell func(k Kind, channel string, message []byte)
	Told func(call *command.Call) bool
}

// New returns a hub without subscribers.
func New(c Config) *Hub {
	h := &Hub{account: c.Account, own: c.Own, find: c.Find, tell: c.Tell, told: c.Told}
	h.monitors.some, h.broadcasts.some = c.Watched, c.Tracked
	for k := range h.topics {
		h.topics[k] = make(map[string]*topic)
	}
	return h
}

// Kind is a kind of subscription. Names of different kinds are independent.
type Kind uint8

const (
	Channels Kind = iota
	Patterns
	Shards // sharded channels: clients of a cluster find the node by the slot of the name
	Kinds
)

// words returns a kind's names in commands, confirmations and messages.
func (k Kind) words() *kindWords { return &allWords[k] }

// Publishes returns the command that publishes to subscribers of a kind.
func (k Kind) Publishes() string { return k.words().publish }

type kindWords struct{ subscribe, unsubscribe, message, publish string }

var allWords = [Kinds]kindWords{
	{"subscribe", "unsubscribe", "message", "publish"}, {"psubscribe", "punsubscribe", "pmessage", ""},
	{"ssubscribe", "sunsubscribe", "smessage", "spublish"},
}

// topic is what a subscription is about: a channel, or all channels that match a pattern.
type topic struct {
	kind        Kind
	pattern     *glob.Pattern // nil for a channel
	subscribers map[*Subscriber]struct{}
}

const (
	// maxChannel bounds the name of a channel, in bytes. It thereby bounds the time to find
	// the subscribers of a message.
	maxChannel = 1 << 10

	// maxSubscriptions bounds the channels and patterns of a connection. When the
	// connection closes, its thread ends all of them, at about 1 µs each.
	maxSubscriptions = 4096

	// publishInline is the most steps that a loop takes to find the subscribers of a
	// message, and publishReach the most subscribers that it sends a message to. Both take
	// about 0.1 ms. Beyond these bounds a worker sends the message.
	publishInline = 10_000
	publishReach  = 256
)

// subscriptions are the channels and patterns of a connection. Only the connection's thread
// uses them.
type subscriptions struct {
	names [Kinds]map[string]struct{}
	size  int // bytes of the names
}

func newSubscriptions() *subscriptions {
	s := new(subscriptions)
	for k := range s.names {
		s.names[k] = make(map[string]struct{})
	}
	return s
}

// counts returns the number of names by kind.
func (s *subscriptions) counts() (n [Kinds]int) {
	if s != nil {
		for k := range s.names {
			n[k] = len(s.names[k])
		}
	}
	return n
}

// count returns the number of names.
func (s *subscriptions) count() (n int) {
	for _, of := range s.counts() {
		n += of
	}
	return n
}

// told returns the number of subscriptions that a confirmation shows. As in Redis, sharded
// channels have a count of their own.
func (s *subscriptions) told(k Kind) int {
	n := s.counts()
	if k == Shards {
		return n[Shards]
	}
	return n[Channels] + n[Patterns]
}

// add makes s a subscriber of name. pattern is nil if name is a channel.
func (h *Hub) add(k Kind, name string, pattern *glob.Pattern, s *Subscriber) {
	s.subs.names[k][name] = struct{}{}
	s.subs.size += subscriptionSize(name, pattern)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[k][name]
	if t == nil {
		t = &topic{k, pattern, make(map[*Subscriber]struct{})}
		h.topics[k][name] = t
		h.weigh(pattern, 1)
	}
	t.subscribers[s] = struct{}{}
}

// remove ends a subscription of s.
func (h *Hub) remove(k Kind, name string, s *Subscriber) {
	delete(s.subs.names[k], name)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[k][name]
	s.subs.size -= subscriptionSize(name, t.pattern)
	delete(t.subscribers, s)
	if len(t.subscribers) == 0 {
		delete(h.topics[k], name)
		h.weigh(t.pattern, -1)
	}
}

// weigh adds a pattern to the cost of matching or, if sign is -1, removes it. The caller
// holds mu.
func (h *Hub) weigh(p *glob.Pattern, sign int) {
	if p != nil {
		h.fixed += sign * p.Steps(0)
		h.perByte += sign * (p.Steps(1) - p.Steps(0))
	}
}

// subscriptionSize returns the approximate memory of a subscription, in bytes.
func subscriptionSize(name string, pattern *glob.Pattern) int {
	size := len(name) + subscriptionOverhead
	if pattern != nil {
		size += pattern.Size()
	}
	return size
}

// wide reports whether a message takes long to send, because its channel has many
// subscribers or because many patterns must be matched.
func (h *Hub) wide(k Kind, channel string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.topics[k][channel]; t != nil && len(t.subscribers) > publishReach {
		return true
	}
	if k != Channels {
		return false
	}
	return h.fixed+len(channel)*h.perByte > publishInline
}

// Publish sends a message and returns the number of subscriptions that get it. It copies
// the message if anybody gets it. It matches patterns without holding the lock, because
// clients need the lock to subscribe. The error is memory.ErrFull.
func (h *Hub) Publish(k Kind, channel string, message []byte) (receivers int, err error) {
	return h.send(k, channel, func() *payload {
		p := newPayload(h.account, len(channel)+len(message))
		if p != nil {
			p.text = append([]byte{}, message...)
		}
		return p
	})
}

// PublishOwn does the same as Publish with a message that the hub may keep without a copy.
// It never fails for lack of memory.
func (h *Hub) PublishOwn(k Kind, channel string, message []byte) {
	_, _ = h.send(k, channel, func() *payload { return ownPayload(h.account, message) })
}

// PublishAll does the same as PublishOwn, also on the other nodes.
func (h *Hub) PublishAll(k Kind, channel string, message []byte) {
	h.PublishOwn(k, channel, message)
	if h.tell != nil {
		h.tell(k, channel, message)
	}
}

// Reaches reports whether a message that receivers on this node would get must be sent at
// all. In a cluster it must, because other nodes may have subscribers.
func (h *Hub) Reaches(receivers int) bool { return receivers > 0 || h.tell != nil }

// send sends a message. It calls make for the message's text when it knows that somebody
// gets it.
func (h *Hub) send(k Kind, channel string, make func() *payload) (receivers int, err error) {
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

// PublishTo sends a message to the subscribers of a channel's name, not to patterns. The
// message must not change afterwards.
func (h *Hub) PublishTo(channel string, message []byte) {
	h.mu.RLock()
	t := h.topics[Channels][channel]
	h.mu.RUnlock()
	if t != nil {
		p := ownPayload(h.account, message)
		h.sendTo(t, channel, p)
		p.drop()
	}
}

// reached returns the topic of a channel, if it exists, and the topics of all matching
// patterns. Patterns do not match sharded channels.
func (h *Hub) reached(k Kind, channel string) []*topic {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var topics []*topic
	if t := h.topics[k][channel]; t != nil {
		topics = append(topics, t)
	}
	if k != Channels {
		return topics
	}
	return slices.AppendSeq(slices.Grow(topics, len(h.topics[Patterns])), maps.Values(h.topics[Patterns]))
}

// sendTo puts a message into the inboxes of a topic's subscribers and returns their number.
func (h *Hub) sendTo(t *topic, channel string, p *payload) int {
	m := Message{shared: p, head: func(w *resp.Writer) {
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
	for s := range t.subscribers {
		s.conn.Put(m)
	}
	return len(t.subscribers)
}

// subscriptionOverhead is the memory of a subscription's places in two maps.
const subscriptionOverhead = 128

// Receivers returns how many subscriptions would get a message on a channel.
func (h *Hub) Receivers(k Kind, channel string) (n int) {
	for _, t := range h.reached(k, channel) {
		if t.pattern == nil || t.pattern.Match(channel) {
			h.mu.RLock()
			n += len(t.subscribers)
			h.mu.RUnlock()
		}
	}
	return n
}

// names returns the channels of a kind that have subscribers and match pattern. A nil
// pattern matches all.
func (h *Hub) names(k Kind, pattern *glob.Pattern) []string {
	h.mu.RLock()
	out := slices.AppendSeq(make([]string, 0, len(h.topics[k])), maps.Keys(h.topics[k]))
	h.mu.RUnlock()
	if pattern == nil {
		return out
	}
	return slices.DeleteFunc(out, func(name string) bool { return !pattern.Match(name) })
}

// Subscribers returns how many connections are subscribed to a channel by its name, without
// patterns.
func (h *Hub) Subscribers(k Kind, channel string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.topics[k][channel]; t != nil {
		return len(t.subscribers)
	}
	return 0
}

// Count returns how many names of a kind have subscribers.
func (h *Hub) Count(k Kind) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.topics[k])
}
