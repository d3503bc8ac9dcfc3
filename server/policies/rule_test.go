package policies

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/events"
)

// onLog is a log that calls a function for the first line.
type onLog struct {
	slog.Handler
	once *sync.Once
	fn   func()
}

func (h onLog) Enabled(context.Context, slog.Level) bool      { return true }
func (h onLog) Handle(_ context.Context, _ slog.Record) error { h.once.Do(h.fn); return nil }

// A view is published before the book says that nothing waits. A check in between waits for
// nothing, and a check that sees no bit has everything.
func TestAViewIsPublishedBeforeNothingWaits(t *testing.T) {
	var b *Book
	log := slog.New(onLog{slog.DiscardHandler, new(sync.Once), func() { b.queue.mu.Lock() }})
	b = NewBook(engine.New(engine.Config{Shards: 8}), nil, log, false, events.New(), checks.NewTallies())
	b.hear([]engine.PolicyRecord{ofPolicy("p", 1, 11), {Name: "broken", Value: []byte("{")}}, false)
	assert.Eventually(t, func() bool { return b.InForce().Policy([]byte("p")) != nil }, 10*time.Second, time.Millisecond)
	assert.NotZero(t, b.waits.Load())
	b.queue.mu.Unlock()
	require.EqualValues(t, 11, rateOf(t, b.Set(), "p"))
	require.Zero(t, b.waits.Load())
}

// After the reply to a reset on this node a client sees its counters void, although a shard is
// locked. For changes of other nodes it does not wait.
func TestCountersAreVoidAtOnce(t *testing.T) {
	b := newTestBook()
	ed := NewEditor(b, slog.New(slog.DiscardHandler), nil)
	sess := b.engine.NewSession()
	defer sess.Close()
	set := func(text string, void bool) {
		t.Helper()
		c, err := ed.setting("p", text, changeArgs{version: -1, void: void})
		require.NoError(t, err)
		_, err = ed.commit(sess, c, true)
		require.NoError(t, err)
	}
	const text = "{limits: {l: {by: user, rate: 10/h}}}"
	set(text, false)
	b.Set()
	b.queue.mu.Lock()
	b.queue.followed = true // only readers take over
	b.queue.mu.Unlock()
	require.False(t, b.void([]byte("@p:l;user=eve"), 0))
	set(text, true)
	require.True(t, b.void([]byte("@p:l;user=eve"), 0))

	b.making.Lock() // somebody is at it
	defer b.making.Unlock()
	b.hear([]engine.PolicyRecord{{Name: revisionRecord, Value: []byte("9")}, ofPolicy("p", 9, 5)}, false)
	require.True(t, b.void([]byte("@p:l;user=eve"), 0))
}

// If overrides were committed after a set was staged, the server does not use this set: it
// lacks the overrides.
func TestAStagedSetLosesNoOverride(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%t", apart), func(t *testing.T) {
			b := newTestBook()
			b.hear([]engine.PolicyRecord{ofPolicy("p", 1, 11)}, false)
			b.Set()
			b.queue.mu.Lock()
			b.queue.followed = true
			b.queue.mu.Unlock()
			rec, err := grammar.ParseRecord("p", "p", []byte("{limits: {l: {by: user, rate: 12/s}}}"))
			require.NoError(t, err)
			revision := []byte("2")
			st, err := b.build(b.InForce(), []bookEdit{{name: "p", record: rec, meta: policy.Meta{Version: 2}}}, revision)
			require.NoError(t, err)
			b.stage(st)
			b.hear([]engine.PolicyRecord{ofOverride("p", 77)}, false)
			if apart {
				b.queue.mu.Lock()
				b.queue.staged = nil // it is taken with what comes first
				b.queue.mu.Unlock()
				b.Set()
				b.stage(st)
			}
			b.hear([]engine.PolicyRecord{{Name: revisionRecord, Value: revision}, ofPolicy("p", 2, 12)}, false)
			set := b.Set()
			require.EqualValues(t, 77, rateOf(t, set, "p"))
			require.EqualValues(t, 2, set.Policy([]byte("p")).Version)
		})
	}
}
