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
	// subscribes are the commands that begin and end subscriptions of a kind.
	subscribes := func(k kind, n, begins, ends, name string, at command.Keys) []command.Spec {
		const own = flags | command.NoScript | command.Subscribed | command.NeedsConn
		return []command.Spec{
			{
				Name: k.words().subscribe, Arity: -2, Flags: own, Channels: at, Group: group, Complexity: "O(N), N the number of " + n, Summary: begins,
				Syntax: name + " [" + name + " ...]", Handler: onConn(func(c *conn, args [][]byte) { c.subscribe(k, args[1:]) }),
			},
			{
				Name: k.words().unsubscribe, Arity: -1, Flags: own, Channels: at, Group: group, Complexity: "O(N), N the number of " + n, Summary: ends,
				Syntax: "[" + name + " ...]", Handler: onConn(func(c *conn, args [][]byte) { c.unsubscribe(k, args[1:]) }),
			},
		}
	}
	publish := func(k kind, name, complexity, summary, syntax string, at command.Keys) command.Spec {
		return command.Spec{
			Name: name, Arity: 3, Flags: flags | command.Fast | command.Long | command.Forwarded, Channels: at, Group: group,
			Complexity: complexity, Summary: summary, Syntax: syntax, Handler: onConn(func(c *conn, args [][]byte) { c.publish(k, args) }),
		}
	}
	sub := func(name string, arity int, complexity, summary, syntax string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags, Group: group, Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	return slices.Concat(
		subscribes(channels, "channels", "Listens for messages published to channels.", "Stops listening to messages posted to channels.", "channel", command.Keys{}),
		subscribes(patterns, "patterns", "Listens for messages published to channels that match one or more patterns.",
			"Stops listening to messages published to channels that match one or more patterns.", "pattern", command.Keys{}),
		subscribes(shards, "sharded channels", "Listens for messages published to sharded channels.", "Stops listening to messages posted to sharded channels.",
			"shardchannel", command.Keys{First: 1, Last: -1, Step: 1}),
		[]command.Spec{
			publish(channels, "publish", "O(N+M), N the subscribers of the channel and M the patterns", "Posts a message to a channel.", "channel message", command.Keys{}),
			publish(shards, "spublish", "O(N), N the subscribers of the channel", "Posts a message to a sharded channel.", "shardchannel message",
				command.Keys{First: 1, Last: 1, Step: 1}),
			{
				Name: "pubsub", Arity: -2, Group: group, Complexity: "Depends on subcommand.",
				Summary: "A container for Pub/Sub commands.",
				Subs: []command.Spec{
					sub("channels", -2, "O(N), N the number of active channels", "Returns the active channels.", "[pattern]", listsChannels(channels)),
					sub("numsub", -2, "O(N), N the number of requested channels", "Returns a count of subscribers to channels, without those to patterns.",
						"[channel ...]", countsSubscribers(channels)),
					sub("numpat", 2, "O(1)", "Returns a count of unique pattern subscriptions.", "",
						onConn(func(c *conn, _ [][]byte) { c.w.Int(int64(c.srv.pubsub.count(patterns))) })),
					sub("shardchannels", -2, "O(N), N the number of active sharded channels", "Returns the active sharded channels.", "[pattern]", listsChannels(shards)),
					sub("shardnumsub", -2, "O(N), N the number of requested channels", "Returns a count of subscribers to sharded channels.",
						"[shardchannel ...]", countsSubscribers(shards)),
				},
			},
		})
}

