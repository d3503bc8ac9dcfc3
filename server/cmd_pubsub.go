package server

import (
	"slices"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
)

func pubsubCommands() []command.Spec {
	const flags = command.PubSub | command.Loading | command.Stale | command.NoTable
	const group = "pubsub"
	return []command.Spec{
		{
			Name: "subscribe", Arity: -2, Flags: flags | command.NoScript | command.NoMulti | command.Subscribed | command.NeedsConn, Group: group,
			Complexity: "O(N), N the number of channels", Summary: "Listens for messages published to channels.",
			Syntax: "channel [channel ...]", Handler: onConn(cmdSubscribe),
		},
		{
			Name: "psubscribe", Arity: -2, Flags: flags | command.NoScript | command.NoMulti | command.Subscribed | command.NeedsConn, Group: group,
			Complexity: "O(N), N the number of patterns", Summary: "Listens for messages published to channels that match one or more patterns.",
			Syntax: "pattern [pattern ...]", Handler: onConn(cmdPSubscribe),
		},
		{
			Name: "unsubscribe", Arity: -1, Flags: flags | command.NoScript | command.NoMulti | command.Subscribed | command.NeedsConn, Group: group,
			Complexity: "O(N), N the number of channels", Summary: "Stops listening to messages posted to channels.",
			Syntax: "[channel ...]", Handler: onConn(cmdUnsubscribe),
		},
		{
			Name: "punsubscribe", Arity: -1, Flags: flags | command.NoScript | command.NoMulti | command.Subscribed | command.NeedsConn, Group: group,
			Complexity: "O(N), N the number of patterns", Summary: "Stops listening to messages published to channels that match one or more patterns.",
			Syntax: "[pattern ...]", Handler: onConn(cmdPUnsubscribe),
		},
		{
			Name: "publish", Arity: 3, Flags: flags | command.Fast | command.Long | command.Forwarded, Group: group,
			Complexity: "O(N+M), N the subscribers of the channel and M the patterns", Summary: "Posts a message to a channel.",
			Syntax: "channel message", Handler: onConn(cmdPublish),
		},
		{
			Name: "pubsub", Arity: -2, Group: group, Complexity: "Depends on subcommand.",
			Summary: "A container for Pub/Sub commands.",
			Subs: []command.Spec{
				{
					Name: "channels", Arity: -2, Flags: flags, Group: group, Complexity: "O(N), N the number of active channels",
					Summary: "Returns the active channels.", Syntax: "[pattern]", Handler: onCall(cmdPubSubChannels),
				},
				{
					Name: "numsub", Arity: -2, Flags: flags, Group: group, Complexity: "O(N), N the number of requested channels",
					Summary: "Returns a count of subscribers to channels, without those to patterns.", Syntax: "[channel ...]", Handler: onCall(cmdPubSubNumSub),
				},
				{
					Name: "numpat", Arity: 2, Flags: flags, Group: group, Complexity: "O(1)",
					Summary: "Returns a count of unique pattern subscriptions.", Handler: onConn(cmdPubSubNumPat),
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
	if channel == eventsChannel {
		c.error("ERR events are published by the server alone")
		return
	}
	publish := func(w *resp.Writer, message []byte) {
		receivers, err := h.publish(channel, message)
		if err != nil {
			w.Error("ERR " + err.Error())
			return
		}
		w.Int(int64(receivers))
	}
	if !h.wide(channel) {
		publish(c.w, args[2])
		return
	}
	message := append([]byte(nil), args[2]...)
	c.blockKeeping(len(message), func(w *resp.Writer) { publish(w, message) })
}

func cmdPubSubChannels(c *conn, call *command.Call) {
	var pattern *glob.Pattern
	args := call.Args
	switch len(args) {
	case 2:
	case 3:
		var ok bool
		if pattern, ok = c.pattern(args[2]); !ok {
			return
		}
	default:
		c.error(command.WrongArity(call.Spec))
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

func cmdPubSubNumSub(c *conn, call *command.Call) {
	args := call.Args
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
