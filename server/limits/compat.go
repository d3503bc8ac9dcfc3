package limits

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// compatCommands returns limiter commands of other servers. Values, order and rounding
// are exactly theirs.
func compatCommands() []command.Spec {
	key := command.Keys{First: 1, Last: 1, Step: 1}
	limit := command.Write | command.DenyOOM | command.Fast | command.Limit
	return []command.Spec{{
		Name: "cl.throttle", Arity: -5, Flags: limit, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(1)",
		Summary: "Checks a token bucket as redis-cell does.",
		Syntax:  "key max-burst count period [quantity]",
		Handler: throttleCell, Headless: bucketHeadless,
	}, {
		Name: "rl.throttle", Arity: -5, Flags: limit, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(1)",
		Summary: "Checks a token bucket as redis-cell does; the same as CL.THROTTLE.",
		Syntax:  "key max-burst count period [quantity]",
		Handler: throttleCell, Headless: bucketHeadless,
	}, {
		Name: "throttle", Arity: -5, Flags: limit, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(1)",
		Summary: "Checks a token bucket as throttlecrab does.",
		Syntax:  "key max-burst count period [quantity]",
		Handler: throttleCrab, Headless: bucketHeadless,
	}, {
		Name: "gcra", Arity: -5, Flags: limit, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(1)",
		Summary: "Checks a token bucket as the GCRA command of Redis does.",
		Syntax:  "key max-burst tokens-per-period period [<TOKENS count | NUM_REQUESTS count>]",
		Handler: gcra, Headless: bucketHeadless,
	}}
}

// bucketHeadless returns how these commands are answered without a leader. A call that
// gives units back waits for the leader.
func bucketHeadless(args [][]byte) command.Headless {
	return command.Headless{Prompt: !wire.SaysHeadless(args[2:])}
}

// bucketMaxArgs is the command's name, the key and four numbers.
const bucketMaxArgs = 6

// bucketArgs are the arguments of CL.THROTTLE and THROTTLE.
type bucketArgs struct {
	burst, count, period, quantity int64
}

// parseBucketArgs reads burst, count, period and, if given, quantity.
func parseBucketArgs(args [][]byte) (b bucketArgs, err error) {
	b.quantity = 1
	fields := [...]*int64{&b.burst, &b.count, &b.period, &b.quantity}
	for i, arg := range args {
		if *fields[i], err = wire.ParseInteger(arg); err != nil {
			return b, err
		}
	}
	switch {
	case b.count < 1:
		err = errors.New("ERR count must be at least 1")
	case b.period < 1 || b.period > wire.MaxSeconds:
		err = errors.New("ERR period must be a positive number of seconds")
	}
	return b, err
}

// limit returns the bucket: count units per period, and capacity units. As in both
// servers, the time of a unit is rounded down to ns.
func (b bucketArgs) limit(capacity int64) algo.Limit {
	return algo.Limit{
		Algorithm: algo.Token,
		Rounding:  algo.Nanosecond,
		Limit:     b.count,
		Period:    b.period * int64(time.Second),
		Burst:     capacity,
	}
}

// throttleCell is CL.THROTTLE as redis-cell 0.5.0 answers it: [limited,
// limit, remaining, retry_after, reset_after], times in seconds.
func throttleCell(call *command.Call) {
	if len(call.Args) > bucketMaxArgs {
		call.Error(command.WrongArity(call.Spec))
		return
	}
	b, err := parseBucketArgs(call.Args[2:])
	if err == nil && (b.burst < 0 || b.burst == math.MaxInt64) {
		err = errors.New("ERR max_burst must be between 0 and 9223372036854775806")
	}
	if err != nil {
		call.Error(err.Error())
		return
	}
	d, ok := decide(call, call.Args[1], b.limit(b.burst+1), b.quantity)
	if !ok {
		return
	}
	writeCell(call.W, &d, cellSeconds)
}

// writeCell writes the reply of CL.THROTTLE and GCRA.
func writeCell(w *resp.Writer, d *algo.Decision, seconds func(ns int64) int64) {
	w.Array(5)
	retry := int64(-1)
	if d.OK {
		w.Int(0)
	} else {
		w.Int(1)
		if d.RetryAfter != algo.Never {
			retry = seconds(d.RetryAfter)
		}
	}
	w.Int(d.Limit)
	w.Int(d.Remaining)
	w.Int(retry)
	w.Int(seconds(d.ResetAfter))
}

// cellSeconds rounds as redis-cell does: down to milliseconds, then up to whole seconds.
func cellSeconds(ns int64) int64 {
	return (ns/int64(time.Millisecond) + 999) / 1000
}