// subscribe adds names and confirms each. With one that is refused none is
// added.
func (c *conn) subscribe(k kind, names [][]byte) {
	if len(names) > maxNames {
		c.error(errNames)
		return
	}
	if k == patterns && len(names) > maxPatterns {
		c.error(errPatterns)
		return
	}
	if k == shards && c.inExec {
		c.error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client") // as in Redis
		return
	}
	compiled := make([]*glob.Pattern, len(names)) // nil for channels
	for i, name := range names {
		if k == patterns {
			p, ok := c.pattern(name)
			if !ok {
				return
			}
			compiled[i] = p
		} else if len(name) > maxChannel {
			c.error(errChannel)
			return
		}
	}
	if c.subs == nil {
		c.subs = newSubscriptions()
	}
	if c.subs.count()+len(names) > maxSubscriptions && c.subs.added(k, names) > maxSubscriptions {
		c.error(errSubscriptions)
		c.subscribed()
		return
	}
	for i, name := range names {
		if _, already := c.subs.names[k][string(name)]; !already {
			c.srv.pubsub.add(k, string(name), compiled[i], c)
		}
		c.confirm(k, k.words().subscribe, name)
	}
	if c.subs.size > c.srv.cfg.QueryBufferLimit {
		c.srv.stats.counts[countQueryBufferKills].Add(1)
		c.kill()
	}
	c.subscribed()
}

// added returns how many subscriptions there would be with names too.
func (s *subscriptions) added(k kind, names [][]byte) int {
	fresh := make(map[string]struct{})
	for _, name := range names {
		if _, already := s.names[k][string(name)]; !already {
			fresh[string(name)] = struct{}{}
		}
	}
	return s.count() + len(fresh)
}

const errSubscriptions = "ERR at most 4096 channels and patterns on one connection"

const errChannel = "ERR channel is longer than 1024 bytes"

// unsubscribe ends subscriptions, all of a kind without names, and confirms
// each.
func (c *conn) unsubscribe(k kind, names [][]byte) {
	if len(names) > maxNames {
		c.error(errNames)
		return
	}
	if len(names) == 0 && c.subs != nil {
		for name := range c.subs.names[k] {
			names = append(names, []byte(name))
		}
		slices.SortFunc(names, slices.Compare)
	}
	if len(names) == 0 {
		c.confirm(k, k.words().unsubscribe, nil)
		return
	}
	for _, name := range names {
		if c.subs != nil {
			if _, ok := c.subs.names[k][string(name)]; ok {
				c.srv.pubsub.remove(k, string(name), c)
				c.catchUpWhole()
			}
		}
		c.confirm(k, k.words().unsubscribe, name)
	}
	c.subscribed()
}

// confirm tells of a subscription that has begun or ended, and how many there
// are now.
func (c *conn) confirm(k kind, what string, name []byte) {
	c.w.Push(3)
	c.w.BulkString(what)
	if name == nil {
		c.w.Null()
	} else {
		c.w.Bulk(name)
	}
	c.w.Int(int64(c.subs.told(k)))
}

// channelError returns the error of a message on a channel, or "".
func channelError(channel string) string {
	if len(channel) > maxChannel {
		return errChannel
	}
	if channel == eventsChannel {
		return "ERR events are published by the server alone"
	}
	return ""
}

// publish is PUBLISH and SPUBLISH.
func (c *conn) publish(k kind, args [][]byte) {
	h, channel := &c.srv.pubsub, string(args[1])
	if msg := channelError(channel); msg != "" {
		c.error(msg)
		return
	}
	publish := func(w *resp.Writer, message []byte) {
		receivers, err := h.publish(k, channel, message)
		if err != nil {
			w.Error("ERR " + err.Error())
			return
		}
		w.Int(int64(receivers))
	}
	if !h.wide(k, channel) {
		publish(c.w, args[2])
		return
	}
	message := append([]byte(nil), args[2]...)
	c.blockKeeping(len(message), func(w *resp.Writer) { publish(w, message) })
}

// listsChannels is PUBSUB CHANNELS and SHARDCHANNELS.
func listsChannels(k kind) command.Handler {
	return onCall(func(c *conn, call *command.Call) {
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
			names := h.names(k, pattern)
			w.Array(len(names))
			for _, n := range names {
				w.BulkString(n)
			}
		})
	})
}

// countsSubscribers is PUBSUB NUMSUB and SHARDNUMSUB.
func countsSubscribers(k kind) command.Handler {
	return onConn(func(c *conn, args [][]byte) {
		names := args[2:]
		if len(names) > maxNames {
			c.error(errNames)
			return
		}
		c.w.Array(2 * len(names))
		for _, name := range names {
			c.w.Bulk(name)
			c.w.Int(int64(c.srv.pubsub.subscribers(k, string(name))))
		}
	})
}
