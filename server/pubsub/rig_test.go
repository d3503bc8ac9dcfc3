package pubsub_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
)

// ownChannel is the channel that the rig's clients may not publish to.
const ownChannel = "own"

// rig is a Hub with its commands, and connections that keep what they are sent.
type rig struct {
	t       testing.TB
	hub     *pubsub.Hub
	account *memory.Account
	bound   int64 // of the account; 0 is none
	table   *command.Table
	clients map[uint64]*client
	watched bool // the hub's last report
	tracked bool
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, clients: make(map[uint64]*client)}
	r.account = memory.NewAccount(func() int64 { return r.bound }, func() {})
	r.hub = pubsub.New(pubsub.Config{
		Account: r.account, Own: ownChannel,
		Find: func(id uint64) *pubsub.Subscriber {
			if c := r.clients[id]; c != nil {
				return &c.sub
			}
			return nil
		},
		Watched: func(on bool) { r.watched = on }, Tracked: func(on bool) { r.tracked = on },
	})
	on := func(fn func(s *pubsub.Subscriber, call *command.Call)) command.Handler {
		return func(call *command.Call) { fn(&call.Host.(*client).sub, call) }
	}
	table, err := command.NewTable(pubsub.Commands(r.hub, on), []command.Spec{
		{Name: "monitor", Arity: 1, Handler: on((*pubsub.Subscriber).Monitor)},
		{Name: "track", Arity: -3, Handler: on((*pubsub.Subscriber).Track)},
		{Name: "caching", Arity: 3, Handler: on((*pubsub.Subscriber).Caching)},
		{Name: "get", Arity: 2, Flags: command.Readonly, Keys: command.Keys{First: 1, Last: 1, Step: 1}, Handler: func(call *command.Call) {
			call.W.Null()
			call.Host.(*client).sub.HasRead(call.Spec, call.Args, false)
		}},
	})
	require.NoError(t, err)
	r.table = table
	return r
}

// client is a connection: it implements command.Host and pubsub.Conn.
type client struct {
	command.Host // none
	r            *rig
	sub          pubsub.Subscriber
	resp3        bool
	changed      int // calls of Changed
	blocked      int // calls of Block

	mu   sync.Mutex
	got  []string // messages, as they are written
	held []pubsub.Message
	lost bool
}

// dial returns a new connection, whose id is the number of all.
func (r *rig) dial() *client {
	c := &client{r: r, resp3: true}
	c.sub.Init(r.hub, c)
	r.clients[uint64(len(r.clients)+1)] = c
	return c
}

func (c *client) Put(m pubsub.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Lost() {
		c.lost = true
		return
	}
	m.Hold()
	c.held = append(c.held, m)
	w := &resp.Writer{RESP3: c.resp3}
	m.Head(w)
	if m.Text() != nil {
		w.Bulk(m.Text())
	}
	c.got = append(c.got, string(w.B))
}

func (c *client) CatchUpWhole() {}
func (c *client) Changed()      { c.changed++ }

func (c *client) Block(_ *command.Call, _ int, job func(w *resp.Writer)) {
	c.blocked++
	w := &resp.Writer{RESP3: c.resp3}
	job(w)
	c.got = append(c.got, string(w.B))
}

// do runs a command and returns its reply.
func (c *client) do(line string) string { return c.run(strings.Fields(line)...) }

func (c *client) run(args ...string) string {
	c.r.t.Helper()
	w := &resp.Writer{RESP3: c.resp3}
	call := command.Call{W: w, Host: c}
	for _, a := range args {
		call.Args = append(call.Args, []byte(a))
	}
	call.Spec = c.r.table.Find(call.Args)
	require.NotNil(c.r.t, call.Spec, args)
	call.Spec.Handler(&call)
	return string(w.B)
}

// take returns the messages that have come, and lets go of them.
func (c *client) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	for i := range c.held {
		c.held[i].Drop()
	}
	c.got, c.held = nil, nil
	return got
}

// push is a push as a client gets it.
func push(words ...string) string {
	w := &resp.Writer{RESP3: true}
	w.Push(len(words))
	for _, word := range words {
		w.BulkString(word)
	}
	return string(w.B)
}
