package server

import "github.com/headgate-io/headgate/engine"

// slotsCommands bound how many calls run at once.
func slotsCommands() []command {
	key := keySpec{first: 1, last: 1, step: 1}
	return []command{{
		name: "rl.acquire", arity: -4, flags: flagWrite | flagDenyOOM | flagFast | flagLimit, keys: key, categories: catLimiter,
		group: "limiter", complexity: "O(N), N the number of leases of the key (at most 4096)",
		summary: "Takes or renews a lease of a concurrency limit; it frees itself after its ttl.",
		syntax:  "key limit ttl [ID id] [COST units]",
		handler: cmdAcquire,
	}, {
		name: "rl.release", arity: 3, flags: flagWrite | flagFast, keys: key, categories: catLimiter,
		group: "limiter", complexity: "O(N), N the number of leases of the key (at most 4096)",
		summary: "Ends a lease.",
		syntax:  "key id",
		handler: cmdRelease,
	}, {
		name: "rl.extend", arity: 4, flags: flagWrite | flagFast, keys: key, categories: catLimiter,
		group: "limiter", complexity: "O(N), N the number of leases of the key (at most 4096)",
		summary: "Gives a lease a new ttl from now.",
		syntax:  "key id ttl",
		handler: cmdExtend,
	}}
}

// cmdAcquire replies [allowed, limit, remaining, retry_after_ms, lease, ttl_ms].
func cmdAcquire(c *conn, args [][]byte) {
	a, err := parseAcquire(args[2:])
	if err != nil {
		c.error(err.Error())
		return
	}
	d, lease, err := c.acquire(args[1], &a)
	if err != nil {
		c.limitError(err)
		return
	}
	c.openDecision(6)
	intField(c.w, "allowed", truth(d.OK))
	intField(c.w, "limit", d.Limit)
	intField(c.w, "remaining", d.Remaining)
	intField(c.w, "retry_after_ms", ceilMillis(d.RetryAfter))
	field(c.w, "lease")
	if d.OK {
		c.w.BulkString(lease)
		intField(c.w, "ttl_ms", ceilMillis(a.ttl))
	} else {
		c.w.Null()
		intField(c.w, "ttl_ms", 0)
	}
	c.closeDecision()
}

// acquire takes the lease, or without a leader gives out one that no limit
// counts.
func (c *conn) acquire(key []byte, a *acquireArgs) (d engine.Decision, lease string, err error) {
	if c.lane.degraded {
		if c.srv.local != nil {
			return d, "", engine.ErrNotLocal
		}
		return c.srv.empty.Acquire(c.now(), key, a.limit, a.ttl, a.id, a.cost)
	}
	d, lease, err = c.sess.Acquire(c.now(), key, a.limit, a.ttl, a.id, a.cost)
	if err == nil {
		c.decided(d.OK)
	}
	return d, lease, err
}

// acquireArgs are the arguments of RL.ACQUIRE behind the key.
type acquireArgs struct {
	limit, ttl, cost int64
	id               []byte // empty asks for a generated one
}

func parseAcquire(args [][]byte) (a acquireArgs, err error) {
	a.cost = 1
	if a.limit, err = parseInteger(args[0]); err != nil {
		return a, err
	}
	if a.ttl, err = parsePeriod(args[1]); err != nil {
		return a, err
	}
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return a, errOptions
		}
		switch value := rest[1]; {
		case equalFold(rest[0], "id"):
			if a.id = value; len(value) == 0 {
				return a, errEngine(engine.ErrLeaseID)
			}
		case equalFold(rest[0], "cost"):
			if a.cost, err = parseInteger(value); err != nil {
				return a, err
			}
		default:
			return a, errOptions
		}
	}
	return a, nil
}

func cmdRelease(c *conn, args [][]byte) {
	held, err := c.sess.Release(c.now(), args[1], args[2])
	replyHeld(c, held, err)
}

func cmdExtend(c *conn, args [][]byte) {
	ttl, err := parsePeriod(args[3])
	if err != nil {
		c.error(err.Error())
		return
	}
	held, err := c.sess.Extend(c.now(), args[1], args[2], ttl)
	replyHeld(c, held, err)
}

func replyHeld(c *conn, held bool, err error) {
	if err != nil {
		c.limitError(err)
		return
	}
	c.w.Int(truth(held))
}
