package headgate

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultShare is the part of a limit that one process decides if nothing else is known.
	defaultShare = 0.2
	// holdersLast is how long the number of holders of a lease counts.
	holdersLast = time.Minute
	// policyLasts is how long a charge counts of a policy that no limit stands for.
	policyLasts = time.Minute
	// records is how many keys the fallback knows.
	records = 10_000
	// charging is how many sums are sent at one time.
	charging = 100
	// closedRetry is when a caller should ask again whom Closed denied.
	closedRetry = time.Second
	// tiny is a part of a unit that is not looked at.
	tiny = 1e-6
)

// subject is what is counted: a key with its limit, or a policy with its attributes and
// the limit that stands for it.
type subject struct {
	key    string // of a limit; of a policy all parts of its check
	policy bool
	limit  Limit
}

// record is what the fallback knows of a subject.
type record struct {
	subject
	check  []any   // of a policy: its RL.CHECK without options
	bucket bool    // there is one, with level units at the time filled
	level  float64 // units
	filled instant

	part      float64 // of this process, by the reply to RL.LEASE that came at told; 0 if none has come
	told      instant
	owed      int64 // units that were admitted without the server
	owedSince int64 // a number that grows
	last      instant

	prev, next *record
}

// fallback decides while the server is away.
type fallback struct {
	mu        sync.Mutex
	records   map[subject]*record
	root      record // of the ring: next was used last
	turns     int64
	slots     map[string][]localSlot
	processes int
	owes      atomic.Int64 // records that owe something
	charging  atomic.Bool
}

func (f *fallback) init(processes int) {
	f.records, f.slots, f.processes = make(map[subject]*record), make(map[string][]localSlot), processes
	f.root.prev, f.root.next = &f.root, &f.root
}

// record returns what is known of a subject, as the one that was used last.
func (f *fallback) record(s subject) *record {
	r := f.records[s]
	switch {
	case r == nil:
		if len(f.records) >= records {
			f.forget(f.root.prev)
		}
		r = &record{subject: s}
		f.records[s] = r
	case f.root.next == r:
		return r
	default:
		r.prev.next, r.next.prev = r.next, r.prev
	}
	r.prev, r.next = &f.root, f.root.next
	r.prev.next, r.next.prev = r, r
	return r
}

func (f *fallback) forget(r *record) {
	delete(f.records, r.subject)
	r.prev.next, r.next.prev = r.next, r.prev
	if r.owed > 0 {
		f.owes.Add(-1)
	}
}

