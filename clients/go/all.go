package headgate

import (
	"context"
	"errors"
	"fmt"
)

// loan is what All took from a block.
type loan struct {
	e      *entry
	id     string
	lapses int
	cost   int64
}

// All asks for several limits in one step: the call is admitted by all of them, and charged
// to all, or to none. It takes what the client holds of a limit first, and asks the server
// for the rest in one command. A key may occur only once, and there are at most 32 limits.
// Without limits the call is allowed.
//
// The decision is about one limit: the one that denied the call, or else the one with the
// fewest units left.
//
// While the server is away, All also takes the units that the client holds, and OnFailure
// decides the rest.
//
// Errors: the errors of Allow, and an error for a key that occurs twice. After an error,
// the client gets back the units that it held.
func (c *Client) All(ctx context.Context, limits []KeyLimit) (Decision, error) {
	for i := range limits {
		for j := range i {
			if limits[i].Key == limits[j].Key {
				return Decision{}, fmt.Errorf("headgate: key %q has two limits in one call: each limit needs a key of its own", limits[i].Key)
			}
		}
	}
	var loans []loan
	var rest []*KeyLimit
	least := Decision{Allowed: true, Source: Lease}
	first := true
	for i := range limits {
		l := &limits[i]
		d, loan, known := c.borrow(l)
		switch {
		case !known:
			rest = append(rest, l)
			continue
		case !d.Allowed:
			c.settle(loans, false)
			return d, nil
		}
		loans = append(loans, loan)
		if first || d.Remaining < least.Remaining {
			least, first = d, false
		}
	}
	if len(rest) == 0 {
		c.settle(loans, true)
		return least, nil
	}
	d, err := c.chain(ctx, rest)
	if f := (*failure)(nil); errors.As(err, &f) {
		parts := make([]asked, len(rest))
		for i, l := range rest {
			parts[i] = part(l.Key, l.Limit, l.Cost, f.known)
		}
		d, err = c.fall(parts...), nil
	}
	if err != nil {
		c.settle(loans, false)
		return Decision{}, err
	}
	c.settle(loans, d.Allowed)
	if d.Allowed && !first && (least.Remaining < d.Remaining || d.Limit < 0) {
		least.Source, least.Degraded, least.Delay = d.Source, d.Degraded, d.Delay
		return least, nil
	}
	return d, nil
}

// borrow decides one limit without the server, if it can.
func (c *Client) borrow(l *KeyLimit) (d Decision, taken loan, known bool) {
	if l.Cost < 1 {
		return d, taken, false
	}
	now := c.now()
	s := c.shard(l.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := c.asked(s, l.Key, l.Limit, l.Cost, now)
	if e == nil {
		return d, taken, false
	}
	d, known = e.locally(l.Cost, now)
	if known {
		s.count(&d)
	}
	if known && d.Allowed {
		e.block.lent += l.Cost
		taken = loan{e, e.id, e.block.lapses, l.Cost}
	}
	// A request brings units for calls to come. This one does not wait for it.
	if !c.breaker.open.Load() && c.lease(s, e, now) && e.pending == nil && (!known && e.block.stock < l.Cost || e.block.low(now)) {
		c.ask(s, e, now)
	}
	return d, taken, known
}

// settle ends loans: the units are spent, or put back. What has lapsed or gone back since
// stays away.
func (c *Client) settle(loans []loan, spent bool) {
	now := c.now()
	for _, l := range loans {
		s := c.shard(l.e.key)
		s.mu.Lock()
		if b := &l.e.block; l.e.id == l.id {
			b.settle(now)
			if b.lapses == l.lapses {
				b.lent -= l.cost
				if !spent {
					b.stock += l.cost
				}
			}
		}
		if !spent {
			s.local--
		}
		s.mu.Unlock()
	}
}

// chain asks the server for several limits.
func (c *Client) chain(ctx context.Context, limits []*KeyLimit) (d Decision, err error) {
	args := make([]any, 0, 8*len(limits))
	args = append(args, "RL.LIMIT")
	for i, l := range limits {
		if i > 0 {
			args = append(args, "AND")
		}
		args = l.Limit.options(l.Limit.arguments(append(args, l.Key)))
		if l.Cost != 1 {
			args = append(args, "COST", l.Cost)
		}
	}
	err = c.request(ctx, c.options.Timeout, args, func(reply any) (err error) {
		d, err = decisionOf(reply)
		return err
	})
	return d, err
}
