package headgate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Peek returns what Allow would answer, and takes nothing. It always asks the server.
func (c *Client) Peek(ctx context.Context, key string, limit Limit, cost int64) (d Decision, err error) {
	args := limit.options(limit.arguments([]any{"RL.LIMIT", key}))
	if cost != 1 {
		args = append(args, "COST", cost)
	}
	err = c.request(ctx, c.options.Timeout, append(args, "PEEK"), func(reply any) (err error) {
		d, err = decisionOf(reply)
		return err
	})
	if f := (*failure)(nil); errors.As(err, &f) {
		return c.fell(true, []asked{part(key, limit, cost, true)}), nil
	}
	if mistake(err) {
		d = c.fell(true, []asked{part(key, limit, cost, false)})
	}
	return d, err
}

// Wait is Allow that sleeps until the call may pass, as long as that is at most so long.
// It returns the last denial otherwise. A Delay of the decision is left to the caller.
func (c *Client) Wait(ctx context.Context, key string, limit Limit, cost int64, atMost time.Duration) (Decision, error) {
	for until := c.now() + atMost; ; {
		d, err := c.Allow(ctx, key, limit, cost)
		if err != nil || d.Allowed || d.RetryAfter < 0 || d.RetryAfter > until-c.now() {
			return d, err
		}
		timer := time.NewTimer(max(d.RetryAfter, time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Decision{}, ctx.Err()
		}
	}
}

// Refund gives units back, until the limit is full. While the server is away, nothing
// happens.
func (c *Client) Refund(ctx context.Context, key string, limit Limit, cost int64) (Decision, error) {
	if cost < 1 {
		return Decision{}, fmt.Errorf("headgate: the cost of a refund is %d, it must be at least 1", cost)
	}
	d, err := c.plain(ctx, c.options.Timeout, key, limit, -cost)
	if err == nil {
		c.forget(key)
	}
	return d, err
}

// Reset makes limits full again, except for what leases have out. It is the one call that
// an unreachable server makes an error.
func (c *Client) Reset(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	args := make([]any, 0, 1+len(keys))
	args = append(args, "RL.RESET")
	for _, key := range keys {
		args = append(args, key)
	}
	err := c.request(ctx, c.options.Timeout, args, integer)
	if err == nil {
		for _, key := range keys {
			c.forget(key)
		}
	}
	return err
}

// integer is a reader of replies that are an integer.
func integer(reply any) error {
	if _, ok := reply.(int64); !ok {
		return fmt.Errorf("headgate: the reply is a %T, not an integer: is the server Headgate?", reply)
	}
	return nil
}

// Attributes are what a policy goes by: names and values.
type Attributes map[string]string

// Check asks a policy about a call. A denial is remembered for calls with the same
// attributes. While the server is away, OnFailure of the policy decides. If the policy is
// Leased, Check decides as Allow does.
//
// Errors: those of Allow, among them that of a policy which the server does not have.
func (c *Client) Check(ctx context.Context, p Policy, attributes Attributes, cost int64) (Decision, error) {
	return c.CheckID(ctx, p, attributes, cost, "")
}

// CheckID is Check of a call with a name. The server charges a name once, however often
// the call is made: docs/holds.md says for how long. An empty id is no name.
func (c *Client) CheckID(ctx context.Context, p Policy, attributes Attributes, cost int64, id string) (Decision, error) {
	if cost < 0 {
		return Decision{}, fmt.Errorf("headgate: the cost of a check is %d, it must be at least 0", cost)
	}
	check, key := p.check(attributes)
	a := p.part(check, key, cost, true)
	if id == "" && cost > 0 {
		if p.Leased {
			return c.decide(ctx, a)
		}
		if d, ok := c.recall(key, p.Limit, cost); ok {
			return d, nil
		}
	}
	return c.consult(ctx, c.options.Timeout, a, id)
}

// consult asks the server about a policy, and remembers a denial.
func (c *Client) consult(ctx context.Context, within time.Duration, a asked, id string) (Decision, error) {
	args := a.check
	if a.cost != 1 {
		args = append(args, "COST", a.cost)
	}
	if id != "" {
		args = append(args, "ID", id)
	}
	d, err := c.verdict(ctx, within, args)
	if f := (*failure)(nil); errors.As(err, &f) {
		a.known = f.known
		return c.fall(a), nil
	}
	if mistake(err) {
		a.known = false
		return c.fall(a), err
	}
	if err == nil && !d.Allowed && id == "" && a.cost > 0 {
		c.remember(a.key, a.limit, d, a.cost)
	}
	return d, err
}

// check returns the command for attributes, without options, and one string that stands for
// it.
func (p *Policy) check(attributes Attributes) (args []any, key string) {
	args = make([]any, 0, 2+2*len(attributes))
	args = append(args, "RL.CHECK", p.Name)
	b := fmt.Appendf(nil, "%d:%s", len(p.Name), p.Name)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		args = append(args, name, value)
		b = fmt.Appendf(b, ",%s=%d:%s", name, len(value), value)
	}
	return slices.Clip(args), "\x00" + string(b)
}

// part returns a policy's part of a call.
func (p *Policy) part(check []any, key string, cost int64, known bool) asked {
	return asked{subject: subject{key, true, p.Limit}, check: check, cost: cost, known: known, on: p.onFailure()}
}

// recall returns a remembered denial.
func (c *Client) recall(key string, limit Limit, cost int64) (d Decision, ok bool) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e == nil || e.limit != limit {
		return d, false
	}
	if d, ok = e.recall(cost, c.now()); ok {
		s.count(&d)
	}
	return d, ok
}

