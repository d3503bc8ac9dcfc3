package native

import (
	"math"
	"strconv"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
)

// Common parts of scripts about counters.

// add adds n to the counter of a visit, as INCRBY does, if the numbers are exact in Lua.
func (c *Call) add(v *engine.Value, n int64) (sum int64, ok bool) {
	if !exact(n) {
		return 0, false
	}
	if v.Exists() {
		if have, ok := v.Integer(); !ok || !exact(have) {
			return 0, false
		}
	}
	sum, err := v.Add(n)
	if err != nil {
		return 0, c.failed(err)
	}
	return sum, true
}

// count adds n to the counter of the first key, if the numbers are exact in Lua. The
// first count sets when the counter ends.
func (c *Call) count(n, at int64) (sum int64, ok bool) {
	if c.expect(exact(n)); c.odd || len(c.Keys) == 0 {
		return 0, false
	}
	sum, err := c.Sess.Count(c.Now, c.Keys[0], n, mostExact, at)
	if err != nil {
		return 0, c.failed(err)
	}
	return sum, true
}

// start sets a visit's counter to n, until a time.
func (c *Call) start(v *engine.Value, n, at int64) bool {
	if err := v.SetInteger(n); err != nil {
		return c.failed(err)
	}
	v.SetDeadline(at)
	return true
}

// peek replies a counter and its time to live in ms. Both are 0 for an absent key. With
// floor, the time is also 0 for a key that does not expire.
func (c *Call) peek(floor bool) bool {
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	n, left := int64(0), int64(0)
	if v.Exists() {
		var ok bool
		if n, ok = v.Integer(); !ok || !exact(n) {
			return false
		}
		if left = c.pttl(v); floor {
			left = max(left, 0)
		}
	}
	c.pair(n, left)
	return true
}

// pair replies two integers.
func (c *Call) pair(a, b int64) {
	c.W.Array(2)
	c.W.Int(a)
	c.W.Int(b)
}

// appendPassed writes a number as redis.call passes it. ok is false if it is not finite.
func appendPassed(b []byte, f float64) (_ []byte, ok bool) {
	if n := int64(f); float64(n) == f && exact(n) && (n != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(b, n, 10), true
	}
	return resp.AppendDouble(b, f), finite(f)
}

func finite(f float64) bool { return f-f == 0 }