// throttleCrab is THROTTLE as throttlecrab documents it: [allowed, limit, remaining,
// reset_after, retry_after], times in whole seconds rounded down. The limit is max_burst
// itself; throttlecrab does not enforce it exactly.
func throttleCrab(call *command.Call) {
	if len(call.Args) > bucketMaxArgs {
		call.Error(command.WrongArity(call.Spec))
		return
	}
	b, err := parseBucketArgs(call.Args[2:])
	switch {
	case err != nil:
	case b.burst < 1:
		err = errors.New("ERR max_burst must be at least 1")
	case b.quantity < 0:
		err = errors.New("ERR quantity must not be negative")
	}
	if err != nil {
		call.Error(err.Error())
		return
	}
	d, ok := decide(call, call.Args[1], b.limit(b.burst), b.quantity)
	if !ok {
		return
	}
	retry := d.RetryAfter
	if retry != algo.Never {
		retry /= int64(time.Second)
	}
	call.W.Array(5)
	call.W.Int(command.Truth(d.OK))
	call.W.Int(d.Limit)
	call.W.Int(d.Remaining)
	call.W.Int(d.ResetAfter / int64(time.Second))
	call.W.Int(retry)
}

// gcra is GCRA of Redis 8.8-M03: the reply of CL.THROTTLE, seconds rounded
// up.
func gcra(call *command.Call) {
	if len(call.Args) > 7 {
		call.Error(command.WrongArity(call.Spec))
		return
	}
	l, tokens, err := parseGCRA(call.Args[2:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	d, ok := decide(call, call.Args[1], l, tokens)
	if !ok {
		return
	}
	writeCell(call.W, &d, func(ns int64) int64 { return command.CeilUnits(ns, time.Second) })
}

// parseGCRA reads the arguments after the key. Its errors are Redis's.
func parseGCRA(args [][]byte) (l algo.Limit, tokens int64, err error) {
	burst, ok := resp.ParseInt(args[0])
	if !ok || burst < 0 {
		return l, 0, errors.New("ERR value is out of range, must be positive")
	}
	rate, err := parseAtLeastOne(args[1])
	if err != nil {
		return l, 0, err
	}
	period, err := parseFloat(args[2])
	if err != nil {
		return l, 0, err
	}
	if !(period > 0 && period < 1e12) {
		return l, 0, errors.New("ERR period must be > 0 and < 1e12")
	}
	if tokens, err = parseGCRATokens(args[3:]); err != nil {
		return l, 0, err
	}
	if interval := gcraInterval(period, rate); interval > math.MaxInt64/tokens {
		return l, 0, gcraOverflow("TOKENS")
	}
	l = algo.Limit{
		Algorithm: algo.Token,
		Rounding:  algo.Microsecond,
		Limit:     rate,
		Period:    max(int64(math.Round(min(period, float64(wire.MaxSeconds))*float64(time.Second))), 1),
		Burst:     min(burst, math.MaxInt64-1) + 1,
	}
	if l.Validate() != nil {
		return l, 0, gcraOverflow("max_burst")
	}
	return l, tokens, nil
}

func parseGCRATokens(args [][]byte) (int64, error) {
	switch {
	case len(args) == 0:
		return 1, nil
	case !command.EqualFold(args[0], "tokens") && !command.EqualFold(args[0], "num_requests"):
		return 0, command.ErrSyntax
	case len(args) == 1:
		return 0, errors.New("ERR Missing TOKENS value")
	}
	return parseAtLeastOne(args[1])
}

// parseAtLeastOne is Redis's getRangeLongFromObjectOrReply for 1 and above.
func parseAtLeastOne(b []byte) (int64, error) {
	n, ok := resp.ParseInt(b)
	switch {
	case !ok:
		return 0, command.ErrNotInteger
	case n < 1:
		return 0, errors.New("ERR value is out of range, value must between 1 and 9223372036854775807")
	}
	return n, nil
}

// gcraInterval returns the time of one token in µs as Redis computes it.
func gcraInterval(period float64, rate int64) int64 {
	return max(int64(period*1e6/float64(rate)+0.5), 1)
}

// gcraOverflow returns the error if 64 bits of µs do not suffice for Redis, or if
// max_burst takes more than 100 years to refill.
func gcraOverflow(name string) error {
	return errors.New("ERR GCRA limiting uses microsecond accuracy. Combination of period, tokens_per_period and " + name + " would cause an overflow")
}

// errNotFloat carries its RESP prefix, as clients see it.
var errNotFloat = errors.New("ERR value is not a valid float")

// parseFloat parses a decimal number as Redis does; it may be infinite.
func parseFloat(b []byte) (float64, error) {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(f) {
		return 0, errNotFloat
	}
	return f, nil
}

// decide checks one limit and counts the outcome. If it replies an error, ok is false.
func decide(call *command.Call, key []byte, l algo.Limit, cost int64) (d algo.Decision, ok bool) {
	d, err := call.Limits.Decide(call.Now, key, l, cost, &noOptions)
	if err != nil {
		call.Fail(err)
		return d, false
	}
	call.Decided(d.OK)
	return d, true
}

var noOptions algo.Options
