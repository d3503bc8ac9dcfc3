package server

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/resp"
)

// nativeCommands are the limits of Headgate's own: every algorithm, chains,
// and what an operator asks about them.
func nativeCommands() []command {
	return []command{{
		name: "rl.limit", arity: -4, flags: flagWrite | flagDenyOOM | flagFast | flagMovableKeys,
		keys: keySpec{first: 1, last: 1, step: 1, find: limitKeys}, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(N), N the number of limits",
		summary: "Checks one limit, or several as one atomic step, and charges them if all pass.",
		syntax: "key limit period [ALGORITHM <token | leaky | fixed | sliding | log>] [BURST units] [ALIGN <epoch | first>] [COST units] " +
			"[PEEK | FORCE | ATMOST] [WAIT milliseconds] [DEBT units] [SYNC | ASYNC] [AND key limit period [options ...]]",
		handler: cmdLimit,
	}, {
		name: "rl.reset", arity: -2, flags: flagWrite | flagFast,
		keys: keySpec{first: 1, last: -1, step: 1}, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(N), N the number of keys",
		summary: "Forgets the state of keys: their limits are full again.",
		syntax:  "key [key ...]",
		handler: cmdDel,
	}}
}

// limitKeys finds the keys of a chain: the first argument, and what follows
// each AND.
func limitKeys(args [][]byte, at []int) []int {
	at = append(at, 1)
	for i := 4; i < len(args); i++ {
		if keyword(args[i], "AND") && i+1 < len(args) {
			at = append(at, i+1)
			i += 3
		}
	}
	return at
}

func cmdLimit(c *conn, args [][]byte) {
	call := &c.lane.limit
	if err := call.parse(args[1:]); err != nil {
		c.error(err.Error())
		return
	}
	defer call.forget()
	var err error
	n := len(call.segs)
	binding := 0
	if n == 1 {
		seg := &call.segs[0]
		call.out[0], err = c.sess.Decide(c.now(), seg.Key, seg.Limit, seg.Cost, &call.opts)
	} else {
		binding, err = c.sess.DecideAll(c.now(), call.segs, &call.opts, call.out[:])
	}
	if err != nil {
		c.error(errEngine(err).Error())
		return
	}
	d := &call.out[binding]
	c.decided(d.OK)
	fields := decisionFields
	if n > 1 {
		fields++
	}
	openFields(c.w, fields)
	writeDecision(c.w, d, call.opts.AtMost)
	if n > 1 {
		field(c.w, "limits")
		c.w.Array(n)
		for i := range n {
			openFields(c.w, decisionFields)
			writeDecision(c.w, &call.out[i], call.opts.AtMost)
		}
	}
}

const decisionFields = 6

// writeDecision writes the fields of one decision. Times are rounded up to
// milliseconds, so that waiting as long as told is enough.
func writeDecision(w *resp.Writer, d *engine.Decision, atMost bool) {
	allowed := truth(d.OK)
	if atMost {
		allowed = d.Allowed
	}
	intField(w, "allowed", allowed)
	intField(w, "limit", d.Limit)
	intField(w, "remaining", d.Remaining)
	intField(w, "retry_after_ms", ceilMillis(d.RetryAfter))
	intField(w, "reset_after_ms", ceilMillis(d.ResetAfter))
	intField(w, "delay_ms", ceilMillis(d.Delay))
}

// openFields opens a reply of n named values: a map in RESP3, in RESP2 an
// array of the values alone.
func openFields(w *resp.Writer, n int) {
	if w.RESP3 {
		w.Map(n)
	} else {
		w.Array(n)
	}
}

// field writes the name of the next value, where the protocol has names.
func field(w *resp.Writer, name string) {
	if w.RESP3 {
		w.BulkString(name)
	}
}

func intField(w *resp.Writer, name string, n int64) {
	field(w, name)
	w.Int(n)
}

// ceilMillis rounds up to milliseconds and keeps engine.Never.
func ceilMillis(ns int64) int64 {
	ms := ns / int64(time.Millisecond)
	if ns%int64(time.Millisecond) > 0 {
		ms++
	}
	return ms
}
