package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
)

// nativeCommands are the limits of Headgate's own: every algorithm, chains,
// and what an operator asks about them.
func nativeCommands() []command {
	return []command{{
		// Redis would add movablekeys, for the keys of a chain. redis-py then asks
		// COMMAND GETKEYS before every call, of one node for ever, even if that
		// has died, and refuses keys of different slots; all slots are in one
		// shard, so the first key tells enough.
		name: "rl.limit", arity: -4, flags: flagWrite | flagDenyOOM | flagFast | flagLimit,
		keys: keySpec{first: 1, last: 1, step: 1, find: limitKeys}, categories: catLimiter,
		group: "limiter", complexity: "O(N), N the number of limits",
		summary: "Checks one limit, or several as one atomic step, and charges them if all pass.",
		syntax: "key limit period [ALGORITHM <token | leaky | fixed | sliding | log>] [BURST units] [ALIGN <epoch | first>] [COST units] " +
			"[PEEK | FORCE | ATMOST] [WAIT milliseconds] [DEBT units] [SYNC | ASYNC] [AND key limit period [options ...]]",
		handler: cmdLimit,
	}, {
		name: "rl.reset", arity: -2, flags: flagWrite | flagFast | flagLong,
		keys: keySpec{first: 1, last: -1, step: 1}, categories: catLimiter,
		group: "limiter", complexity: "O(N), N the number of keys",
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
		if equalFold(args[i], "and") && i+1 < len(args) {
			at = append(at, i+1)
			i += 3
		}
	}
	return at
}

func cmdLimit(c *conn, args [][]byte) {
	call := &c.lane.limit
	defer call.forget()
	err := call.parse(args[1:])
	if err != nil {
		c.error(err.Error())
		return
	}
	n := len(call.segs)
	binding := 0
	degraded := c.lane.degraded
	if degraded {
		binding, err = c.askDegraded(call.segs, &call.opts, call.out[:])
	} else if n == 1 {
		seg := &call.segs[0]
		call.out[0], err = c.sess.Decide(c.now(), seg.Key, seg.Limit, seg.Cost, &call.opts)
	} else {
		binding, err = c.sess.DecideAll(c.now(), call.segs, &call.opts, call.out[:])
	}
	if err != nil {
		c.limitError(err)
		return
	}
	d := &call.out[binding]
	if !degraded {
		c.decided(d.OK)
		if call.sync != syncDefault {
			c.durability(call.sync)
		}
	}
	fields, delay := decisionFields, d.Delay
	if n > 1 {
		fields++
		if d.OK {
			delay = longestDelay(call.out[:n])
		}
	}
	c.openDecision(fields)
	writeDecision(c.w, d, delay, call.opts.AtMost)
	if n > 1 {
		field(c.w, "limits")
		c.w.Array(n)
		for i := range n {
			openFields(c.w, decisionFields)
			writeDecision(c.w, &call.out[i], call.out[i].Delay, call.opts.AtMost)
		}
	}
	c.closeDecision()
}

const decisionFields = 6

// longestDelay returns the longest of the delays that a chain's limits ask for.
func longestDelay(limits []engine.Decision) (ns int64) {
	for i := range limits {
		ns = max(ns, limits[i].Delay)
	}
	return ns
}

// writeDecision writes the fields of one decision, with the delay in ns in the
// place of its own; with ATMOST, allowed is the amount granted.
func writeDecision(w *resp.Writer, d *engine.Decision, delay int64, atMost bool) {
	allowed := truth(d.OK)
	if atMost {
		allowed = d.Allowed
	}
	intField(w, "allowed", allowed)
	intField(w, "limit", d.Limit)
	intField(w, "remaining", d.Remaining)
	intField(w, "retry_after_ms", ceilMillis(d.RetryAfter))
	intField(w, "reset_after_ms", ceilMillis(d.ResetAfter))
	intField(w, "delay_ms", ceilMillis(delay))
}

// Errors of options that contradict each other.
var (
	errExclusive = errors.New("ERR PEEK, FORCE and ATMOST exclude each other")
	errSync      = errors.New("ERR SYNC and ASYNC exclude each other")

	errAtMostCost = errors.New("ERR ATMOST needs a COST of at least 1")
)

// limitCall is a parsed RL.LIMIT.
type limitCall struct {
	segs []engine.Segment
	opts engine.Options
	sync syncMode
	out  [engine.MaxSegments]engine.Decision
}

// forget drops the views of the client's input.
func (c *limitCall) forget() { clear(c.segs) }

// syncMode is the SYNC or ASYNC of a call: whether its reply waits until the
// charge is on a majority of nodes. A node of its own has none to wait for, and
// takes both without effect.
type syncMode uint8

const (
	syncDefault syncMode = iota
	syncCommit
	syncNone
)

// parse reads the arguments of RL.LIMIT, without the command's name, into c,
// reusing its segments.
//
//	key limit period [ALGORITHM a] [BURST n] [ALIGN epoch|first] [COST n]
//	[PEEK|FORCE|ATMOST] [WAIT ms] [DEBT n] [SYNC|ASYNC] [AND key limit period …]
func (c *limitCall) parse(args [][]byte) error {
	c.segs = c.segs[:0]
	c.opts = engine.Options{}
	c.sync = syncDefault
	for {
		if len(args) < 3 {
			return errOptions
		}
		rest, err := c.parseSegment(args)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return c.check()
		}
		args = rest[1:] // what stopped it is AND
	}
}

