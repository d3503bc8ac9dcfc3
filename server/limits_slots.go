package server

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/resp"
)

// slotsCommands bound how many calls run at once.
func slotsCommands() []command {
	key := keySpec{first: 1, last: 1, step: 1}
	return []command{{
		name: "rl.acquire", arity: -4, flags: flagWrite | flagDenyOOM | flagFast, keys: key, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(N), N the number of leases of the key (at most 4096)",
		summary: "Takes or renews a lease of a concurrency limit; it frees itself after its ttl.",
		syntax:  "key limit ttl [ID id] [COST units]",
		handler: cmdAcquire,
	}, {
		name: "rl.release", arity: 3, flags: flagWrite | flagFast, keys: key, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(N), N the number of leases of the key (at most 4096)",
		summary: "Ends a lease.",
		syntax:  "key id",
		handler: cmdRelease,
	}, {
		name: "rl.extend", arity: 4, flags: flagWrite | flagFast, keys: key, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(N), N the number of leases of the key (at most 4096)",
		summary: "Gives a lease a new ttl from now.",
		syntax:  "key id ttl",
		handler: cmdExtend,
	}}
}

// cmdAcquire replies [allowed, limit, remaining, retry_after_ms, lease, ttl_ms].
func cmdAcquire(c *conn, args [][]byte) {
	limit, err := parseInteger(args[2])
	var ttl int64
	if err == nil {
		ttl, err = parsePeriod(args[3])
	}
	var id []byte
	cost := int64(1)
	for rest := args[4:]; err == nil && len(rest) > 0; rest = rest[2:] {
		switch {
		case len(rest) < 2:
			err = errOptions
		case keyword(rest[0], "ID"):
			if id = rest[1]; len(id) == 0 {
				err = engine.ErrLeaseID
			}
		case keyword(rest[0], "COST"):
			cost, err = parseInteger(rest[1])
		default:
			err = errOptions
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		c.error(errArgument(err).Error())
		return
	}
	d, lease, err := c.sess.Acquire(c.now(), args[1], limit, ttl, id, cost)
	if err != nil {
		c.error(errEngine(err).Error())
		return
	}
	c.decided(d.OK)
	openFields(c.w, 6)
	intField(c.w, "allowed", truth(d.OK))
	intField(c.w, "limit", d.Limit)
	intField(c.w, "remaining", d.Remaining)
	intField(c.w, "retry_after_ms", ceilMillis(d.RetryAfter))
	field(c.w, "lease")
	if !d.OK {
		c.w.Null()
		intField(c.w, "ttl_ms", 0)
		return
	}
	c.w.BulkString(lease)
	intField(c.w, "ttl_ms", ceilMillis(ttl))
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
		c.error(errEngine(err).Error())
		return
	}
	c.w.Int(truth(held))
}

// writeNumber writes a counter's number: an integer, or a fraction as text.
func writeNumber(w *resp.Writer, n engine.Number) {
	if i, ok := n.Int64(); ok {
		w.Int(i)
		return
	}
	w.BulkString(n.String())
}
