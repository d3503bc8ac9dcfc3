package headgate

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Doer sends one command to the server and returns its reply. It must be safe for
// concurrent use. Arguments are strings and int64s. A reply is an int64, or a []any, a
// map[string]any or a map[any]any of replies; an error of the server is an error.
//
// Do should not send a command again by itself: the server may have charged it. It should
// end with its context. An error that wraps ErrNotSent, or is of a dial of package net, says
// that the server has not got the command.
type Doer interface {
	Do(ctx context.Context, args ...any) (any, error)
}

// DoerFunc is a function as a Doer.
type DoerFunc func(ctx context.Context, args ...any) (any, error)

// Do calls f.
func (f DoerFunc) Do(ctx context.Context, args ...any) (any, error) { return f(ctx, args...) }

// Options are the settings of a Client. The zero value has the defaults.
type Options struct {
	// LeaseTTL is for how long the client takes units: 100 ms to 60 s, 2 s by default. A
	// process that is killed loses them for that long.
	LeaseTTL time.Duration
	// LeaseRate is how many calls a second a key needs before the client leases it: 20 by
	// default.
	LeaseRate float64
	// MaxLeases bounds the keys that are leased at one time: 10,000 by default. With less
	// than 0 the server is asked for each call.
	MaxLeases int
	// Timeout is how long a call waits for the server: 50 ms by default. After that OnFailure
	// decides.
	Timeout time.Duration
	// Processes is how many processes share the limits. While the server is away each of
	// them decides that part of a limit by itself, and a fifth if it is not known.
	Processes int
	// Logger is told when the server goes away and comes back: slog.Default if it is not set.
	Logger *slog.Logger
}

// Errors of a Client. Those of the server are returned as they are.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("headgate: the client is closed")
	// ErrTimeout is in the log, and what Reset returns, if the server did not answer within
	// Options.Timeout.
	ErrTimeout = errors.New("headgate: the server did not answer in time")
	// ErrNotSent is what a Doer wraps if it has not sent the command, for example since no
	// connection was free.
	ErrNotSent = errors.New("headgate: the command was not sent")
)

const (
	defaultTTL     = 2 * time.Second
	defaultRate    = 20
	defaultLeases  = 10_000
	defaultTimeout = 50 * time.Millisecond

	shards = 128
	// watched is how many keys are measured for each that may be leased.
	watched = 4
	// leastWatched is how many keys of a shard are measured at least.
	leastWatched = 16
	// returning bounds the blocks that are given back at one time.
	returning = 32
)

// Client asks a Headgate server, or decides from units that it holds. It is safe for
// concurrent use. One process needs one Client.
type Client struct {
	do      Doer
	options Options
	began   time.Time
	seed    maphash.Seed
	shards  [shards]shard
	leases  atomic.Int64 // keys that are leased
	sent    atomic.Int64 // commands

	breaker  breaker
	fallback fallback
	counts   counts
	random   func() float64 // 0 to 1

	returns chan struct{} // one place for each RL.RETURN under way
	closing chan struct{}
	closed  atomic.Bool
	under   sync.WaitGroup // what is under way
}

// shard is a part of the keys.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
	leased  list
	others  list
	local   int64 // calls that were admitted here
	denied  int64 // and denied
	_       [64]byte
}

// Stats are counts since New.
type Stats struct {
	Sent   int64 // commands that went to the server
	Local  int64 // calls that a lease admitted
	Denied int64 // calls that were denied without asking
	Leases int64 // keys that are leased now

	Failures       int64 // commands that the server did not decide
	Opened         int64 // times that the server was given up
	Away           bool  // the server is given up now: nothing but probes is sent
	Fallback       int64 // calls that OnFailure admitted
	FallbackDenied int64 // and denied
	ChargedBack    int64 // units that OnFailure had admitted and that the server has charged since
	Mistakes       int64 // commands that the server answered with an error of the caller
}

// counts are those that no shard has.
type counts struct {
	failures, opened, fallback, fallbackDenied, chargedBack, mistakes atomic.Int64
	told                                                              atomic.Int64 // when the log was told of a mistake, an instant
}

