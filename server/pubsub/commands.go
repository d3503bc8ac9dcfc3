package pubsub

import (
	"slices"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
)

// On makes a handler from a function on the connection's Subscriber.
type On func(fn func(s *Subscriber, call *command.Call)) command.Handler

// Commands returns the commands of Pub/Sub.
func Commands(h *Hub, on On) []command.Spec {
	const flags = command.PubSub | command.Loading | command.Stale | command.NoTable
	const group = "pubsub"
	// subscribes returns the commands that begin and end subscriptions of a kind.
	subscribes := func(k Kind, n, begins, ends, name string, at command.Keys) []command.Spec {
		const own = flags | command.NoScript | command.Subscribed | command.NeedsConn
		return []command.Spec{
			{
				Name: k.words().subscribe, Arity: -2, Flags: own, Channels: at, Group: group, Complexity: "O(N), N the number of " + n, Summary: begins,
				Syntax: name + " [" + name + " ...]", Handler: on(func(s *Subscriber, call *command.Call) { s.subscribe(call, k, call.Args[1:]) }),
			},
			{
				Name: k.words().unsubscribe, Arity: -1, Flags: own, Channels: at, Group: group, Complexity: "O(N), N the number of " + n, Summary: ends,
				Syntax: "[" + name + " ...]", Handler: on(func(s *Subscriber, call *command.Call) { s.unsubscribe(call, k, call.Args[1:]) }),
			},
		}
	}
	publish := func(k Kind, name, complexity, summary, syntax string, at command.Keys) command.Spec {
		return command.Spec{
			Name: name, Arity: 3, Flags: flags | command.Fast | command.Long | command.Forwarded, Channels: at, Group: group,
			Complexity: complexity, Summary: summary, Syntax: syntax, Handler: func(call *command.Call) { h.handlePublish(call, k) },
		}
	}
	sub := func(name string, arity int, complexity, summary, syntax string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags, Group: group, Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	return slices.Concat(
		subscribes(Channels, "channels", "Listens for messages published to channels.", "Stops listening to messages posted to channels.", "channel", command.Keys{}),
		subscribes(Patterns, "patterns", "Listens for messages published to channels that match one or more patterns.",
			"Stops listening to messages published to channels that match one or more patterns.", "pattern", command.Keys{}),
		subscribes(Shards, "sharded channels", "Listens for messages published to sharded channels.", "Stops listening to messages posted to sharded channels.",
			"shardchannel", command.Keys{First: 1, Last: -1, Step: 1}),
		[]command.Spec{
			publish(Channels, "publish", "O(N+M), N the subscribers of the channel and M the patterns", "Posts a message to a channel.", "channel message", command.Keys{}),
			publish(Shards, "spublish", "O(N), N the subscribers of the channel", "Posts a message to a sharded channel.", "shardchannel message",
				command.Keys{First: 1, Last: 1, Step: 1}),
			{
				Name: "pubsub", Arity: -2, Group: group, Complexity: "Depends on subcommand.",
				Summary: "A container for Pub/Sub commands.",
				Subs: []command.Spec{
					sub("channels", -2, "O(N), N the number of active channels", "Returns the active channels.", "[pattern]", h.listsChannels(Channels)),
					sub("numsub", -2, "O(N), N the number of requested channels", "Returns a count of subscribers to channels, without those to patterns.",
						"[channel ...]", h.countsSubscribers(Channels)),
					sub("numpat", 2, "O(1)", "Returns a count of unique pattern subscriptions.", "",
						func(call *command.Call) { call.W.Int(int64(h.Count(Patterns))) }),
					sub("shardchannels", -2, "O(N), N the number of active sharded channels", "Returns the active sharded channels.", "[pattern]", h.listsChannels(Shards)),
					sub("shardnumsub", -2, "O(N), N the number of requested channels", "Returns a count of subscribers to sharded channels.",
						"[shardchannel ...]", h.countsSubscribers(Shards)),
				},
			},
		})
}

// subscribe adds names and confirms each. If it refuses one of them, it adds none.
func (s *Subscriber) subscribe(call *command.Call, k Kind, names [][]byte) {
	if len(names) > command.MaxNames {
		call.Error(command.ErrNames)
		return
	}
	if k == Patterns && len(names) > command.MaxPatterns {
		call.Error(command.ErrPatterns)
		return
	}
	if k == Shards && call.InExec {
		call.Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client") // as in Redis
		return
	}
	compiled := make([]*glob.Pattern, len(names)) // nil for channels
	for i, name := range names {
		if k == Patterns {
			p, ok := call.Pattern(name)
			if !ok {
				return
			}
			compiled[i] = p
		} else if len(name) > maxChannel {
			call.Error(errChannel)
			return
		}
	}
	subs := s.subs
	if subs == nil {
		subs = newSubscriptions()
	}
	if subs.count()+len(names) > maxSubscriptions && subs.added(k, names) > maxSubscriptions {
		call.Error(errSubscriptions)
		return
	}
	s.subs = subs
	for i, name := range names {
		if _, already := subs.names[k][string(name)]; !already {
			s.hub.add(k, string(name), compiled[i], s)
		}
		subs.confirm(call.W, k, k.words().subscribe, name)
	}
	s.subscribed()
}

// added returns how many subscriptions there would be after names are added.
func (s *subscriptions) added(k Kind, names [][]byte) int {
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

// unsubscribe ends subscriptions and confirms each end. Without names it ends all
// subscriptions of the kind.
func (s *Subscriber) unsubscribe(call *command.Call, k Kind, names [][]byte) {
	if len(names) > command.MaxNames {
		call.Error(command.ErrNames)
		return
	}
	if len(names) == 0 && s.subs != nil {
		for name := range s.subs.names[k] {
			names = append(names, []byte(name))
		}
		slices.SortFunc(names, slices.Compare)
	}
	if len(names) == 0 {
		s.subs.confirm(call.W, k, k.words().unsubscribe, nil)
		return
	}
	for _, name := range names {
		if s.subs != nil {
			if _, ok := s.subs.names[k][string(name)]; ok {
				s.hub.remove(k, string(name), s)
				s.conn.CatchUpWhole()
			}
		}
		s.subs.confirm(call.W, k, k.words().unsubscribe, name)
	}
	s.subscribed()
}

// confirm writes that a subscription has begun or ended, and how many subscriptions there
// are now.
func (s *subscriptions) confirm(w *resp.Writer, k Kind, what string, name []byte) {
	w.Push(3)
	w.BulkString(what)
	if name == nil {
		w.Null()
	} else {
		w.Bulk(name)
	}
	w.Int(int64(s.told(k)))
}

// Refusal returns why clients may not publish on a channel; "" if they may.
func (h *Hub) Refusal(channel string) string {
	if len(channel) > maxChannel {
		return errChannel
	}
	if channel == h.own {
		return "ERR only the server publishes events"
	}
	return ""
}

// handlePublish is PUBLISH and SPUBLISH.
func (h *Hub) handlePublish(call *command.Call, k Kind) {
	channel := string(call.Args[1])
	if msg := h.Refusal(channel); msg != "" {
		call.Error(msg)
		return
	}
	if call.Movable {
		h.publishLater(call, k, channel)
		return
	}
	everywhere := h.tell != nil && !h.told(call)
	publish := func(w *resp.Writer, message []byte) {
		receivers, err := h.Publish(k, channel, message)
		if err != nil {
			w.Error("ERR " + err.Error())
			return
		}
		if everywhere {
			h.tell(k, channel, message)
		}
		w.Int(int64(receivers))
	}
	if !h.wide(k, channel) {
		publish(call.W, call.Args[2])
		return
	}
	message := append([]byte(nil), call.Args[2]...)
	call.Host.Block(call, len(message), func(w *resp.Writer) { publish(w, message) })
}

// publishLater is PUBLISH or SPUBLISH in a transaction that can move to a worker. The
// message is sent when the transaction has committed. The reply counts the subscribers
// of now.
func (h *Hub) publishLater(call *command.Call, k Kind, channel string) {
	if call.Moves = h.wide(k, channel); call.Moves {
		return
	}
	receivers := h.Receivers(k, channel)
	call.W.Int(int64(receivers))
	if message := call.Args[2]; h.Reaches(receivers) { // the transaction owns the message
		call.Later(messageEntries+receivers+len(message)/command.BytesOfEntry, func() { h.PublishAll(k, channel, message) })
	}
}

// messageEntries is the work to send a message, without its bytes and receivers, in the
// unit of command.InlineEntries.
const messageEntries = 10

// listsChannels is PUBSUB CHANNELS and SHARDCHANNELS.
func (h *Hub) listsChannels(k Kind) command.Handler {
	return func(call *command.Call) {
		var pattern *glob.Pattern
		args := call.Args
		switch len(args) {
		case 2:
		case 3:
			var ok bool
			if pattern, ok = call.Pattern(args[2]); !ok {
				return
			}
		default:
			call.Error(command.WrongArity(call.Spec))
			return
		}
		call.Host.Block(call, 0, func(w *resp.Writer) {
			names := h.names(k, pattern)
			w.Array(len(names))
			for _, n := range names {
				w.BulkString(n)
			}
		})
	}
}

// countsSubscribers is PUBSUB NUMSUB and SHARDNUMSUB.
func (h *Hub) countsSubscribers(k Kind) command.Handler {
	return func(call *command.Call) {
		names := call.Args[2:]
		if len(names) > command.MaxNames {
			call.Error(command.ErrNames)
			return
		}
		call.W.Array(2 * len(names))
		for _, name := range names {
			call.W.Bulk(name)
			call.W.Int(int64(h.Subscribers(k, string(name))))
		}
	}
}
