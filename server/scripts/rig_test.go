package scripts_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/data"
	"github.com/headgate-io/headgate/server/keyspace"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
	"github.com/headgate-io/headgate/server/scripts"
	"github.com/headgate-io/headgate/server/turns"
)

// patience is how long a test waits for something that should come at once.
const patience = 10 * time.Second

// rig is what scripts need of a server: a table with commands about data, a hub, an
// account, and turns.
type rig struct {
	t       testing.TB
	engine  *engine.Engine
	scripts *scripts.Scripts
	hub     *pubsub.Hub
	account *memory.Account
	turns   *turns.Turns
	table   *command.Table
	enter   chan struct{} // has one for each test.wait that has begun
	leave   chan struct{} // ends one

	made, closed, counted, failed, ended atomic.Int64
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, engine: engine.New(engine.Config{}), enter: make(chan struct{}, 1), leave: make(chan struct{})}
	r.account = memory.NewAccount(func() int64 { return 0 }, func() {})
	r.turns = turns.New(2, 1024)
	nobody := func(bool) {}
	r.hub = pubsub.New(pubsub.Config{
		Account: r.account, Own: "own", Find: func(uint64) *pubsub.Subscriber { return nil }, Watched: nobody, Tracked: nobody,
	})
	ending, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	r.scripts = scripts.New(scripts.Config{
		Engines: []*engine.Engine{r.engine}, Hub: r.hub, Account: r.account, Aside: r.newAside, Version: "7.2.0",
		MaxReply: 1 << 20, MaxMessages: 1 << 20, Time: func() time.Duration { return 0 }, Exec: func() time.Duration { return command.ExecTime },
		Ended: func() { r.ended.Add(1) }, Ending: ending, Logger: slog.New(slog.DiscardHandler),
	})
	refuse := func(func(*pubsub.Subscriber, *command.Call)) command.Handler {
		return func(call *command.Call) { call.Error("ERR nobody subscribes") }
	}
	var err error
	r.table, err = command.NewTable(data.Commands(), keyspace.Commands(), r.scripts.Commands(), pubsub.Commands(r.hub, refuse), []command.Spec{
		{Name: "test.wait", Arity: 1, Handler: func(call *command.Call) {
			r.enter <- struct{}{}
			<-r.leave
			call.W.OK()
		}},
		{Name: "test.guarded", Arity: 1, Flags: command.Guarded, Handler: func(call *command.Call) { call.W.OK() }},
	})
	require.NoError(t, err)
	r.scripts.Use(r.table)
	return r
}

// aside is a connection that nobody is at.
type aside struct {
	r *rig
	w resp.Writer
}

func (r *rig) newAside() scripts.Aside {
	r.made.Add(1)
	return &aside{r: r}
}

func (a *aside) Host() command.Host         { return &client{r: a.r} }
func (a *aside) Writer() *resp.Writer       { return &a.w }
func (a *aside) Begin(int64, uint8, string) {}
func (a *aside) Speak(bool)                 {}
func (a *aside) Database() uint8            { return 0 }
func (a *aside) Close()                     { a.r.closed.Add(1) }
func (a *aside) Count(_ *command.Call, failed bool) {
	a.r.counted.Add(1)
	a.r.failed.Add(command.Truth(failed))
}

// client is a connection, and the host of its calls. One goroutine uses it.
type client struct {
	command.Host // none
	r            *rig
	admin        bool
	call         command.Call
	moved        int // calls of BlockSync
	took         int // calls of Took
	mode         command.SyncMode
}

func (r *rig) dial() *client {
	c := &client{r: r}
	sess := r.engine.NewSession()
	r.t.Cleanup(sess.Close)
	c.call = command.Call{Sess: sess, Limits: sess, Host: c}
	return c
}

func (c *client) Administers() bool                 { return c.admin }
func (c *client) Took(*command.Call, time.Duration) { c.took++ }
func (c *client) MostReply() int                    { return 1 << 20 }
func (c *client) Uncertain(w *resp.Writer)          { w.Error("UNCERTAIN") }

func (c *client) Aside(*command.Call, func(*command.Call) func()) { panic("no other group") }

func (c *client) Block(call *command.Call, _ int, job func(w *resp.Writer)) { job(call.W) }

func (c *client) BlockSync(call *command.Call, _ int, job func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) command.SyncMode) {
	c.moved++
	w := c.aside(func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) { c.mode = job(w, spent, x) })
	call.W.Raw(w.B)
}

// aside runs a job as a worker does.
func (c *client) aside(job func(w *resp.Writer, spent *memory.Spending, x *turns.Turn)) *resp.Writer {
	var spent memory.Spending
	spent.Begin(c.r.account)
	defer spent.End()
	x := c.r.turns.Take(c.r.turns.Client("client", new(turns.Share)))
	defer x.End()
	w := &resp.Writer{Room: spent.Room, MayDivide: true}
	job(w, &spent, x)
	w.Join()
	return w
}

// do runs a command and returns its reply.
func (c *client) do(args ...string) string {
	c.r.t.Helper()
	w := &resp.Writer{}
	call := &c.call
	call.W, call.Now, call.Args, call.Outcome = w, c.r.engine.Now(), nil, command.Outcome{}
	for _, a := range args {
		call.Args = append(call.Args, []byte(a))
	}
	call.Spec = c.r.table.Find(call.Args)
	require.NotNil(c.r.t, call.Spec, args)
	call.Spec.Handler(call)
	return string(w.B)
}

// eventually waits for ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, time.Millisecond, what)
}