// New returns a client that sends its commands by d. Close it, so that what it holds goes
// back to the limits at once. New panics if the options are out of bounds.
func New(d Doer, o Options) *Client {
	if o.LeaseTTL == 0 {
		o.LeaseTTL = defaultTTL
	}
	if o.LeaseTTL < 100*time.Millisecond || o.LeaseTTL > time.Minute {
		panic(fmt.Sprintf("headgate: LeaseTTL is %v, it must be 100ms to 60s", o.LeaseTTL))
	}
	if o.LeaseRate <= 0 {
		o.LeaseRate = defaultRate
	}
	if o.MaxLeases == 0 {
		o.MaxLeases = defaultLeases
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	c := &Client{
		do: d, options: o, began: time.Now(), seed: maphash.MakeSeed(),
		returns: make(chan struct{}, returning), closing: make(chan struct{}), random: rand.Float64,
	}
	c.fallback.init(o.Processes)
	for i := range c.shards {
		c.shards[i].entries = make(map[string]*entry)
	}
	if o.MaxLeases > 0 {
		c.under.Go(c.sweep)
	}
	return c
}

func (c *Client) now() instant { return time.Since(c.began) }

func (c *Client) shard(key string) *shard {
	return &c.shards[maphash.String(c.seed, key)%shards]
}

// Stats returns what the client has done.
func (c *Client) Stats() Stats {
	st := Stats{
		Sent: c.sent.Load(), Leases: c.leases.Load(), Away: c.breaker.open.Load(),
		Failures: c.counts.failures.Load(), Opened: c.counts.opened.Load(),
		Fallback: c.counts.fallback.Load(), FallbackDenied: c.counts.fallbackDenied.Load(), ChargedBack: c.counts.chargedBack.Load(),
		Mistakes: c.counts.mistakes.Load(),
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		st.Local, st.Denied = st.Local+s.local, st.Denied+s.denied
		s.mu.Unlock()
	}
	return st
}

// Allow asks for cost units of a key's limit. It decides without the server if it holds
// enough units, or if a denial is remembered. While the server is away, OnFailure of the
// limit decides. A cost of 0 looks and takes nothing, and a cost below 0 is a refund; both
// ask the server.
//
// Errors: ErrClosed, the error of ctx, and an error of the server for a mistake of the
// caller. After an error of ctx the call may have been charged. With an error of the
// server, the Decision is what OnFailure decides, and its Source is Fallback: see
// Client.Despite.
func (c *Client) Allow(ctx context.Context, key string, limit Limit, cost int64) (Decision, error) {
	if cost < 1 {
		return c.plain(ctx, c.options.Timeout, key, limit, cost)
	}
	return c.decide(ctx, part(key, limit, cost, true))
}

// decide decides a call of a key, or of a policy that may be leased.
func (c *Client) decide(ctx context.Context, a asked) (Decision, error) {
	now := c.now()
	s := c.shard(a.key)
	s.mu.Lock()
	e := c.asked(s, a.key, a.limit, a.cost, now)
	if e == nil {
		s.mu.Unlock()
		return c.alone(ctx, c.options.Timeout, a)
	}
	e.check = a.check
	away := c.breaker.open.Load()
	if d, ok := e.locally(a.cost, now); ok {
		s.count(&d)
		if e.pending == nil && e.id != "" && !away && now >= e.askAlone && e.block.low(now) {
			c.ask(s, e, now)
		}
		s.mu.Unlock()
		return d, nil
	}
	if away || !c.lease(s, e, now) {
		s.mu.Unlock()
		return c.alone(ctx, c.options.Timeout, a)
	}
	w := &waiter{cost: a.cost, done: make(chan outcome, 1)}
	e.waiting = append(e.waiting, w)
	if e.pending == nil {
		c.ask(s, e, now)
	}
	s.mu.Unlock()
	timer := time.NewTimer(c.options.Timeout)
	defer timer.Stop()
	select {
	case o := <-w.done:
		return c.become(ctx, o, now, a)
	case <-timer.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case o := <-w.done:
			if !o.alone && !o.fell {
				return o.Decision, nil
			}
		default:
			w.gone = true
		}
		a.known = !w.asked
		return c.fall(a), nil
	case <-ctx.Done():
		s.mu.Lock()
		w.gone = true
		s.mu.Unlock()
		return Decision{}, ctx.Err()
	}
}