// check refuses combinations that contradict each other.
func (c *limitCall) check() error {
	o := &c.opts
	if o.Peek && o.Force || o.Peek && o.AtMost || o.Force && o.AtMost {
		return errExclusive
	}
	if o.AtMost && slices.ContainsFunc(c.segs, func(s engine.Segment) bool { return s.Cost < 1 }) {
		return errAtMostCost
	}
	return nil
}

// parseSegment reads one key with its limit and the options up to AND or the
// end.
func (c *limitCall) parseSegment(args [][]byte) (rest [][]byte, err error) {
	if len(c.segs) == engine.MaxSegments {
		return nil, errEngine(engine.ErrTooManySegments)
	}
	seg := engine.Segment{Key: args[0], Cost: 1}
	if seg.Limit.Limit, err = parseInteger(args[1]); err != nil {
		return nil, err
	}
	if seg.Limit.Period, err = parsePeriod(args[2]); err != nil {
		return nil, err
	}
	args = args[3:]
	for len(args) > 0 && !equalFold(args[0], "and") {
		n, err := c.parseOption(&seg, args)
		if err != nil {
			return nil, err
		}
		args = args[n:]
	}
	c.segs = append(c.segs, seg)
	return args, nil
}

// parseOption reads one option and returns how many arguments it took.
func (c *limitCall) parseOption(seg *engine.Segment, args [][]byte) (int, error) {
	o := &c.opts
	switch name := args[0]; {
	case equalFold(name, "peek"):
		o.Peek = true
		return 1, nil
	case equalFold(name, "force"):
		o.Force = true
		return 1, nil
	case equalFold(name, "atmost"):
		o.AtMost = true
		return 1, nil
	case equalFold(name, "sync"):
		return 1, c.setSync(syncCommit)
	case equalFold(name, "async"):
		return 1, c.setSync(syncNone)
	}
	if len(args) < 2 {
		return 0, errOptions
	}
	var err error
	switch name, value := args[0], args[1]; {
	case equalFold(name, "cost"):
		seg.Cost, err = parseInteger(value)
	case equalFold(name, "burst"):
		seg.Limit.Burst, err = parseInteger(value)
		if err == nil && seg.Limit.Burst < 1 {
			err = errors.New("ERR BURST must be at least 1")
		}
	case equalFold(name, "algorithm"):
		a, ok := engine.ParseAlgorithm(string(value))
		if !ok {
			return 0, fmt.Errorf("ERR unknown algorithm '%s', use token, leaky, fixed, sliding or log", clip(value, errorClip))
		}
		seg.Limit.Algorithm = a
	case equalFold(name, "align"):
		switch {
		case equalFold(value, "first"):
			seg.Limit.Align = engine.First
		case equalFold(value, "epoch"):
			seg.Limit.Align = engine.Epoch
		default:
			return 0, fmt.Errorf("ERR unknown alignment '%s', use epoch or first", clip(value, errorClip))
		}
	case equalFold(name, "wait"):
		var ms int64
		if ms, err = parseInteger(value); err == nil && (ms < 0 || ms > math.MaxInt64/int64(time.Millisecond)) {
			err = errors.New("ERR WAIT must be a number of milliseconds, 0 or more")
		}
		if o.Wait = ms * int64(time.Millisecond); ms == 0 {
			o.Wait = engine.NoWait
		}
	case equalFold(name, "debt"):
		if o.Debt, err = parseInteger(value); err == nil && o.Debt < 0 {
			err = errors.New("ERR DEBT must be 0 or more")
		}
	default:
		return 0, fmt.Errorf("ERR syntax error, unknown option '%s'", clip(name, errorClip))
	}
	return 2, err
}

func (c *limitCall) setSync(m syncMode) error {
	if c.sync != syncDefault && c.sync != m {
		return errSync
	}
	c.sync = m
	return nil
}
