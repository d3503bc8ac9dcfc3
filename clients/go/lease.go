package headgate

import (
	"context"
	"errors"
	"io"
	"time"
)

// lease makes a key leased if it is asked for often enough and there is room. It reports
// whether callers wait for a request, and do not ask by themselves.
func (c *Client) lease(s *shard, e *entry, now instant) bool {
	if now < e.askAlone {
		return false
	}
	if e.id != "" {
		return true
	}
	if c.options.MaxLeases < 0 || !e.leasable() || !e.demand.hot(c.options.LeaseRate) || c.closed.Load() {
		return false
	}
	if c.leases.Add(1) > int64(c.options.MaxLeases) {
		// One that is used as often as a leased key must be stays: to put it out would cost
		// more calls than it saves.
		old := s.leased.last()
		if old == nil || float64(now-old.used) < 2*float64(time.Second)/c.options.LeaseRate {
			c.leases.Add(-1)
			return false
		}
		c.retire(s, old, now)
	}
	s.others.remove(e)
	e.id, e.seq, e.block = newID(), 0, block{}
	s.leased.push(e)
	return true
}

// unlease gives the block of a key without a request back. The key is asked for call by
// call then.
func (c *Client) unlease(s *shard, e *entry, now instant) {
	if e.id == "" {
		return
	}
	c.giveBack(e, now)
	s.leased.remove(e)
	e.id, e.block = "", block{}
	s.others.push(e)
	c.leases.Add(-1)
}

// retire forgets a key. Callers that wait get their answer, and its block goes back.
func (c *Client) retire(s *shard, e *entry, now instant) {
	delete(s.entries, e.key)
	s.list(e).remove(e)
	if e.id != "" {
		c.leases.Add(-1)
	}
	e.retired = true
	if e.pending == nil {
		c.giveBack(e, now)
	}
}

// giveBack sends an RL.RETURN for what is left of a block without a request.
func (c *Client) giveBack(e *entry, now instant) {
	if e.id == "" {
		return
	}
	e.block.settle(now)
	refill := e.block.refill > e.block.taken
	e.block.held()
	if e.block.stock == 0 && !refill {
		return
	}
	e.seq++
	args := append(e.of("RL.RETURN"), "ID", e.id, "SEQ", int64(e.seq), "HELD", e.block.stock)
	// What All has lent is spent: it must not come back into a later block.
	e.block = block{lapses: e.block.lapses + 1}
	if c.breaker.open.Load() {
		return // the units come back at the deadline
	}
	c.under.Go(func() {
		c.returns <- struct{}{}
		defer func() { <-c.returns }()
		_ = c.exchange(context.Background(), c.options.Timeout, args, func(any) error { return nil })
	})
}

// ask sends a request for a lease of a key without one under way. It asks for all that
// callers wait for.
func (c *Client) ask(s *shard, e *entry, now instant) {
	e.block.settle(now)
	e.seq++
	r := &request{seq: e.seq, sent: now, held: e.block.held(), want: e.demand.want(c.options.LeaseTTL, now)}
	for _, w := range e.waiting {
		if !w.gone {
			w.asked = true
			r.waiters = append(r.waiters, w)
			r.need += w.cost
		}
	}
	e.waiting = nil
	e.pending, e.sent = r, now
	args := e.of("RL.LEASE")
	if e.check == nil {
		args = e.limit.arguments(args)
	}
	args = append(args, "ID", e.id, "SEQ", int64(r.seq), "WANT", r.want, "HELD", r.held, "NEED", r.need, "TTL", c.options.LeaseTTL.String())
	if e.check == nil {
		args = e.limit.options(args)
	}
	c.under.Go(func() {
		var g grant
		err := c.request(context.Background(), c.options.Timeout, args, func(reply any) (err error) {
			g, err = grantOf(reply)
			return err
		})
		c.answer(s, e, r, g, err)
	})
}

// answer takes the reply to a request. A reply to any but the latest one changes nothing.
func (c *Client) answer(s *shard, e *entry, r *request, g grant, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.pending != r {
		return
	}
	e.pending = nil
	now := c.now()
	e.block.settle(now)
	if err == nil {
		c.fallback.lease(e.subject(), &g, now)
	}
	switch {
	case err != nil:
		e.failed(r, now, err)
	case g.ttl == 0:
		e.resetAt, e.capacity = now+g.ResetAfter, g.Limit
		c.serve(e, r, &g, now)
		// What is held goes back: the server gives no lease now. The id stays, so that the
		// server counts one holder.
		e.askAlone = now + c.options.LeaseTTL/40
		c.giveBack(e, now)
	default:
		e.resetAt, e.capacity = now+g.ResetAfter, g.Limit
		e.block.grant(&g, r.sent, now, r.need, r.want-r.held)
		c.serve(e, r, &g, now)
	}
	c.proceed(s, e, now)
}

