// Package load offers calls to a limiter in an open loop. Each call is due at a time that was planned before, whether
// or not earlier ones have been answered. None is ever retried.
package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/faults/history"
)

// Config describes a load.
type Config struct {
	Rate  float64 // calls per second, over all connections
	Conns int
	Seed  uint64
	Epoch time.Time // time 0 of the history
	First time.Duration

	// Node is the node that a connection talks to, and Dial the address to reach it at now.
	Node func(conn int) int
	Dial func(node int) string

	// Next plans a call: everything but its times, outcome and node. It is called by one goroutine per connection.
	Next func(conn int, rnd *rand.Rand, due time.Duration) history.Call

	// Encode appends a planned call's command.
	Encode func(b []byte, c *history.Call) []byte

	// Key describes the key of a call whose reply is not RL.LIMIT's; may be nil.
	Key func(c *history.Call) history.Key

	// Timeout is how long an answer may take; the connection is then given up, with all calls under way on it.
	Timeout time.Duration

	// Answered, if set, is called with each call whose outcome is known, by the goroutine of its connection's reader.
	Answered func(conn int, c *history.Call)
}

// Load is a running load.
type Load struct {
	timeout time.Duration // the longest of its parts
	conns   []*conn
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	paused  atomic.Bool
}

// Start begins to offer calls: as one load, whose parts have their own connections and rates.
func Start(parts ...Config) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{cancel: cancel}
	for p := range parts {
		cfg := &parts[p]
		l.timeout = max(l.timeout, cfg.Timeout)
		for i := range cfg.Conns {
			c := &conn{cfg: cfg, paused: &l.paused, id: i, node: cfg.Node(i), rnd: rand.New(rand.NewPCG(cfg.Seed, uint64(i)))}
			l.conns = append(l.conns, c)
			l.wg.Go(func() { c.run(ctx) })
		}
	}
	return l
}

// Pause drops the calls that become due from now on, and waits for the answers to those under way, at most for the timeout.
func (l *Load) Pause() {
	l.paused.Store(true)
	for deadline := time.Now().Add(l.timeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		idle := true
		for _, c := range l.conns {
			idle = idle && c.idle()
		}
		if idle {
			return
		}
	}
}

// Resume ends a pause.
func (l *Load) Resume() { l.paused.Store(false) }

// Stop ends the load, waits for the answers that are missing, at most for the timeout, and adds all calls to h. It returns
// how often each error code was answered.
func (l *Load) Stop(h *history.History) map[string]int {
	l.cancel()
	l.wg.Wait()
	codes := make(map[string]int)
	var recorders []*history.Recorder
	for _, c := range l.conns {
		recorders = append(recorders, &c.recorder)
		for code, n := range c.codes {
			codes[code] += n
		}
	}
	h.Merge(recorders...)
	return codes
}