// become returns what became of a call that has waited since then.
func (c *Client) become(ctx context.Context, o outcome, since instant, a asked) (Decision, error) {
	switch {
	case o.fell:
		a.known = o.known
		return c.fall(a), nil
	case o.alone:
		return c.alone(ctx, c.options.Timeout-(c.now()-since), a)
	}
	return o.Decision, nil
}

// count counts a call that was decided here.
func (s *shard) count(d *Decision) {
	if d.Allowed {
		s.local++
	} else {
		s.denied++
	}
}

// alone asks the server for one call, and remembers a denial.
func (c *Client) alone(ctx context.Context, within time.Duration, a asked) (Decision, error) {
	if a.policy {
		return c.consult(ctx, within, a, "")
	}
	d, err := c.plain(ctx, within, a.key, a.limit, a.cost)
	if err == nil && !d.Allowed && d.Source == Server {
		c.remember(a.key, a.limit, d, a.cost)
	}
	return d, err
}

// remember notes a denial by the server.
func (c *Client) remember(key string, limit Limit, d Decision, cost int64) {
	now := c.now()
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := c.entry(s, key, limit, now); cost <= e.deniedCost || now >= e.deniedUntil {
		e.deny(d, cost, now)
	}
}

// forget forgets a denial.
func (c *Client) forget(key string) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e != nil {
		e.deniedUntil = 0
	}
}

// plain asks the server by RL.LIMIT.
func (c *Client) plain(ctx context.Context, within time.Duration, key string, limit Limit, cost int64) (Decision, error) {
	if c.breaker.open.Load() && !c.closed.Load() && ctx.Err() == nil {
		return c.fall(part(key, limit, cost, true)), nil
	}
	return c.sendLimit(ctx, within, key, limit, cost)
}

func (c *Client) sendLimit(ctx context.Context, within time.Duration, key string, limit Limit, cost int64) (d Decision, err error) {
	args := limit.options(limit.arguments([]any{"RL.LIMIT", key}))
	if cost != 1 {
		args = append(args, "COST", cost)
	}
	err = c.request(ctx, within, args, func(reply any) (err error) {
		d, err = decisionOf(reply)
		return err
	})
	if f := (*failure)(nil); errors.As(err, &f) {
		return c.fall(part(key, limit, cost, f.known)), nil
	}
	if cost >= 0 && mistake(err) {
		d = c.fall(part(key, limit, cost, false))
	}
	return d, err
}

// asked notes a call of a key. It returns nil if nothing is known of the key and nothing
// has to be.
func (c *Client) asked(s *shard, key string, limit Limit, cost int64, now instant) *entry {
	if c.options.MaxLeases < 0 {
		if e := s.entries[key]; e == nil || e.limit != limit {
			return nil
		}
	}
	e := c.entry(s, key, limit, now)
	e.demand.ask(cost, now)
	return e
}

// entry returns what is known of a key, as of the one that was used last. Keys without a
// lease are bounded by MaxLeases too; the least recently used is forgotten.
func (c *Client) entry(s *shard, key string, limit Limit, now instant) *entry {
	e := s.entries[key]
	if e != nil && e.limit != limit {
		c.retire(s, e, now)
		e = nil
	}
	if e == nil {
		if s.others.len >= watched*c.keys()/shards+leastWatched {
			c.retire(s, s.others.last(), now)
		}
		e = &entry{key: key, limit: limit, demand: demand{began: now}, moved: now}
		s.entries[key] = e
		s.others.push(e)
	}
	e.used = now
	s.list(e).touch(e, now)
	return e
}

// keys returns how many keys may be leased, or are remembered if none may.
func (c *Client) keys() int {
	if c.options.MaxLeases < 0 {
		return defaultLeases / watched
	}
	return c.options.MaxLeases
}

// list returns the list that an entry of s is in.
func (s *shard) list(e *entry) *list {
	if e.id != "" {
		return &s.leased
	}
	return &s.others
}