// failed ends a request without a grant.
func (e *entry) failed(r *request, now instant, err error) {
	e.askAlone = now + pause
	o := outcome{alone: true} // a plain call gets the server's error, or an answer
	if f := (*failure)(nil); errors.As(err, &f) && code(err) != "ERR" {
		o = outcome{fell: true, known: f.known}
	}
	for _, w := range r.waiters {
		w.asked = !o.alone && !o.known
		w.done <- o
	}
}

// pause is how long a key is asked for call by call after a request has failed.
const pause = 250 * time.Millisecond

// serve answers the callers that a reply was for. It was for all of them or for none.
// After a denial some may do with what was granted, or with what is left.
func (c *Client) serve(e *entry, r *request, g *grant, now instant) {
	if g.Allowed {
		for _, w := range r.waiters {
			w.done <- outcome{Decision: g.Decision}
		}
		return
	}
	left := g.Remaining
	for _, w := range r.waiters {
		switch {
		case e.block.spend(w.cost):
			w.done <- outcome{Decision: e.local(now)}
		case w.cost < r.need && w.cost <= left && !w.again:
			left -= w.cost
			w.again, w.asked = true, false
			e.waiting = append(e.waiting, w)
		default:
			d := g.Decision
			if d.RetryAfter > 0 {
				d.RetryAfter = sooner(e.limit, d.RetryAfter, r.need-w.cost)
			}
			if w.cost <= e.deniedCost || now >= e.deniedUntil {
				e.deny(d, w.cost, now)
			}
			w.done <- outcome{Decision: d}
		}
	}
}

// sooner returns a wait that is shorter by what units take to refill, if that is known.
func sooner(l Limit, wait time.Duration, units int64) time.Duration {
	if l.Units < 1 {
		return wait
	}
	less := float64(l.Period) / float64(l.Units) * float64(units)
	return max(wait-time.Duration(min(less, float64(wait))), time.Millisecond)
}

// proceed answers the callers that came while a request was under way, and asks for what
// they need.
func (c *Client) proceed(s *shard, e *entry, now instant) {
	waiting := e.waiting
	e.waiting = nil
	for _, w := range waiting {
		if w.gone {
			continue
		}
		switch d, ok := e.locally(w.cost, now); {
		case ok && !w.again || d.Allowed:
			w.done <- outcome{Decision: d}
			s.count(&d)
		case e.id == "" || e.retired || now < e.askAlone:
			w.done <- outcome{alone: true}
		default:
			e.waiting = append(e.waiting, w)
		}
	}
	switch {
	case e.retired:
		c.giveBack(e, now)
	case len(e.waiting) > 0:
		c.ask(s, e, now)
	}
}

// sweep looks after keys that nobody asks for, until the client is closed.
func (c *Client) sweep() {
	ticker := time.NewTicker(min(c.options.LeaseTTL/20, 100*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for i := range c.shards {
				c.tend(&c.shards[i])
			}
		case <-c.closing:
			return
		}
	}
}

// tend renews the blocks of a shard that would lapse, gives back those that are not used
// any more, and forgets keys.
func (c *Client) tend(s *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.now()
	for e := s.leased.last(); e != nil && e != &s.leased.root; {
		next := e.prev
		if e.pending == nil {
			c.look(s, e, now)
		}
		e = next
	}
	for e := s.others.last(); e != nil && now-e.used >= c.options.LeaseTTL; e = s.others.last() {
		c.retire(s, e, now)
	}
}

// look renews a block when three fifths of its time are over. If it is hardly used any
// more, it gives the block back shortly before its deadline.
func (c *Client) look(s *shard, e *entry, now instant) {
	lasts := e.block.deadline - e.sent
	held := lasts > 0
	if !held { // the server gave nothing, but counts the id as one that wants units
		lasts = c.options.LeaseTTL
	}
	calls, _ := e.demand.rates(now)
	switch {
	case now < e.sent+lasts*3/5 || c.breaker.open.Load():
	case e.used > e.sent && calls >= c.options.LeaseRate/2:
		if held && now >= e.askAlone {
			c.ask(s, e, now)
		}
	case now >= e.sent+lasts*4/5:
		c.unlease(s, e, now)
	}
}

// Close gives all blocks back, and waits until the server has answered or ctx ends. Then it
// closes the Doer, if that is an io.Closer. Calls that come later get ErrClosed. The error is
// that of ctx, or of the Doer.
func (c *Client) Close(ctx context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	close(c.closing)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, e := range s.entries {
			c.retire(s, e, c.now())
		}
		s.mu.Unlock()
	}
	done := make(chan struct{})
	go func() {
		c.under.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if d, ok := c.do.(io.Closer); ok {
		err = errors.Join(err, d.Close())
	}
	return err
}
