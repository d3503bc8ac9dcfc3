package server

import (
	"errors"
	"math"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/resp"
)

// compatCommands are limiter commands of other servers, exact in values, order
// and rounding.
func compatCommands() []command {
	key := keySpec{first: 1, last: 1, step: 1}
	write := flagWrite | flagDenyOOM | flagFast
	return []command{{
		name: "cl.throttle", arity: -5, flags: write, keys: key, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(1)",
		summary: "Checks a token bucket as redis-cell does.",
		syntax:  "key max-burst count period [quantity]",
		handler: cmdCellThrottle,
	}, {
		name: "rl.throttle", arity: -5, flags: write, keys: key, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(1)",
		summary: "Checks a token bucket as redis-cell does; the same as CL.THROTTLE.",
		syntax:  "key max-burst count period [quantity]",
		handler: cmdCellThrottle,
	}, {
		name: "throttle", arity: -5, flags: write, keys: key, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(1)",
		summary: "Checks a token bucket as throttlecrab does.",
		syntax:  "key max-burst count period [quantity]",
		handler: cmdCrabThrottle,
	}, {
		name: "gcra", arity: -5, flags: write, keys: key, categories: catLimiter,
		group: "limiter", since: "1.0.0", complexity: "O(1)",
		summary: "Checks a token bucket as the GCRA command of Redis does.",
		syntax:  "key max-burst tokens-per-period period [<TOKENS count | NUM_REQUESTS count>]",
		handler: cmdGCRA,
	}}
}

// errEngine gives an error of the engine its RESP prefix, and Redis's text
// where Redis has one.
func errEngine(err error) error {
	switch {
	case errors.Is(err, engine.ErrWrongType):
		return errors.New("WRONGTYPE " + err.Error())
	case errors.Is(err, engine.ErrFull):
		return errors.New("OOM command not allowed when used memory > 'maxmemory'.")
	case errors.Is(err, engine.ErrKeyTooLong):
		return errors.New("ERR key is longer than 64 KiB")
	}
	return errors.New("ERR " + err.Error())
}

// bucketArgs are the arguments that CL.THROTTLE and THROTTLE share.
type bucketArgs struct {
	burst, count, period, quantity int64
}

func parseBucketArgs(args [][]byte) (b bucketArgs, err error) {
	if len(args) > 6 {
		return b, errOptions
	}
	b.quantity = 1
	for i, dst := range [...]*int64{&b.burst, &b.count, &b.period, &b.quantity} {
		if i+2 == len(args) {
			break
		}
		if *dst, err = parseInteger(args[i+2]); err != nil {
			return b, err
		}
	}
	switch {
	case b.count < 1:
		return b, errors.New("ERR count must be at least 1")
	case b.period < 1 || b.period > maxSeconds:
		return b, errors.New("ERR period must be a positive number of seconds")
	}
	return b, nil
}

// limit returns the bucket: count units per period, whose time per unit is cut
// to ns as both servers do, holding capacity units.
func (b bucketArgs) limit(capacity int64) engine.Limit {
	return engine.Limit{
		Algorithm: engine.Token,
		Rounding:  engine.Nanosecond,
		Limit:     b.count,
		Period:    b.period * int64(time.Second),
		Burst:     capacity,
	}
}

// cmdCellThrottle is CL.THROTTLE as redis-cell 0.5.0 answers it: [limited,
// limit, remaining, retry_after, reset_after], times in seconds.
func cmdCellThrottle(c *conn, args [][]byte) {
	b, err := parseBucketArgs(args)
	if err == nil && (b.burst < 0 || b.burst == math.MaxInt64) {
		err = errors.New("ERR max_burst must be between 0 and 9223372036854775806")
	}
	if err != nil {
		c.error(err.Error())
		return
	}
	d, ok := c.decide(args[1], b.limit(b.burst+1), b.quantity)
	if !ok {
		return
	}
	writeCell(c.w, &d, cellSeconds)
}

// writeCell writes the reply that CL.THROTTLE and GCRA share.
func writeCell(w *resp.Writer, d *engine.Decision, seconds func(ns int64) int64) {
	w.Array(5)
	retry := int64(-1)
	if d.OK {
		w.Int(0)
	} else {
		w.Int(1)
		if d.RetryAfter != engine.Never {
			retry = seconds(d.RetryAfter)
		}
	}
	w.Int(d.Limit)
	w.Int(d.Remaining)
	w.Int(retry)
	w.Int(seconds(d.ResetAfter))
}