// verdict sends a command with a policy's reply.
func (c *Client) verdict(ctx context.Context, within time.Duration, args []any) (d Decision, err error) {
	err = c.request(ctx, within, args, func(reply any) (err error) {
		d, err = verdictOf(reply)
		return err
	})
	return d, err
}

// Reservation is a call whose cost is an estimate. Commit or Cancel ends it.
type Reservation struct {
	Decision
	c *Client
}

// Reserve asks a policy about a call by an estimate of its cost, which it holds for ttl, 1 s
// to 1 h. With a ttl of 0 the policy says for how long.
func (c *Client) Reserve(ctx context.Context, p Policy, attributes Attributes, cost int64, ttl time.Duration) (*Reservation, error) {
	check, key := p.check(attributes)
	args := slices.Clone(check)
	args[0] = "RL.RESERVE"
	if cost != 1 {
		args = append(args, "COST", cost)
	}
	if ttl != 0 {
		args = append(args, "TTL", spell(ttl))
	}
	d, err := c.verdict(ctx, c.options.Timeout, args)
	if f := (*failure)(nil); errors.As(err, &f) {
		d, err = c.fall(p.part(check, key, cost, f.known)), nil
	}
	if err != nil {
		return nil, err
	}
	return &Reservation{d, c}, nil
}

// Commit settles the real cost. It does nothing if the server holds nothing for the call, or
// is away: the hold ends by itself then.
func (r *Reservation) Commit(ctx context.Context, cost int64) (Decision, error) {
	return r.settle(ctx, "RL.COMMIT", r.Hold, "COST", cost)
}

// Cancel gives back what is held, as Commit.
func (r *Reservation) Cancel(ctx context.Context) (Decision, error) {
	return r.settle(ctx, "RL.CANCEL", r.Hold)
}

func (r *Reservation) settle(ctx context.Context, args ...any) (Decision, error) {
	if r.Hold == "" {
		return r.Decision, nil
	}
	d, err := r.c.verdict(ctx, r.c.options.Timeout, args)
	if f := (*failure)(nil); errors.As(err, &f) {
		d, err = fallen(true), nil
		d.Limit, d.Remaining = -1, -1
	}
	return d, err
}

// Slot is one of a number of calls that may run at the same time. Release ends it.
type Slot struct {
	Decision
	c   *Client
	key string
	id  string // at the server, or empty
	own int64  // the number of a slot of this process, or 0
}

// Acquire takes one of slots for ttl. While the server is away, on decides; Local gives this
// process a share of the slots, 1 at least.
func (c *Client) Acquire(ctx context.Context, key string, slots int64, ttl time.Duration, on OnFailure) (*Slot, error) {
	s := &Slot{c: c, key: key}
	err := c.request(ctx, c.options.Timeout, []any{"RL.ACQUIRE", key, slots, spell(ttl)}, func(reply any) (err error) {
		s.Decision, s.id, err = slotOf(reply)
		return err
	})
	if f := (*failure)(nil); errors.As(err, &f) {
		s.Decision, s.own = c.acquire(key, slots, ttl, on)
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Release gives a slot back. It does nothing if the call has none. If the server is away, the
// slot ends by itself.
func (s *Slot) Release(ctx context.Context) error {
	if s.own != 0 {
		s.c.release(s.key, s.own)
	}
	if s.id == "" {
		return nil
	}
	err := s.c.request(ctx, s.c.options.Timeout, []any{"RL.RELEASE", s.key, s.id}, integer)
	if f := (*failure)(nil); errors.As(err, &f) {
		return nil
	}
	return err
}

// localSlot is a slot that this process gave.
type localSlot struct {
	number int64
	ends   instant
}

// acquire gives a slot while the server is away. Its number is 0 if there is none, or if
// nobody counts it.
func (c *Client) acquire(key string, slots int64, ttl time.Duration, on OnFailure) (d Decision, number int64) {
	d = fallen(on == Open)
	d.Limit, d.Remaining = -1, -1
	switch on {
	case Open:
		return d, 0
	case Closed:
		d.RetryAfter = closedRetry
		return d, 0
	}
	now := c.now()
	f := &c.fallback
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := slices.DeleteFunc(f.slots[key], func(s localSlot) bool { return s.ends <= now })
	mine := max(int64(f.share(nil, now)*float64(slots)+tiny), 1)
	d.Limit, d.Remaining = slots, max(mine-int64(len(taken)), 0)
	switch {
	case slots < 1:
		d.RetryAfter = -1
	case d.Remaining == 0:
		d.RetryAfter = slices.MinFunc(taken, func(a, b localSlot) int { return int(a.ends - b.ends) }).ends - now
	case len(f.slots) >= records && f.slots[key] == nil:
		d.RetryAfter = closedRetry
	default:
		f.turns++
		number = f.turns
		taken = append(taken, localSlot{number, now + ttl})
		d.Allowed = true
		d.Remaining--
	}
	if f.slots[key] = taken; len(taken) == 0 {
		delete(f.slots, key)
	}
	return d, number
}

// release ends a slot that this process gave.
func (c *Client) release(key string, number int64) {
	f := &c.fallback
	f.mu.Lock()
	defer f.mu.Unlock()
	left := slices.DeleteFunc(f.slots[key], func(s localSlot) bool { return s.number == number })
	if f.slots[key] = left; len(left) == 0 {
		delete(f.slots, key)
	}
}
