package headgate

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"time"
)

// memory is how long a denial is remembered at most.
const memory = time.Second

// entry is what the client knows of a key. Its shard's mutex guards it.
type entry struct {
	key    string
	limit  Limit
	check  []any // of a policy: its RL.CHECK without options
	used   instant
	demand demand

	// id names the block at the server: it is empty while the key is not leased.
	id      string
	seq     uint64
	block   block
	sent    instant  // when the last request was sent
	pending *request // the one that has no reply yet
	waiting []*waiter
	retired bool // gives its block back after the reply, and has left the shard

	deniedUntil instant
	denied      Decision // of a call of deniedCost at deniedAt
	deniedCost  int64
	deniedAt    instant

	capacity int64   // as the server said
	resetAt  instant // when the limit is full
	askAlone instant // no lease before then

	prev, next *entry // in a list of the shard
	moved      instant
}

// request is an RL.LEASE without a reply.
type request struct {
	seq              uint64
	sent             instant
	held, need, want int64
	waiters          []*waiter
}

// waiter is a call that waits for a reply.
type waiter struct {
	cost  int64
	again bool // denied as part of a larger sum before
	asked bool // is part of a request whose outcome is not known
	gone  bool // its caller does not wait any more
	done  chan outcome
}

// outcome is what becomes of a waiter.
type outcome struct {
	Decision
	alone bool // the caller asks for itself
	fell  bool // the server is away
	known bool // and has charged nothing
}

// leasable reports whether the server may give leases. It says itself whether it gives
// them of a policy.
func (e *entry) leasable() bool { return e.check != nil || e.limit.leasable() }

// subject returns what the fallback counts.
func (e *entry) subject() subject { return subject{e.key, e.check != nil, e.limit} }

// of returns a command about a lease, without the limit of a key.
func (e *entry) of(command string) []any {
	if e.check == nil {
		return []any{command, e.key}
	}
	return append([]any{command, "POLICY"}, e.check[1:]...)
}

// newID returns 128 random bits. A process that is started again has other blocks.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	return hex.EncodeToString(b[:])
}

// local returns the answer to a call that the block admits.
func (e *entry) local(now instant) Decision {
	return Decision{
		Allowed: true, Limit: e.capacity, Remaining: e.block.left + e.block.stock,
		ResetAfter: max(e.resetAt-now, 0), Source: Lease,
	}
}

// deny remembers a denial by the server of a call of cost.
func (e *entry) deny(d Decision, cost int64, now instant) {
	wait := d.RetryAfter
	if wait < 0 || wait > memory {
		wait = memory
	}
	e.denied, e.deniedCost, e.deniedAt, e.deniedUntil = d, cost, now, now+wait
}

// recall returns a remembered denial that holds for a call of cost. An earlier, larger
// call says nothing.
func (e *entry) recall(cost int64, now instant) (d Decision, ok bool) {
	if now >= e.deniedUntil || cost < e.deniedCost {
		return d, false
	}
	d = e.denied
	d.Source = Denied
	if d.RetryAfter > 0 {
		d.RetryAfter = max(d.RetryAfter-(now-e.deniedAt), 1)
	}
	d.ResetAfter = max(d.ResetAfter-(now-e.deniedAt), 0)
	return d, true
}

// refuse denies a call of cost while the block waits for its refill. The block must be
// settled and hold less.
func (e *entry) refuse(cost int64, now instant) (d Decision, ok bool) {
	if e.id == "" || now >= e.block.deadline {
		return d, false
	}
	wait := e.block.due(now, cost)
	if wait <= 0 {
		return d, false
	}
	return Decision{
		Limit: e.capacity, Remaining: e.block.left + e.block.stock, RetryAfter: wait,
		ResetAfter: max(e.resetAt-now, 0), Source: Denied,
	}, true
}

// locally decides a call without the server, if it can.
func (e *entry) locally(cost int64, now instant) (d Decision, ok bool) {
	if e.id != "" {
		e.block.settle(now)
		if e.block.spend(cost) {
			return e.local(now), true
		}
	}
	if d, ok = e.recall(cost, now); ok {
		return d, true
	}
	return e.refuse(cost, now)
}

// demand measures how often a key is asked for.
type demand struct {
	began        instant // of the span that is measured
	calls, units float64 // since then
	callRate     float64 // a second, before
	unitRate     float64
}

const (
	// span is how long demand is measured before it is averaged with what was before.
	span = 500 * time.Millisecond
	// leastSpan is the shortest time that a rate is taken from: fewer calls are chance.
	leastSpan = 100 * time.Millisecond
)

// ask notes a call.
func (d *demand) ask(units int64, now instant) {
	if past := now - d.began; past >= span {
		if past >= 4*span { // what was before is of no use
			*d = demand{began: now}
		} else {
			d.callRate, d.unitRate = d.rates(now)
			d.calls, d.units, d.began = 0, 0, now
		}
	}
	d.calls++
	d.units += float64(units)
}

// rates returns calls and units a second.
func (d *demand) rates(now instant) (calls, units float64) {
	past := now - d.began
	if d.callRate == 0 {
		s := max(past, leastSpan).Seconds()
		return d.calls / s, d.units / s
	}
	if past < leastSpan {
		return d.callRate, d.unitRate
	}
	s := past.Seconds()
	return (d.callRate + d.calls/s) / 2, (d.unitRate + d.units/s) / 2
}

// hot reports whether a key without a lease is asked for at least so many times a second.
func (d *demand) hot(least float64) bool {
	return d.calls > least*span.Seconds() || d.callRate >= least
}

// want returns how many units the process would use within ttl.
func (d *demand) want(ttl time.Duration, now instant) int64 {
	_, units := d.rates(now)
	return int64(min(math.Ceil(units*ttl.Seconds()-tiny), 1<<60))
}

// list is a ring of entries: next of its root is the one that was used last.
type list struct {
	root entry
	len  int
}

func (l *list) push(e *entry) {
	if l.root.next == nil {
		l.root.next, l.root.prev = &l.root, &l.root
	}
	e.prev, e.next = &l.root, l.root.next
	e.prev.next, e.next.prev = e, e
	l.len++
}

func (l *list) remove(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
	l.len--
}

// lazy is how long an entry that is used stays in its place: to move one touches four.
const lazy = 50 * time.Millisecond

// touch makes an entry the first one, to within lazy.
func (l *list) touch(e *entry, now instant) {
	if now-e.moved >= lazy {
		e.moved = now
		l.remove(e)
		l.push(e)
	}
}

// last returns the least recently used entry, or nil if the list is empty.
func (l *list) last() *entry {
	if l.len == 0 {
		return nil
	}
	return l.root.prev
}