// cellSeconds is redis-cell's rounding: cut to milliseconds, then up to whole
// seconds.
func cellSeconds(ns int64) int64 {
	return (ns/int64(time.Millisecond) + 999) / 1000
}

// ceilSeconds rounds up to whole seconds.
func ceilSeconds(ns int64) int64 {
	s := ns / int64(time.Second)
	if ns%int64(time.Second) > 0 {
		s++
	}
	return s
}

// cmdCrabThrottle is THROTTLE as throttlecrab documents it: [allowed, limit,
// remaining, reset_after, retry_after], times in whole seconds rounded down.
// Its limit is max_burst itself, and unlike throttlecrab's it is kept.
func cmdCrabThrottle(c *conn, args [][]byte) {
	b, err := parseBucketArgs(args)
	switch {
	case err != nil:
	case b.burst < 1:
		err = errors.New("ERR max_burst must be at least 1")
	case b.quantity < 0:
		err = errors.New("ERR quantity must not be negative")
	}
	if err != nil {
		c.error(err.Error())
		return
	}
	d, ok := c.decide(args[1], b.limit(b.burst), b.quantity)
	if !ok {
		return
	}
	retry := d.RetryAfter
	if retry != engine.Never {
		retry /= int64(time.Second)
	}
	c.w.Array(5)
	c.w.Int(truth(d.OK))
	c.w.Int(d.Limit)
	c.w.Int(d.Remaining)
	c.w.Int(d.ResetAfter / int64(time.Second))
	c.w.Int(retry)
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// cmdGCRA is GCRA of Redis 8.8-M03: the reply of CL.THROTTLE, seconds rounded
// up.
func cmdGCRA(c *conn, args [][]byte) {
	l, tokens, err := parseGCRA(args)
	if err != nil {
		c.error(err.Error())
		return
	}
	d, ok := c.decide(args[1], l, tokens)
	if !ok {
		return
	}
	writeCell(c.w, &d, ceilSeconds)
}

func parseGCRA(args [][]byte) (l engine.Limit, tokens int64, err error) {
	outOfRange := func(name string) error { return errors.New("ERR " + name + " is out of range") }
	burst, ok := resp.ParseInt(args[2])
	if !ok {
		return l, 0, errNotInteger
	}
	if burst < 0 || burst == math.MaxInt64 {
		return l, 0, outOfRange("max_burst")
	}
	rate, ok := resp.ParseInt(args[3])
	if !ok {
		return l, 0, errNotInteger
	}
	if rate < 1 {
		return l, 0, outOfRange("tokens_per_period")
	}
	period, err := parseFloat(args[4])
	if err != nil {
		return l, 0, err
	}
	if !(period > 0 && period < 1e12) {
		return l, 0, errors.New("ERR period must be > 0 and < 1e12")
	}
	tokens = 1
	switch rest := args[5:]; {
	case len(rest) == 0:
	case !keyword(rest[0], "TOKENS") && !keyword(rest[0], "NUM_REQUESTS"):
		return l, 0, errOptions
	case len(rest) == 1:
		return l, 0, errors.New("ERR Missing TOKENS value")
	case len(rest) > 2:
		return l, 0, errOptions
	default:
		if tokens, ok = resp.ParseInt(rest[1]); !ok {
			return l, 0, errNotInteger
		}
		if tokens < 1 {
			return l, 0, outOfRange("TOKENS")
		}
	}
	if period > float64(maxSeconds) {
		return l, 0, errors.New("ERR period is too long: the state of the limit would overflow")
	}
	return engine.Limit{
		Algorithm: engine.Token,
		Rounding:  engine.Microsecond,
		Limit:     rate,
		Period:    max(int64(period*float64(time.Second)), 1),
		Burst:     burst + 1,
	}, tokens, nil
}

// decide checks one limit and counts the outcome. On an error it has replied,
// and ok is false.
func (c *conn) decide(key []byte, l engine.Limit, cost int64) (d engine.Decision, ok bool) {
	d, err := c.sess.Decide(c.now(), key, l, cost, &noOptions)
	if err != nil {
		c.error(errEngine(err).Error())
		return d, false
	}
	c.decided(d.OK)
	return d, true
}

var noOptions engine.Options
