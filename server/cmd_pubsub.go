package server

import (
	"slices"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/glob"
)

func pubsubCommands() []command {
	const flags = flagPubSub | flagLoading | flagStale | flagNoTable
	const group = "pubsub"
	return []command{
		{
			name: "subscribe", arity: -2, flags: flags | flagNoScript | flagNoMulti | flagSubscribed, group: group,
			complexity: "O(N), N the number of channels", summary: "Listens for messages published to channels.",
			syntax: "channel [channel ...]", handler: cmdSubscribe,
		},
		{
			name: "psubscribe", arity: -2, flags: flags | flagNoScript | flagNoMulti | flagSubscribed, group: group,
			complexity: "O(N), N the number of patterns", summary: "Listens for messages published to channels that match one or more patterns.",
			syntax: "pattern [pattern ...]", handler: cmdPSubscribe,
		},
		{
			name: "unsubscribe", arity: -1, flags: flags | flagNoScript | flagNoMulti | flagSubscribed, group: group,
			complexity: "O(N), N the number of channels", summary: "Stops listening to messages posted to channels.",
			syntax: "[channel ...]", handler: cmdUnsubscribe,
		},
		{
			name: "punsubscribe", arity: -1, flags: flags | flagNoScript | flagNoMulti | flagSubscribed, group: group,
			complexity: "O(N), N the number of patterns", summary: "Stops listening to messages published to channels that match one or more patterns.",
			syntax: "[pattern ...]", handler: cmdPUnsubscribe,
		},
		{
			name: "publish", arity: 3, flags: flags | flagFast | flagLong | flagForwarded, group: group,
			complexity: "O(N+M), N the subscribers of the channel and M the patterns", summary: "Posts a message to a channel.",
			syntax: "channel message", handler: cmdPublish,
		},
		{
			name: "pubsub", arity: -2, group: group, complexity: "Depends on subcommand.",
			summary: "A container for Pub/Sub commands.",
			subs: []command{
				{
					name: "channels", arity: -2, flags: flags, group: group, complexity: "O(N), N the number of active channels",
					summary: "Returns the active channels.", syntax: "[pattern]", handler: cmdPubSubChannels,
				},
				{
					name: "numsub", arity: -2, flags: flags, group: group, complexity: "O(N), N the number of requested channels",
					summary: "Returns a count of subscribers to channels, without those to patterns.", syntax: "[channel ...]", handler: cmdPubSubNumSub,
				},
				{
					name: "numpat", arity: 2, flags: flags, group: group, complexity: "O(1)",
					summary: "Returns a count of unique pattern subscriptions.", handler: cmdPubSubNumPat,
				},
			},
		},
	}
}

// subscriptionKind are the two kinds of subscriptions, so that a handler each is
// all that they do not share.
type subscriptionKind struct {
	patterns               bool
	subscribe, unsubscribe string // the confirmations' first words
	all                    func(*hub) map[string]*topic
	own                    func(*subscriptions) map[string]struct{}
}

var (
	channelKind = subscriptionKind{false, "subscribe", "unsubscribe",
		func(h *hub) map[string]*topic { return h.channels },
		func(s *subscriptions) map[string]struct{} { return s.channels }}
	patternKind = subscriptionKind{true, "psubscribe", "punsubscribe",
		func(h *hub) map[string]*topic { return h.patterns },
		func(s *subscriptions) map[string]struct{} { return s.patterns }}
)

func cmdSubscribe(c *conn, args [][]byte)    { c.subscribe(channelKind, args[1:]) }
func cmdPSubscribe(c *conn, args [][]byte)   { c.subscribe(patternKind, args[1:]) }
func cmdUnsubscribe(c *conn, args [][]byte)  { c.unsubscribe(channelKind, args[1:]) }
func cmdPUnsubscribe(c *conn, args [][]byte) { c.unsubscribe(patternKind, args[1:]) }