// lease notes how many processes have leases of a key. One that was not granted a lease is
// none of them, and may not be the only one.
func (f *fallback) lease(s subject, g *grant, now instant) {
	if g.holders < 1 {
		return
	}
	part := 1 / float64(g.holders)
	if g.ttl == 0 {
		part = min(1/float64(g.holders+1), f.usual())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.record(s)
	r.part, r.told = part, now
}

// share returns the part of a limit that this process decides. r may be nil.
func (f *fallback) share(r *record, now instant) float64 {
	if r != nil && r.part > 0 && now-r.told < holdersLast {
		return r.part
	}
	return f.usual()
}

// usual returns the part of a process that no lease has told.
func (f *fallback) usual() float64 {
	if f.processes > 0 {
		return 1 / float64(f.processes)
	}
	return defaultShare
}

// settle fills the bucket of a record up to now. It returns its capacity and its rate per
// nanosecond.
func (f *fallback) settle(r *record, now instant) (capacity, rate float64) {
	share := f.share(r, now)
	capacity = max(1, share*float64(r.limit.capacity()))
	rate = share * float64(r.limit.Units) / float64(r.limit.Period)
	if !r.bucket {
		r.bucket, r.level, r.filled = true, capacity, now
	}
	r.level = min(capacity, r.level+rate*float64(now-r.filled))
	r.filled = now
	return capacity, rate
}

// denies reports by which decision a bucket denies a call. It takes nothing.
func (f *fallback) denies(r *record, cost int64, now instant) (d Decision, denied bool) {
	d = fallen(false)
	d.Limit = r.limit.capacity()
	if r.limit.Units < 1 {
		d.Limit, d.RetryAfter = 0, -1
		return d, true
	}
	capacity, rate := f.settle(r, now)
	lacks := float64(cost) - r.level
	if lacks <= tiny {
		return d, false
	}
	d.Remaining = int64(r.level + tiny)
	d.ResetAfter = takes(capacity-r.level, rate)
	switch {
	case cost > d.Limit:
		d.RetryAfter = -1
	case float64(cost) > capacity+tiny:
		d.RetryAfter = closedRetry
	default:
		d.RetryAfter = takes(lacks, rate)
	}
	return d, true
}

// admit takes units of a bucket that does not deny the call.
func (f *fallback) admit(r *record, cost int64, peek bool, now instant) Decision {
	capacity, rate := f.settle(r, now)
	level := r.level - float64(max(cost, 0))
	if !peek {
		r.level = level
	}
	d := fallen(true)
	d.Limit, d.Remaining, d.ResetAfter = r.limit.capacity(), max(int64(level+tiny), 0), takes(capacity-level, rate)
	return d
}

// takes returns how long units take to come in, in whole milliseconds.
func takes(units, rate float64) time.Duration {
	ms := math.Ceil(units/rate/1e6 - tiny)
	return time.Duration(max(min(ms, 9e12), 0)) * time.Millisecond
}

// owe notes units that were admitted.
func (f *fallback) owe(r *record, cost int64, now instant) {
	if cost < 1 {
		return
	}
	if r.owed == 0 {
		f.turns++
		r.owedSince = f.turns
		f.owes.Add(1)
	}
	if r.owed += cost; r.owed < 0 {
		r.owed = math.MaxInt64
	}
	r.last = now
}

// fallen returns a decision without a limit that stands for it.
func fallen(allowed bool) Decision {
	return Decision{Allowed: allowed, Degraded: true, Source: Fallback}
}

// asked is one part of a call that the fallback decides.
type asked struct {
	subject
	check  []any
	cost   int64
	known  bool // nothing was charged
	on     OnFailure
	record *record // set by Client.fell, while it has the fallback's mutex
}

// fall decides a call while the server is away: all parts or none.
func (c *Client) fall(parts ...asked) Decision {
	d := c.fell(false, parts)
	if d.Allowed {
		c.counts.fallback.Add(1)
	} else {
		c.counts.fallbackDenied.Add(1)
	}
	return d
}

func (c *Client) fell(peek bool, parts []asked) Decision {
	now := c.now()
	f := &c.fallback
	f.mu.Lock()
	defer f.mu.Unlock()
	binding := fallen(true)
	binding.Limit, binding.Remaining = -1, -1
	for i := range parts {
		if parts[i].on == Closed {
			binding.Allowed, binding.RetryAfter = false, closedRetry
			return binding
		}
	}
	for i := range parts {
		p := &parts[i]
		p.record = f.record(p.subject)
		if p.on != Local {
			continue
		}
		if d, denied := f.denies(p.record, p.cost, now); denied &&
			(binding.Allowed || binding.RetryAfter >= 0 && (d.RetryAfter < 0 || d.RetryAfter > binding.RetryAfter)) {
			binding = d
		}
	}
	if !binding.Allowed {
		return binding
	}
	for i := range parts {
		p := &parts[i]
		r := p.record
		if p.on == Local {
			if d := f.admit(r, p.cost, peek, now); binding.Limit < 0 || d.Remaining < binding.Remaining {
				binding = d
			}
		}
		if p.known && !peek {
			r.check = p.check
			f.owe(r, p.cost, now)
		}
	}
	return binding
}

// part returns a key's part of a call.
func part(key string, limit Limit, cost int64, known bool) asked {
	return asked{subject: subject{key: key, limit: limit}, cost: cost, known: known, on: limit.OnFailure}
}

// chargeBack sends what was admitted without the server, in the background.
func (c *Client) chargeBack() {
	f := &c.fallback
	if f.owes.Load() == 0 || c.closed.Load() || !f.charging.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer f.charging.Store(false)
		f.mu.Lock()
		var owing []*record
		for _, r := range f.records {
			if r.owed > 0 {
				owing = append(owing, r)
			}
		}
		f.mu.Unlock()
		slices.SortFunc(owing, func(a, b *record) int { return cmp.Compare(a.owedSince, b.owedSince) })
		places := make(chan struct{}, charging)
		var sent sync.WaitGroup
		for _, r := range owing {
			places <- struct{}{}
			args, units := c.settleDebt(r)
			if args == nil {
				<-places
				continue
			}
			sent.Go(func() {
				defer func() { <-places }()
				switch err := c.request(context.Background(), c.options.Timeout, args, func(any) error { return nil }); err {
				case nil:
					c.counts.chargedBack.Add(units)
				case error(errAway): // the breaker has opened meanwhile, and nothing was sent
					f.mu.Lock()
					if f.records[r.subject] == r {
						f.owe(r, units, r.last)
					}
					f.mu.Unlock()
				}
			})
		}
		sent.Wait()
	}()
}

// settleDebt returns the command that charges what a record owes, which it does no more.
// The command is nil if nothing is to be sent.
func (c *Client) settleDebt(r *record) (args []any, units int64) {
	f := &c.fallback
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.owed == 0 || c.breaker.open.Load() || c.closed.Load() {
		return nil, 0
	}
	units = r.owed
	r.owed = 0
	f.owes.Add(-1)
	lasts := r.limit.lasting()
	if r.policy && r.limit == (Limit{}) {
		lasts = policyLasts
	}
	if c.now()-r.last > lasts {
		return nil, 0
	}
	if r.policy {
		args = slices.Clip(r.check)
	} else {
		args = r.limit.options(r.limit.arguments([]any{"RL.LIMIT", r.key}))
	}
	if units != 1 {
		args = append(args, "COST", units)
	}
	return append(args, "FORCE"), units
}