// subscribe adds names and confirms each. With one that is refused none is
// added.
func (c *conn) subscribe(kind subscriptionKind, names [][]byte) {
	if len(names) > maxNames {
		c.error(errNames)
		return
	}
	if kind.patterns && len(names) > maxPatterns {
		c.error(errPatterns)
		return
	}
	patterns := make([]*glob.Pattern, len(names)) // nil for channels
	for i, name := range names {
		if kind.patterns {
			p, ok := c.pattern(name)
			if !ok {
				return
			}
			patterns[i] = p
		} else if len(name) > maxChannel {
			c.error(errChannel)
			return
		}
	}
	if c.subs == nil {
		c.subs = &subscriptions{channels: map[string]struct{}{}, patterns: map[string]struct{}{}}
	}
	if c.subs.count()+len(names) > maxSubscriptions && c.subs.added(kind, names) > maxSubscriptions {
		c.error(errSubscriptions)
		c.subscribed()
		return
	}
	h := &c.srv.pubsub
	for i, name := range names {
		own := kind.own(c.subs)
		if _, already := own[string(name)]; !already {
			h.add(kind.all(h), own, string(name), patterns[i], c)
		}
		c.confirm(kind.subscribe, name)
	}
	if c.subs.size > c.srv.cfg.QueryBufferLimit {
		c.srv.stats.counts[countQueryBufferKills].Add(1)
		c.kill()
	}
	c.subscribed()
}

// added returns how many subscriptions there would be with names too.
func (s *subscriptions) added(kind subscriptionKind, names [][]byte) int {
	fresh := make(map[string]struct{})
	for _, name := range names {
		if _, already := kind.own(s)[string(name)]; !already {
			fresh[string(name)] = struct{}{}
		}
	}
	return s.count() + len(fresh)
}

const errSubscriptions = "ERR at most 4096 channels and patterns on one connection"

const errChannel = "ERR channel is longer than 1024 bytes"

// unsubscribe ends subscriptions, all of a kind without names, and confirms
// each.
func (c *conn) unsubscribe(kind subscriptionKind, names [][]byte) {
	if len(names) > maxNames {
		c.error(errNames)
		return
	}
	if len(names) == 0 && c.subs != nil {
		for name := range kind.own(c.subs) {
			names = append(names, []byte(name))
		}
		slices.SortFunc(names, slices.Compare)
	}
	if len(names) == 0 {
		c.confirm(kind.unsubscribe, nil)
		return
	}
	h := &c.srv.pubsub
	for _, name := range names {
		if c.subs != nil {
			own := kind.own(c.subs)
			if _, ok := own[string(name)]; ok {
				h.remove(kind.all(h), own, string(name), c)
			}
		}
		c.confirm(kind.unsubscribe, name)
	}
	c.subscribed()
}

// confirm tells of a subscription that has begun or ended, and how many there
// are now.
func (c *conn) confirm(what string, name []byte) {
	c.w.Push(3)
	c.w.BulkString(what)
	if name == nil {
		c.w.Null()
	} else {
		c.w.Bulk(name)
	}
	c.w.Int(int64(c.subs.count()))
}

func cmdPublish(c *conn, args [][]byte) {
	if len(args[1]) > maxChannel {
		c.error(errChannel)
		return
	}
	h, channel := &c.srv.pubsub, string(args[1])
	if !h.wide(channel) {
		c.w.Int(int64(h.publish(channel, args[2])))
		return
	}
	message := append([]byte(nil), args[2]...)
	c.blockKeeping(len(message), func(w *resp.Writer) { w.Int(int64(h.publish(channel, message))) })
}

func cmdPubSubChannels(c *conn, args [][]byte) {
	var pattern *glob.Pattern
	switch len(args) {
	case 2:
	case 3:
		var ok bool
		if pattern, ok = c.pattern(args[2]); !ok {
			return
		}
	default:
		c.error(wrongArity(c.lane.counted))
		return
	}
	h := &c.srv.pubsub
	c.block(func(w *resp.Writer) {
		names := h.names(pattern)
		w.Array(len(names))
		for _, n := range names {
			w.BulkString(n)
		}
	})
}

func cmdPubSubNumSub(c *conn, args [][]byte) {
	if len(args)-2 > maxNames {
		c.error(errNames)
		return
	}
	c.w.Map(len(args) - 2)
	for _, name := range args[2:] {
		c.w.Bulk(name)
		c.w.Int(int64(c.srv.pubsub.subscribers(string(name))))
	}
}

func cmdPubSubNumPat(c *conn, _ [][]byte) { c.w.Int(int64(c.srv.pubsub.patternCount())) }
